"""The actors that do the work: each holds one concern, and is told what to do by messages."""
