"""The refund desk: a real job for loopwright, settling refund requests against a shop's database.

Read `agent.py` first: it puts the tools, the model and the policy together.
"""

from __future__ import annotations

from .agent import NAME as NAME
from .agent import make_agent as make_agent
from .model import RuleModel as RuleModel
from .rules import Settlement as Settlement
