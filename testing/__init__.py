"""The kit users test with: scripts, probes, a virtual clock, and the suite a store has to pass."""

from __future__ import annotations

from ._clock import VirtualClock as VirtualClock
from ._clock import settle as settle
from ._conformance import StoreConformance as StoreConformance
from ._model import ScriptedModel as ScriptedModel
from ._model import Step as Step
