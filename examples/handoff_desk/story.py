"""The tickets, as data, and how one is played: the people are played as well."""

from __future__ import annotations

from dataclasses import dataclass

from loopwright import Outcome, Reason, Runtime
from loopwright.protocol import HandedOff

from .tickets import Resolution


@dataclass(frozen=True, slots=True)
class Scenario:
    """One ticket, and what must come of it."""

    title: str
    ticket: str
    path: tuple[str, ...]
    """Who had it, in this order."""
    resolution: Resolution
    asked: Reason | None = None
    """Why a person was asked in between."""


ANSWER = "We called you: it was order 9, and the money is on its way."

SCENARIOS = (
    Scenario(
        "a plain refund",
        "Order 7 never arrived, please refund 30.00.",
        ("triage", "refunds", "billing"),
        Resolution("refunded", "RF-0007 of 30.00"),
    ),
    Scenario(
        "a question of billing",
        "The invoice of order 7 has the wrong address.",
        ("triage", "billing"),
        Resolution("corrected", "INV-0007-2"),
    ),
    Scenario(
        "nobody's ticket: refunds sends it back, and nothing has changed",
        "I want a refund!",
        ("triage", "refunds", "human-desk"),
        Resolution("answered", ANSWER),
        asked=Reason.CLARIFICATION_REQUIRED,
    ),
    Scenario(
        "a sum for which the clerk, a child, has to ask",
        "Order 8 is broken, please refund 250.00.",
        ("triage", "refunds", "billing"),
        Resolution("refunded", "RF-0008 of 250.00"),
        asked=Reason.APPROVAL_REQUIRED,
    ),
)


async def play(runtime: Runtime, scenario: Scenario) -> tuple[list[Outcome], Outcome]:
    """Run a ticket to its end; return how it stood when a person was asked, and the end."""
    waited: list[Outcome] = []
    outcome = await runtime.run("triage", scenario.ticket)
    while outcome.reason in (Reason.APPROVAL_REQUIRED, Reason.CLARIFICATION_REQUIRED):
        waited.append(outcome)
        outcome = await _ask_a_person(runtime, outcome)
    return waited, outcome


async def _ask_a_person(runtime: Runtime, outcome: Outcome) -> Outcome:
    """Say yes, or answer the question; also for a child that asks, and whose parent waits with it."""
    if outcome.proposal is None:
        run = await runtime.answer(outcome.invocation_id, ANSWER, by="mia")
    else:
        run = await runtime.approve(outcome.invocation_id, outcome.proposal.digest, by="mia")
    return await run.outcome()


async def handoffs(runtime: Runtime, outcome: Outcome) -> list[HandedOff]:
    """Read from the journal who handed it to whom, and why."""
    records = [record async for record in runtime.get(outcome.invocation_id).events()]
    return [record for record in records if isinstance(record, HandedOff)]
