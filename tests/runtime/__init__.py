"""The runtime a service embeds."""
