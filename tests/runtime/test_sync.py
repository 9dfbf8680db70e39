"""What people say and ask about effects, without an event loop."""

from __future__ import annotations

import pytest

import loopwright
from loopwright import (
    Agent,
    ConfigurationError,
    Final,
    Policy,
    Reason,
    Reconciled,
    Runtime,
    SyncRuntime,
    applied,
    not_applied,
    rejected,
    tool,
    unknown,
)
from loopwright.policy import writes
from loopwright.protocol import UNSETTLED, AlreadyDecidedError
from loopwright.testing import ScriptedModel

sent: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    sent.clear()


@tool(effect="manual", effect_key=lambda a: f"pay:{a.order}")
async def pay(order: int) -> str:
    """Pay; the line goes dead the first time."""
    sent.append(order)
    if sent.count(order) == 1:
        raise ConnectionError("the line went dead")
    return "paid"


def till(policy: Policy | None = None) -> Agent:
    call = {"call_id": "a", "tool_name": "pay", "arguments": {"order": 7}}
    model = ScriptedModel([{"kind": "tool_calls", "calls": [call]}, Final("done")])
    return Agent("till", model=model, tools=[pay], policy=policy or Policy())


@pytest.mark.parametrize(
    ("found", "status", "times"),
    [
        (applied("r-1"), "committed", 1),
        (rejected("sent back"), "rejected", 1),
        (not_applied(), "committed", 2),
        (unknown("nobody knows"), "outcome_unknown", 1),
    ],
)
def test_settling_and_the_ledger(found: Reconciled, status: str, times: int) -> None:
    with SyncRuntime(Runtime([till()])) as runtime:
        waits = runtime.run("till", "pay 7")
        assert waits.reason is Reason.RECONCILIATION_REQUIRED
        (fact,) = runtime.effects(statuses=UNSETTLED)
        assert (fact.invocation_id, fact.entry.effect_key) == (waits.invocation_id, "pay:7")

        settled = runtime.settle(waits.invocation_id, "a", found, by="bo", turn=1)
        assert settled == waits.invocation_id
        assert runtime.outcome(waits.invocation_id).completed
        for query in (
            runtime.effects(),
            runtime.effects(invocation_id=waits.invocation_id),
            runtime.effects(effect_key="pay:7"),
            runtime.effects(tool="pay"),
        ):
            assert [fact.entry.status for fact in query] == [status]
        assert runtime.effects(tool="look") == []
        assert len(sent) == times


def test_the_first_word_stands() -> None:
    with SyncRuntime(Runtime([till()])) as runtime:
        waits = runtime.run("till", "pay 7")
        runtime.settle(waits.invocation_id, "a", applied(), by="bo")
        runtime.outcome(waits.invocation_id)
        with pytest.raises(AlreadyDecidedError):
            runtime.settle(waits.invocation_id, "a", not_applied(), by="bo")


@pytest.mark.parametrize("said", ["approve", "deny", "answer_approval"])
def test_an_answer_to_a_proposal_returns_whose_it_was(said: str) -> None:
    """Where the runtime returns a `Run`, this is its id."""
    with SyncRuntime(Runtime([till(Policy(ask=[writes()]))])) as runtime:
        asked = runtime.run("till", "pay 7")
        assert asked.proposal is not None
        identity, digest = asked.invocation_id, asked.proposal.digest
        match said:
            case "approve":
                returned = runtime.approve(identity, digest, by="bo")
            case "deny":
                returned = runtime.deny(identity, digest, by="bo")
            case _:
                returned = runtime.answer_approval(identity, digest, {"a": False}, by="bo")
        assert returned == identity


@pytest.mark.parametrize("said", ["answer", "decide"])
def test_an_answer_to_a_question_returns_whose_it_was(said: str) -> None:
    model = ScriptedModel([{"kind": "clarification", "question": "which order?"}, Final("done")])
    with SyncRuntime(Runtime([Agent("till", model=model)])) as runtime:
        identity = runtime.run("till", "pay").invocation_id
        if said == "answer":
            assert runtime.answer(identity, "7", by="bo") == identity
        else:
            assert runtime.decide(identity, Final("none"), by="bo") == identity


def test_an_approval_may_edit_what_runs() -> None:
    with SyncRuntime(Runtime([till(Policy(ask=[writes()]))])) as runtime:
        asked = runtime.run("till", "pay 7")
        assert asked.proposal is not None
        identity, digest = asked.invocation_id, asked.proposal.digest
        runtime.approve(identity, digest, by="bo", edits={"a": {"order": 8}})
        assert runtime.outcome(identity).reason is Reason.RECONCILIATION_REQUIRED
    assert sent == [8]


def test_the_words_are_public() -> None:
    for name in ("Reconciled", "applied", "rejected", "not_applied", "unknown", "Effect"):
        assert name in loopwright.__all__
        assert name in dir(loopwright)


def test_a_person_decides_and_the_inbox_is_read() -> None:
    """What waits is listed, and a person may take the step themselves."""
    asks = ScriptedModel([{"kind": "clarification", "question": "which order?"}])
    with SyncRuntime(Runtime([Agent("till", model=asks)])) as runtime:
        waits = runtime.run("till", "pay")
        (waiting,) = runtime.inbox()
        assert (waiting.invocation_id, waiting.question) == (waits.invocation_id, "which order?")
        runtime.decide(waits.invocation_id, Final("none"), by="bo")
        assert runtime.outcome(waits.invocation_id).answer == "none"
        assert runtime.inbox() == ()


def test_what_is_no_runtime_is_refused_before_a_thread_is_started() -> None:
    with pytest.raises(ConfigurationError, match=r"SyncRuntime wants a Runtime, not a list"):
        SyncRuntime([till()])  # type: ignore[arg-type]
