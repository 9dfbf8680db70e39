"""The crash kit: real processes, killed at named points, and what must hold afterwards."""
