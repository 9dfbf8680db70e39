"""What is tried again, how long is waited, and when something is left alone."""
