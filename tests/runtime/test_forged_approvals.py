"""10,000 mutated, replayed, expired and foreign approvals: every one is refused, and runs nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from loopwright import Agent, Final, LoopwrightError, Outcome, Policy, Reason, Runtime, tool
from loopwright.policy import proposal_digest, writes
from loopwright.protocol import CallId, InvocationId, JsonObject, ToolCall, ToolCalls
from loopwright.testing import ScriptedModel, VirtualClock

pytestmark = pytest.mark.anyio

FORGERIES = 10_000
EXPIRES = 600.0


@dataclass
class Bank:
    """A desk that transfers with a human's yes, and what it has transferred."""

    transferred: list[int] = field(default_factory=list[int])

    def agent(self, *steps: Any, expires: float | None = None) -> Agent:
        @tool(effect="manual")
        async def transfer(amount: int) -> int:
            self.transferred.append(amount)
            return amount

        policy = Policy(ask=[writes()], approval_expires=expires)
        name = "desk" if expires is None else "brief-desk"
        return Agent(name, model=ScriptedModel(steps), tools=[transfer], policy=policy)


def transfers(*amounts: int) -> ToolCalls:
    """A batch of transfers: c1, c2 and so on."""
    return ToolCalls(
        tuple(
            ToolCall(CallId(f"c{place}"), "transfer", {"amount": amount})
            for place, amount in enumerate(amounts, 1)
        )
    )


class Forgery(NamedTuple):
    """An answer that must not count."""

    kind: str
    name: str
    digest: str
    by: Any = "mallory"
    calls: Any = None
    answers: Any = None
    edits: Any = None


def shown(outcome: Outcome) -> str:
    assert outcome.proposal is not None
    return outcome.proposal.digest


def mutated(chance: random.Random, digest: str) -> str:
    """Change a digest a little, so that it is another one."""
    place = chance.randrange(len(digest))
    ways: Sequence[Callable[[], str]] = (
        lambda: digest[:place] + chance.choice("ghxyz") + digest[place + 1 :],
        lambda: digest[:place] + digest[place + 1 :],
        lambda: digest[:place],
        lambda: digest + chance.choice("0aF "),
        lambda: f" {digest}",
        lambda: f"sha256:{digest}",
        lambda: digest[::-1] + "0",
        lambda: "".join(chance.choice("0123456789abcdef") for _ in digest),
    )
    return chance.choice(ways)()


def forgeries(
    seed: int,
    waiting: Sequence[Outcome],
    late: Sequence[Outcome],
    old: Sequence[str],
    alike: Sequence[str],
) -> Iterator[Forgery]:
    """Make answers without end, none of them genuine.

    Args:
        seed: Of all choices.
        waiting: Invocations that wait for a human.
        late: Invocations that have waited for too long.
        old: Digests of proposals that were answered before.
        alike: Digests of much the same proposal.
    """
    chance = random.Random(seed)
    while True:
        one = chance.choice(waiting)
        name, genuine = one.invocation_id, shown(one)
        other = chance.choice([o for o in waiting if o is not one])
        yield Forgery("mutated", name, mutated(chance, genuine))
        yield Forgery("foreign", name, shown(other))
        yield Forgery("foreign", other.invocation_id, genuine, calls=["c1"])
        yield Forgery("replayed", name, chance.choice(old))
        expired = chance.choice(late)
        yield Forgery("expired", expired.invocation_id, shown(expired), by="bo")
        yield Forgery("alike", name, chance.choice(alike))
        yield Forgery("no such run", f"{name}{chance.randrange(10)}", genuine)
        ghosts: Any = (["ghost"], ["c1", "ghost"], ["C1"], [""], [], ["transfer"], "c1", [1])
        yield Forgery("wrong calls", name, genuine, calls=chance.choice(ghosts))
        yield Forgery("nobody", name, genuine, by=chance.choice(["", "  ", "\t", None, 7, ["bo"]]))
        said: Any = (1, "yes", "true", None, [True], 1.0)
        yield Forgery("not a yes", name, genuine, answers={"c1": chance.choice(said)})
        yield Forgery("not a yes", name, genuine, answers={"c1": True, "c2": chance.choice(said)})
        yield Forgery("not a yes", name, genuine, answers={})
        edits: Any = ({"c1": {"amount": "x"}}, {"c1": {}}, {"ghost": {"amount": 1}}, {"c1": 5})
        yield Forgery("edited", name, genuine, edits=chance.choice(edits))


