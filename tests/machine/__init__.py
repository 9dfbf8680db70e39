"""Tests of the pure machine, and the small driver they share."""
