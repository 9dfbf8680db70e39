"""Two shops on one desk: who may do what to which object, and up to which amount.

Read `rules.py` first. `python -m loopwright.examples.tenants` lets each of the clerks try.
"""

from __future__ import annotations

from .desk import NAME as NAME
from .desk import RuleModel as RuleModel
from .desk import make_agent as make_agent
from .office import Office as Office
from .rules import make_policy as make_policy
