"""The casebook: situations in which agent runtimes went wrong in real use, each a test."""
