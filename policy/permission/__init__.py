"""Who may run what, and who answers for it."""
