"""The kit users test with: scripts, probes, a virtual clock, and the suite a store has to pass.

The names below are imported when they are first used: pytest imports this package at its start, also
for projects that only have it installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._clock import VirtualClock as VirtualClock
    from ._clock import settle as settle
    from ._failing_store import FailingStore as FailingStore
    from ._model import ScriptedModel as ScriptedModel
    from ._model import Step as Step
    from ._probe import Probe as Probe
    from ._wrapped_store import WrappedStore as WrappedStore
    from .conformance._suite import StoreConformance as StoreConformance
    from .crash._case import CrashPoints as CrashPoints
    from .crash._points import CrashPoint as CrashPoint
    from .scripts._file import load_script as load_script
    from .scripts._file import parse_script as parse_script
    from .scripts._messages import Advance as Advance
    from .scripts._messages import Expect as Expect
    from .scripts._messages import MessageStep as MessageStep
    from .scripts._messages import ScriptMismatchError as ScriptMismatchError
    from .scripts._messages import Send as Send
    from .scripts._messages import run_actor_script as run_actor_script
    from .scripts._messages import run_script as run_script
    from .scripts._patterns import commit_of as commit_of
    from .scripts._patterns import like as like
    from .scripts._play import play as play
    from .scripts._steps import Script as Script

__all__ = [
    "Advance",
    "CrashPoint",
    "CrashPoints",
    "Expect",
    "FailingStore",
    "MessageStep",
    "Probe",
    "Script",
    "ScriptMismatchError",
    "ScriptedModel",
    "Send",
    "Step",
    "StoreConformance",
    "VirtualClock",
    "WrappedStore",
    "commit_of",
    "like",
    "load_script",
    "parse_script",
    "play",
    "run_actor_script",
    "run_script",
    "settle",
]

_HOMES = {
    "Advance": "scripts._messages",
    "CrashPoint": "crash._points",
    "CrashPoints": "crash._case",
    "Expect": "scripts._messages",
    "FailingStore": "_failing_store",
    "MessageStep": "scripts._messages",
    "Probe": "_probe",
    "Script": "scripts._steps",
    "ScriptMismatchError": "scripts._messages",
    "ScriptedModel": "_model",
    "Send": "scripts._messages",
    "Step": "_model",
    "StoreConformance": "conformance._suite",
    "VirtualClock": "_clock",
    "commit_of": "scripts._patterns",
    "like": "scripts._patterns",
    "load_script": "scripts._file",
    "parse_script": "scripts._file",
    "play": "scripts._play",
    "run_actor_script": "scripts._messages",
    "run_script": "scripts._messages",
    "settle": "_clock",
    "WrappedStore": "_wrapped_store",
}


def __getattr__(name: str) -> object:
    """Import a public name on its first use."""
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return [*__all__]
