"""loopwright: one agent invocation as a bounded, durable protocol."""
