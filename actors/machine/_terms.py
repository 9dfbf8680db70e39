"""What a machine has to know of the agents it works for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from loopwright.policy import Policy
from loopwright.protocol import Budget


class Terms(NamedTuple):
    """What a machine has to know of an agent: an invocation may be handed from one to another."""

    policy: Policy
    endpoints: frozenset[str] = frozenset()
    """Names of its models."""
    verifiers: tuple[str, ...] = ()
    """Names of those who look at its final answers, in order."""
    escape: str | None = None
    """The agent that takes over where others only hand it on."""
    children: Mapping[str, Budget] = {}
    """Of each tool that stands for a child invocation, the limits it is started with."""
    children_grace: float = 0.0
    """Seconds its children may take to end once they are told to: longer than their own grace."""
