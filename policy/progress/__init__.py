"""Whether an invocation is getting anywhere."""
