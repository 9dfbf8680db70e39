"""The handoff desk: one ticket, handed from triage to refunds to billing, or to a person.

Read `agents.py` first: it says who may hand over to whom.
"""

from __future__ import annotations

from .agents import make_agents as make_agents
from .story import SCENARIOS as SCENARIOS
from .story import Scenario as Scenario
from .story import handoffs as handoffs
from .story import play as play
from .tickets import Resolution as Resolution
