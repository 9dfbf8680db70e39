"""A real language model without a key: it runs on this machine, and it is not bright.

That is the point. Whatever such a model says is a decision of the protocol, or a fault that it is
told of; and whatever it goes on to do, the run ends within its budget, with a reason of the
closed list. Read `agent.py` for the agent, and run `python -m loopwright.examples.local_model`.
"""

from __future__ import annotations

from .agent import GOAL as GOAL
from .agent import NAME as NAME
from .agent import make_agent as make_agent
