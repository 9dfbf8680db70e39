"""Run it once, and print what the model decided, what came of it, and why it ended."""

from __future__ import annotations

import asyncio
import sys

from loopwright import Outcome, Runtime
from loopwright.protocol import ConfigurationError

from . import GOAL, make_agent


def story(outcome: Outcome) -> list[str]:
    """Tell an outcome turn by turn."""
    lines = [f"goal: {GOAL}"]
    for turn in outcome.history:
        lines.append(f"{turn.number}. {turn.proposal.decision.kind}")
        lines += [
            f"   {result.tool_name}: {result.status} {result.output or ''}".rstrip()
            for result in turn.results
        ]
        if turn.fault is not None:
            lines.append(f"   no: {turn.fault.problem}")
    used = f"{outcome.usage.input_tokens} tokens read, {outcome.usage.output_tokens} written"
    said = outcome.answer or outcome.question or outcome.cause or ""
    return [*lines, used, f"{outcome.reason}: {said}", f"advice: {outcome.reason.advice}"]


async def main() -> None:
    agent = make_agent()
    async with Runtime([agent]) as runtime:
        outcome = await runtime.run(agent.name, GOAL)
    print("\n".join(story(outcome)))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except ConfigurationError as error:
        sys.exit(str(error))
