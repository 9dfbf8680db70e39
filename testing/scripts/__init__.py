"""Message scripts: what goes in, and what must come out."""
