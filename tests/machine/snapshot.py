"""A machine as plain values, so that two moments of it can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from loopwright.actors._machine import Machine
from loopwright.protocol import InvocationState

_SCRATCH = {"_out", "trail", "_now", "_allowed"}
"""What only means something while one message is handled."""


def snapshot(machine: Machine) -> dict[str, object]:
    """Take down every slot of a machine."""
    return {name: plain(getattr(machine, name)) for name in _slots(machine) if name not in _SCRATCH}


def plain(value: object) -> object:
    """Turn a value into something that compares by content and can't change any more."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {plain(key): plain(item) for key, item in mapping.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("list[object]", value)]
    if isinstance(value, InvocationState):
        # How far its digest has been brought up to date shows nowhere; what it comes to does.
        parts = (value.protocol, value.business, value.context_digest, value.context_chars)
        return [plain(part) for part in parts]
    if type(value).__module__.startswith("loopwright.") and (slots := _slots(value)):
        return {name: plain(getattr(value, name)) for name in slots}
    return value


def _slots(value: object) -> list[str]:
    return [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
