"""A machine as plain values, so that two moments of it can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from loopwright.actors.machine._machine import Machine
from loopwright.protocol import InvocationState

_SCRATCH = {"_out", "trail", "_now", "_allowed"}
"""What only means something while one message is handled."""
_CACHED = {"_cut"}
"""What is kept to save time, and shows nowhere."""
_LEAVES = (str, int, float, bytes, type(None))


def snapshot(machine: Machine) -> dict[str, object]:
    """Take down every slot of a machine."""
    return {
        name: plain(getattr(machine, name))
        for name in _slots(type(machine))
        if name not in _SCRATCH
    }


def plain(value: object) -> object:
    """Turn a value into something that compares by content and can't change any more."""
    if isinstance(value, _LEAVES):
        return value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {plain(key): plain(item) for key, item in mapping.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("list[object]", value)]
    if isinstance(value, InvocationState):
        # How far its digest has been brought up to date shows nowhere; what it comes to does.
        parts = (
            value.protocol,
            value.business,
            value.context_digest,
            value.context_chars,
            list(value.turn_seqs),
            list(value.found_seqs),
        )
        return [plain(part) for part in parts]
    slots = _slots(type(value))
    return {name: plain(getattr(value, name)) for name in slots} if slots else value


_known: dict[type, tuple[str, ...]] = {}


def _slots(kind: type) -> tuple[str, ...]:
    """Name what makes up a value of ours; what is frozen stays as it is, and compares by content."""
    if kind not in _known:
        params = getattr(kind, "__dataclass_params__", None)
        ours = kind.__module__.startswith("loopwright.") and not getattr(params, "frozen", False)
        names = (name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
        _known[kind] = tuple(name for name in names if name not in _CACHED) if ours else ()
    return _known[kind]
