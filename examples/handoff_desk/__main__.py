"""Play all tickets, and print who had each, what a person was asked, and what came of it."""

from __future__ import annotations

import asyncio

from loopwright import Runtime

from . import SCENARIOS, handoffs, make_agents, play


async def main() -> None:
    agents = {agent.name: agent for agent in make_agents()}
    async with Runtime(list(agents.values())) as runtime:
        for scenario in SCENARIOS:
            print(f"\n{scenario.title}\n  triage gets: {scenario.ticket}")
            waited, outcome = await play(runtime, scenario)
            for handed in await handoffs(runtime, outcome):
                note, how = handed.progress, "escapes" if handed.escaped else "hands it over"
                print(f"  {handed.source} {how} to {handed.target}: {handed.reason}")
                evidence = f" (evidence: {', '.join(note.evidence)})" if note.evidence else ""
                print(f"    done: {'; '.join(note.done) or 'nothing'}{evidence}")
                print(f"    open: {'; '.join(note.open)}")
            for asked in waited:
                whom = "a child of it" if asked.waits_for else asked.agent
                asks = asked.proposal.asks if asked.proposal else ()
                what = [f"{ask.tool_name} {ask.arguments}" for ask in asks] or [asked.question]
                print(f"  in between {whom} asked mia: {asked.reason}: {'; '.join(what)}")
            said = agents[outcome.agent].parse_output(outcome)
            print(f"  {outcome.reason} by {outcome.agent} after {outcome.steps} steps: {said}")


if __name__ == "__main__":
    asyncio.run(main())
