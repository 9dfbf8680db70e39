"""Loops and work that only looks like one: each trajectory with the verdict it has to get."""
