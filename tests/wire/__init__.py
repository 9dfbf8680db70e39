"""What stands for a provider in tests: servers on loopback, and what may be said to them."""
