"""Closed vocabularies: enums whose members are their own stable text."""

from __future__ import annotations

from enum import StrEnum


class Word(StrEnum):
    """A member of a closed vocabulary, equal to its text and hashed like it.

    An enum's own hash is a Python call, and tables are looked up by these at every message.
    """

    __hash__ = str.__hash__
