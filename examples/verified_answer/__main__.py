"""Run it once, and print what was claimed, what came of each claim, and what was done."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from loopwright import Final, Outcome, Runtime

from . import GOAL, make_agent, make_project


def story(outcome: Outcome) -> list[str]:
    """Tell an outcome turn by turn."""
    lines = [f"goal: {GOAL}"]
    for turn in outcome.history:
        decision = turn.proposal.decision
        if isinstance(decision, Final):
            lines.append(f"{turn.number}. claims: {decision.answer} {decision.output}")
            verdict = "it stands" if turn.fault is None else f"no: {turn.fault.problem}"
            lines += [f"   {line}" for line in verdict.splitlines()]
        for result in turn.results:
            lines.append(f"{turn.number}. does: {result.tool_name} -> {result.output}")
    return [*lines, f"{outcome.reason}: {outcome.answer}"]


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="loopwright-verified-") as made:
        project = Path(made)
        make_project(project)
        agent = make_agent(project)
        async with Runtime([agent]) as runtime:
            outcome = await runtime.run(agent.name, GOAL)
    print("\n".join(story(outcome)))


if __name__ == "__main__":
    asyncio.run(main())
