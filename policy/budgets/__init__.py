"""Limits: when they are reached, what is left, what children get, and stop conditions."""
