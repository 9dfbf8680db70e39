"""What a user declares: agents, tools, models, verifiers."""
