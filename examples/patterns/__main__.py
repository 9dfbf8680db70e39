"""Play all five, and print what each did and why it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from loopwright import Clarification, Final, Outcome, Runtime
from loopwright.protocol import CannotContinue

from . import stories
from .heartbeat import Pace, heartbeat


def told(outcome: Outcome) -> Iterator[str]:
    """Tell an invocation turn by turn."""
    for turn in outcome.history:
        decision, fault = turn.proposal.decision, turn.fault
        match decision:
            case Final(answer=said) | Clarification(question=said) | CannotContinue(reason=said):
                yield f"{turn.number}. says: {said or decision}"
            case _:
                pass
        for result in turn.results:
            what = result.output if result.error is None else result.error.message
            yield f"{turn.number}. {result.tool_name} -> {result.status}: {what}"
        if fault is not None:
            yield f"{turn.number}. no ({fault.level}): {fault.problem}"
    yield f"=> {outcome.reason}: {outcome.answer or outcome.output or outcome.cause}"


async def main() -> None:
    heart = stories.heart_agent()
    played = (
        (stories.react_agent(), stories.REACT_GOAL),
        (stories.plan_agent(), stories.PLAN_GOAL),
        (stories.regex_agent(), stories.REFLEXION_GOAL),
        (stories.graph_agent(), stories.GRAPH_GOAL),
    )
    async with Runtime([heart, *(agent for agent, _ in played)]) as runtime:
        for agent, goal in played:
            print(f"\n{agent.name}: {goal}")
            for line in told(await runtime.run(agent.name, goal)):
                print(f"  {line}")
        print(f"\n{heart.name}: {stories.HEART_GOAL}")
        pace = Pace(max_beats=5, shortest=0.001)
        beats, stopped = await heartbeat(
            runtime, heart, stories.HEART_GOAL, name="order-8", pace=pace
        )
        for number, outcome in enumerate(beats, 1):
            print(f"  beat {number}: {outcome.reason} {outcome.output}")
        print(f"  => {stopped}")


if __name__ == "__main__":
    asyncio.run(main())
