"""The store in memory: for tests, and for what need not outlive the process."""
