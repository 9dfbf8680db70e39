"""Five patterns for agents, each a small decider under the one runtime, which bounds them all.

- `react`: thoughts, actions and observations as text; `Final Answer:` ends it.
- `plan_execute`: a plan on record, with a version; a step that fails leads to the next version.
- `reflexion`: try again on what verifiers and tools have said, a few times.
- `graph`: from node to node along edges whose conditions hold.
- `heartbeat`: started again and again, as long as it asks to be.

Each decides from the goal and the committed turns alone, and so goes on anywhere after a crash.
`stories.py` has an agent for each, with a model made of rules, and `python -m
loopwright.examples.patterns` plays them.
"""

from __future__ import annotations

from .graph import Ask as Ask
from .graph import Call as Call
from .graph import Edge as Edge
from .graph import Finish as Finish
from .graph import Graph as Graph
from .graph import State as State
from .graph import Workflow as Workflow
from .graph import failed as failed
from .graph import succeeded as succeeded
from .heartbeat import Beat as Beat
from .heartbeat import Heart as Heart
from .heartbeat import Pace as Pace
from .heartbeat import heartbeat as heartbeat
from .plan_execute import Plan as Plan
from .plan_execute import PlanAndExecute as PlanAndExecute
from .plan_execute import Planner as Planner
from .plan_execute import Ran as Ran
from .plan_execute import Step as Step
from .plan_execute import Task as Task
from .plan_execute import record_plan as record_plan
from .react import STOP as STOP
from .react import ReAct as ReAct
from .react import TextModel as TextModel
from .react import parse_step as parse_step
from .react import prompt_of as prompt_of
from .reflexion import Attempt as Attempt
from .reflexion import Feedback as Feedback
from .reflexion import Reflexion as Reflexion
from .reflexion import Trial as Trial
from .reflexion import reflexion_agent as reflexion_agent
