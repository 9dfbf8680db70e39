"""What is heard of a reply while it comes: for people who watch, never journaled."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class LiveText(NamedTuple):
    """Some text of a reply that is under way. It counts once its turn is committed."""

    turn: int
    attempt: int
    endpoint: str
    """Name of the model."""
    text: str


class Discarded(NamedTuple):
    """That attempt has failed: whatever was heard of it is not part of any reply."""

    turn: int
    attempt: int
    endpoint: str
    error: str


Live: TypeAlias = LiveText | Discarded
