"""The pytest plugin: collects message scripts."""
