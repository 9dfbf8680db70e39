"""What can go wrong with a server, beside what its tools say themselves."""

from __future__ import annotations

from loopwright.protocol import LoopwrightError


class MCPConnectError(LoopwrightError):
    """Raised when an MCP server cannot be connected to, or says of itself what cannot be used."""


class MCPNoAnswerError(ConnectionError):
    """Raised when a server was told to run a tool, and nobody knows what came of it.

    A read has failed with it; of a write it says nothing.
    """


class NotSentError(Exception):
    """Raised when the line was dead before anything was sent: another one may be tried."""
