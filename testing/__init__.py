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
    from ._conformance import StoreConformance as StoreConformance
    from ._crash_case import CrashPoints as CrashPoints
    from ._crash_points import CrashPoint as CrashPoint
    from ._failing_store import FailingStore as FailingStore
    from ._messages import Advance as Advance
    from ._messages import Expect as Expect
    from ._messages import MessageStep as MessageStep
    from ._messages import ScriptMismatchError as ScriptMismatchError
    from ._messages import Send as Send
    from ._messages import run_actor_script as run_actor_script
    from ._messages import run_script as run_script
    from ._model import ScriptedModel as ScriptedModel
    from ._model import Step as Step
    from ._patterns import commit_of as commit_of
    from ._patterns import like as like
    from ._play import play as play
    from ._probe import Probe as Probe
    from ._script import Script as Script
    from ._script_file import load_script as load_script
    from ._script_file import parse_script as parse_script
    from ._wrapped_store import WrappedStore as WrappedStore

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
    "Advance": "_messages",
    "CrashPoint": "_crash_points",
    "CrashPoints": "_crash_case",
    "Expect": "_messages",
    "FailingStore": "_failing_store",
    "MessageStep": "_messages",
    "Probe": "_probe",
    "Script": "_script",
    "ScriptMismatchError": "_messages",
    "ScriptedModel": "_model",
    "Send": "_messages",
    "Step": "_model",
    "StoreConformance": "_conformance",
    "VirtualClock": "_clock",
    "commit_of": "_patterns",
    "like": "_patterns",
    "load_script": "_script_file",
    "parse_script": "_script_file",
    "play": "_play",
    "run_actor_script": "_messages",
    "run_script": "_messages",
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
