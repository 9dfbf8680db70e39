"""No permutation of approval answers runs anything that is not approved under today's policy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright import Agent, Final, LoopwrightError, Outcome, Policy, Runtime, ToolContext, tool
from loopwright.policy import over
from loopwright.protocol import CallId, JsonObject, ToolCall, ToolCalls
from loopwright.stores import MemoryStore
from loopwright.testing import ScriptedModel, VirtualClock


class Terms(NamedTuple):
    """A policy, in numbers."""

    ask_above: int
    at_most: int
    version: str
    mixed_batch: Literal["graph", "serial", "reject"] = "graph"

    def policy(self) -> Policy:
        return Policy(
            version=self.version,
            ask=[over(self.ask_above)],
            deny=[over(self.at_most)],
            mixed_batch=self.mixed_batch,
        )


class Answer(NamedTuple):
    """What a human says of a call, after the policy may have changed."""

    call: int
    said: Literal["yes", "no", "edit"]
    amount: int
    terms: Terms


class Ran(NamedTuple):
    """One payment, and what was in force when it was made."""

    call_id: str
    amount: int
    terms: Terms
    digest: str


@dataclass
class World:
    """Everything that happens to one invocation."""

    amounts: tuple[int, ...]
    terms: Terms
    digest: str = ""
    """Of the proposal that waits, or was the last one to wait."""
    yeses: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """By digest and call, the amount that somebody has approved."""
    nos: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    ran: list[Ran] = field(default_factory=list[Ran])

    def __post_init__(self) -> None:
        calls = [
            ToolCall(CallId(f"c{place}"), "pay", {"amount": amount})
            for place, amount in enumerate(self.amounts)
        ]
        self.store = MemoryStore()
        self.model = ScriptedModel([ToolCalls(tuple(calls)), *[Final("done")] * 3])

    def agent(self) -> Agent:
        @tool(effect="idempotent", writes=lambda call: [f"purse:{call.amount % 2}"])
        async def pay(amount: int, ctx: ToolContext) -> str:
            self.ran.append(Ran(ctx.call_id, amount, self.terms, self.digest))
            return "paid"

        return Agent("desk", model=self.model, tools=[pay], policy=self.terms.policy())

    async def play(self, answers: Sequence[Answer]) -> Outcome:
        """Start it, and give it one answer after the other, each in a process of its own."""
        async with Runtime([self.agent()], store=self.store, clock=VirtualClock()) as runtime:
            outcome = await runtime.run("desk", "pay")
        return await self.go_on(outcome, answers)

    async def go_on(self, outcome: Outcome, answers: Sequence[Answer]) -> Outcome:
        """Give it further answers."""
        for answer in answers:
            if outcome.proposal is None:
                break
            self.digest, self.terms = outcome.proposal.digest, answer.terms
            async with Runtime([self.agent()], store=self.store, clock=VirtualClock()) as runtime:
                outcome = await self.give(runtime, outcome, answer)
        return outcome

    async def give(self, runtime: Runtime, outcome: Outcome, answer: Answer) -> Outcome:
        name, call_id = outcome.invocation_id, f"c{answer.call}"
        key = (self.digest, call_id)
        try:
            match answer.said:
                case "no":
                    run = await runtime.deny(name, self.digest, by="bo", calls=[call_id])
                    self.nos.add(key)
                case "yes":
                    run = await runtime.approve(name, self.digest, by="bo", calls=[call_id])
                    self.yeses[key] = self.amounts[answer.call]
                case "edit":
                    edits: dict[str, JsonObject] = {call_id: {"amount": answer.amount}}
                    run = await runtime.approve(
                        name, self.digest, by="bo", calls=[call_id], edits=edits
                    )
                    self.yeses[key] = answer.amount
        except LoopwrightError:
            # It was answered before, is no call, or may not run so: the first word stands.
            return await runtime.outcome(name)
        return await run.outcome()

    def check(self) -> None:
        """Nothing has run that was not approved, as it ran, under the policy of its day."""
        for ran in self.ran:
            key = (ran.digest, ran.call_id)
            approved = self.yeses.get(key)
            assert ran.amount <= ran.terms.at_most, ran
            assert key not in self.nos, ran
            assert approved is None or approved == ran.amount, ran
            if ran.amount > ran.terms.ask_above:
                assert approved == ran.amount, ran
        calls = [ran.call_id for ran in self.ran]
        assert len(calls) == len(set(calls))


TERMS = st.builds(
    Terms,
    st.sampled_from([5, 50]),
    st.sampled_from([20, 100, 1_000]),
    st.sampled_from(["1", "2"]),
    st.sampled_from(["graph", "serial"]),
)
AMOUNTS = st.lists(st.sampled_from([1, 2, 10, 30, 200]), min_size=1, max_size=4).map(tuple)
ANSWERS = st.lists(
    st.builds(
        Answer,
        st.integers(0, 3),
        st.sampled_from(["yes", "yes", "no", "edit"]),
        st.sampled_from([1, 15, 60, 5_000]),
        TERMS,
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(AMOUNTS, TERMS, ANSWERS)
def test_nothing_runs_that_is_not_approved_under_todays_policy(
    amounts: tuple[int, ...], terms: Terms, answers: list[Answer]
) -> None:
    """Answers in any order, some of them nonsense, while the policy changes between them."""
    world = World(amounts, terms)
    asyncio.run(world.play([a for a in answers if a.call < len(amounts)]))
    world.check()


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_every_permutation_of_answers_runs_exactly_what_was_approved(
    order: tuple[int, ...],
) -> None:
    """Approved calls as approved, edited ones as edited, denied ones never; whatever comes first."""
    terms = Terms(5, 1_000, "1")
    words: tuple[Literal["yes", "no", "edit"], ...] = ("yes", "no", "edit")
    for said in product(words, repeat=3):
        world = World((10, 20, 30), terms)
        answers = [Answer(call, said[call], 40 + call, terms) for call in order]
        outcome = asyncio.run(world.play(answers))
        world.check()
        expected = {
            f"c{call}": 40 + call if word == "edit" else world.amounts[call]
            for call, word in enumerate(said)
            if word != "no"
        }
        assert {ran.call_id: ran.amount for ran in world.ran} == expected
        if said != ("no", "no", "no"):
            assert outcome.completed


def test_a_policy_that_changes_meanwhile_voids_what_was_said() -> None:
    """Its version is part of the digest: everybody is asked again."""
    before, after = Terms(5, 1_000, "1"), Terms(5, 1_000, "2")
    world = World((10, 20), before)
    first = [Answer(0, "yes", 0, before), Answer(1, "yes", 0, after)]
    outcome = asyncio.run(world.play(first))
    assert world.ran == []
    assert outcome.proposal is not None
    assert [ask.call_id for ask in outcome.proposal.asks] == ["c0", "c1"]
    assert outcome.proposal.digest != world.digest


def test_a_policy_that_denies_meanwhile_denies_what_was_approved() -> None:
    """The same version, another rule: the answers hold, and the call does not run."""
    world = World((10,), Terms(5, 1_000, "1"))
    asyncio.run(world.play([Answer(0, "yes", 0, Terms(5, 9, "1"))]))
    assert world.ran == []


def test_a_further_question_keeps_the_answers_there_are() -> None:
    """The same proposal under the same version, with a rule that asks about one call more."""
    wide, narrow = Terms(50, 1_000, "1"), Terms(5, 1_000, "1")
    world = World((200, 10), wide)
    outcome = asyncio.run(world.play([Answer(0, "yes", 0, narrow)]))
    assert outcome.proposal is not None
    assert [ask.call_id for ask in outcome.proposal.asks] == ["c1"]
    outcome = asyncio.run(world.go_on(outcome, [Answer(1, "yes", 0, narrow)]))
    assert outcome.completed
    assert sorted(ran.amount for ran in world.ran) == [10, 200]


def test_a_no_survives_a_new_version_of_the_policy() -> None:
    """What was said yes to is asked again; what was said no to never runs."""
    old, new, lax = Terms(5, 1_000, "1"), Terms(5, 1_000, "2"), Terms(15, 1_000, "2")
    world = World((10, 20), old)
    outcome = asyncio.run(world.play([Answer(0, "no", 0, old), Answer(1, "yes", 0, new)]))
    assert outcome.proposal is not None
    assert [ask.call_id for ask in outcome.proposal.asks] == ["c1"]
    outcome = asyncio.run(world.go_on(outcome, [Answer(1, "yes", 0, lax)]))
    assert outcome.completed
    assert [ran.call_id for ran in world.ran] == ["c1"]
