"""Tests of registration, and of the service actors that run or judge other people's code."""
