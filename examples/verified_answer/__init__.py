"""A verified answer: what a model says is a claim, and three layers of verifiers look at it.

Read `layers.py` for the verifiers and `agent.py` for who has to stand up to them.
"""

from __future__ import annotations

from .agent import GOAL as GOAL
from .agent import NAME as NAME
from .agent import make_agent as make_agent
from .layers import command as command
from .layers import has_fields as has_fields
from .layers import receipts_exist as receipts_exist
from .project import make_project as make_project
