"""An agent with one tool of each effect class, which does what the plan in its folder says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from crash.ledger import Ledger
from loopwright import Agent, Budget, Final, ModelReply, ModelRequest, Policy, ToolContext, tool
from loopwright.policy import Access
from loopwright.protocol import (
    CallId,
    Claim,
    Effect,
    Reconciled,
    ToolCall,
    ToolCalls,
    Usage,
    Verification,
    dumps,
    loads,
    passed,
    unknown,
)

NAME = "desk"
Plan = list[list[tuple[str, bool]]]
"""Turns of calls: the tool, and whether a person is asked first."""
When = Literal["before", "after"]


def write_plan(
    folder: Path,
    plan: Plan,
    *,
    reachable: bool = True,
    torn: Mapping[str, When] = MappingProxyType({}),
    verified: bool = False,
) -> None:
    """Say what the agent of a case does.

    Args:
        folder: Of the case.
        plan: The turns; the second call of the first turn is about the item `1.2`.
        reachable: Whether the downstream can be asked what became of a write.
        torn: By item, whether the line goes dead before or after the effect of the first attempt.
        verified: Whether two verifiers look at the answer, `blocking` and then `awaiting`.
    """
    (folder / "plan.json").write_bytes(dumps({"turns": plan, "torn": torn, "verified": verified}))
    if not reachable:
        (folder / "unreachable").touch()


class PlannedModel:
    """Says the turns of a plan, and ends; it keeps nothing, so it may be asked again.

    Args:
        plan: The turns.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Say this turn."""
        turn = request.turn
        if turn > len(self._plan):
            return ModelReply(Final("done"), Usage(1, 1))
        calls = [
            ToolCall(CallId(f"c{n}"), name, {"item": f"{turn}.{n}", "ask": ask})
            for n, (name, ask) in enumerate(self._plan[turn - 1], 1)
        ]
        return ModelReply(ToolCalls(tuple(calls)), Usage(1, 1))


def wants_a_person(access: Access) -> bool:
    """Hold for a call that says so."""
    return access.arguments.get("ask") is True


def make_agent(folder: Path) -> Agent:
    """Make the agent of a case: what the crash kit calls in each life."""
    ledger = Ledger(folder)
    said: Any = loads((folder / "plan.json").read_bytes())

    def act(name: str, item: str, ctx: ToolContext, *, once: bool) -> str:
        key, torn = ctx.effect_key, said["torn"].get(item) if ctx.attempt == 1 else None
        assert key is not None
        voided = ledger.enter(name, key)
        if torn == "before":
            raise ConnectionError("the line is dead")
        ledger.apply(key, voided, once=once)
        if torn == "after":
            raise ConnectionError("the line is dead")
        return f"receipt of {key}"

    @tool(effect=Effect.READ)
    async def read(item: str, ask: bool) -> str:
        ledger.enter("read")
        return f"state of {item}"

    @tool(effect=Effect.READ)
    async def slow(item: str, ask: bool) -> str:
        """Take longer than a record waits for company."""
        ledger.enter("slow")
        await asyncio.sleep(0.03)
        return f"state of {item}"

    @tool(effect=Effect.IDEMPOTENT, effect_key=lambda a: f"idempotent:{a.item}")
    def idempotent(item: str, ask: bool, ctx: ToolContext) -> str:
        return act("idempotent", item, ctx, once=True)

    @tool(effect=Effect.RECONCILABLE, effect_key=lambda a: f"reconcilable:{a.item}")
    async def reconcilable(item: str, ask: bool, ctx: ToolContext) -> str:
        return act("reconcilable", item, ctx, once=False)

    @reconcilable.reconcile
    async def _(effect_key: str) -> Reconciled:
        if (folder / "unreachable").exists():
            return unknown("nobody answers")
        return ledger.truth(effect_key)

    @tool(effect=Effect.MANUAL, effect_key=lambda a: f"manual:{a.item}")
    async def manual(item: str, ask: bool, ctx: ToolContext) -> str:
        return act("manual", item, ctx, once=False)

    def blocking(claim: Claim) -> Verification:
        ledger.enter("blocking")
        return passed()

    async def awaiting(claim: Claim) -> Verification:
        ledger.enter("awaiting")
        return passed()

    return Agent(
        NAME,
        model=PlannedModel(said["turns"]),
        tools=[read, slow, idempotent, reconcilable, manual],
        policy=Policy(ask=[wants_a_person], cancel_grace=2.0),
        budget=Budget(max_steps=10),
        verifiers=[blocking, awaiting] if said["verified"] else [],
    )