def alike(invocation_id: InvocationId) -> Iterator[str]:
    """Digest the first proposal of an invocation, and then what is almost that."""
    schema = schema_of(Bank().agent())
    first: list[tuple[CallId, str, JsonObject, str]] = [
        (CallId("c1"), "transfer", {"amount": 1}, schema),
        (CallId("c2"), "transfer", {"amount": 2}, schema),
    ]
    yield proposal_digest(first, "1", invocation_id, 1)
    yield proposal_digest(first, "1", invocation_id, 2)
    yield proposal_digest(first, "2", invocation_id, 1)
    yield proposal_digest(first, "1", InvocationId(f"{invocation_id}x"), 1)
    yield proposal_digest(first[::-1], "1", invocation_id, 1)
    yield proposal_digest(first[:1], "1", invocation_id, 1)
    yield proposal_digest([(*one[:3], "") for one in first], "1", invocation_id, 1)
    more: JsonObject = {"amount": 9}
    yield proposal_digest([(*first[0][:2], more, schema), first[1]], "1", invocation_id, 1)


def schema_of(desk: Agent) -> str:
    return desk.tools["transfer"].schema_version


async def give(runtime: Runtime, forged: Forgery) -> None:
    if forged.answers is not None:
        await runtime.answer_approval(forged.name, forged.digest, forged.answers, by=forged.by)
    else:
        await runtime.approve(
            forged.name, forged.digest, by=forged.by, calls=forged.calls, edits=forged.edits
        )


async def lengths(runtime: Runtime, outcomes: Sequence[Outcome]) -> list[int]:
    """Count the records of each invocation."""
    return [
        len([r async for r in runtime.get(outcome.invocation_id).events()]) for outcome in outcomes
    ]


async def test_ten_thousand_forged_approvals() -> None:
    """Each gets a typed error and leaves no record; the genuine ones still count."""
    bank, clock = Bank(), VirtualClock()
    steps = [transfers(1, 2), transfers(3, 4), transfers(1, 2), transfers(1, 2)]
    desk = bank.agent(*steps, *[Final("done")] * 3)
    brief = bank.agent(*[transfers(7)] * 20, *[Final("done")] * 20, expires=EXPIRES)
    async with Runtime([desk, brief], clock=clock) as runtime:
        late = [await runtime.run("brief-desk", "the goal") for _ in range(20)]
        await clock.advance(EXPIRES)
        one, other, third = [await runtime.run("desk", "the goal") for _ in range(3)]
        # The third has been approved once before, and waits a second time, for the same calls.
        run = await runtime.approve(third.invocation_id, shown(third), by="bo")
        again = await run.outcome()
        assert (again.reason, bank.transferred) == (Reason.APPROVAL_REQUIRED, [1, 2])
        waiting = [one, other, again]
        before, seen = await lengths(runtime, waiting), Counter[str]()
        genuine, *almost = alike(one.invocation_id)
        assert genuine == shown(one)
        made = forgeries(20261130, waiting, late, [shown(third)], almost)
        for _ in range(FORGERIES):
            forged = next(made)
            with pytest.raises(LoopwrightError):
                await give(runtime, forged)
            seen[forged.kind] += 1
        assert bank.transferred == [1, 2]
        assert await lengths(runtime, waiting) == before
        assert min(seen.values()) > FORGERIES / 20
        for outcome in waiting:
            after = await runtime.outcome(outcome.invocation_id)
            assert (after.reason, shown(after)) == (outcome.reason, shown(outcome))
            run = await runtime.approve(outcome.invocation_id, shown(outcome), by="bo")
            assert (await run.outcome()).completed
    assert sorted(bank.transferred) == [1, 1, 1, 2, 2, 2, 3, 4]


async def test_an_approval_that_comes_too_late_is_refused() -> None:
    """B81: time makes a genuine digest a void one; what it was for is denied, by nobody."""
    bank, clock = Bank(), VirtualClock()
    desk = bank.agent(*[transfers(1)] * 20, *[Final("done")] * 20, expires=EXPIRES)
    async with Runtime([desk], clock=clock) as runtime:
        outcomes = [await runtime.run("brief-desk", "the goal") for _ in range(20)]
        proposal = outcomes[0].proposal
        assert proposal is not None
        assert proposal.expires_at == clock.now().wall + EXPIRES
        await clock.advance(EXPIRES + 1)
        for late in outcomes:
            for calls in (None, ["c1"]):
                with pytest.raises(LoopwrightError):
                    await runtime.approve(late.invocation_id, shown(late), by="bo", calls=calls)
            after = await runtime.outcome(late.invocation_id)
            assert after.completed
            (result,) = after.history[0].results
            assert result.status == "denied"
            assert result.error is not None
            assert result.error.type == "ApprovalExpired"
    assert bank.transferred == []
