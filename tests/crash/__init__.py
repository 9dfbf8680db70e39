"""Killing processes at every named point, with every effect class."""
