"""Attempts at a model that came to nothing: they are charged, durably, and are no steps."""

from __future__ import annotations

from decimal import Decimal

import pytest

from loopwright.protocol import (
    Budget,
    CancelDecide,
    Decide,
    Late,
    ModelAttempted,
    ModelErrorKind,
    Price,
    Reason,
    RunState,
    Usage,
)
from machine.driver import Driver
from machine.samples import calls
from machine.ways import held

PRICES = (
    Price("m1", Decimal(1_000), Decimal(2_000)),
    Price("m2", Decimal(100), Decimal(100)),
    Price("free", Decimal(0), Decimal(0)),
)
KINDS = ModelErrorKind


def priced(budget: Budget | None = None) -> Driver:
    """Start with prices: a thousandth of a dollar for a token of `m1`, a tenth of it for `m2`."""
    return Driver(budget, prices=PRICES).start()


def test_an_attempt_is_charged_and_is_no_step() -> None:
    """At the price of the model that was asked; what it cost is durable though nothing came of it."""
    run = priced().attempt_failed(Usage(100, 10), "m1").attempt_failed(Usage(100), "m2")
    assert run.state is RunState.MODEL_THINKING
    spent = run.machine.folded.spent
    assert (spent.steps, spent.usage, spent.cost) == (0, Usage(200, 10), Decimal("0.13"))
    assert run.commits[1:] == [("model_attempted",), ("model_attempted",)]

    run.decide(calls("read"), Usage(10), "m2").judged().assessed().done("read")
    spent = run.machine.folded.spent
    assert (spent.steps, spent.usage, spent.cost) == (1, Usage(210, 10), Decimal("0.131"))
    # The turn has only its own reply: a sum over both kinds of record counts each token once.
    assert run.turns[0].proposal.cost == Decimal("0.001")


def test_what_is_kept_of_an_attempt() -> None:
    """Which model, what kind of failure, and what it said."""
    run = priced().attempt_failed(Usage(1), "m2", KINDS.RATE_LIMITED)
    record = run.journal[-1].record
    assert isinstance(record, ModelAttempted)
    assert (record.turn, record.attempt, record.model) == (1, 1, "m2")
    assert (record.category, record.error) == ("rate_limited", "503")


def test_a_model_without_a_price_costs_nothing_and_its_tokens_count() -> None:
    """That a cost limit needs prices is checked before the start."""
    run = priced().attempt_failed(Usage(100), "unheard of")
    assert run.machine.folded.spent.cost == 0
    assert run.machine.folded.spent.usage.total == 100


def test_the_charge_survives_a_crash() -> None:
    """Asked again in a new process, the invocation has less left."""
    run = priced(Budget(max_tokens=500)).attempt_failed(Usage(300)).reload().recover()
    assert run.last(Decide).allowance.tokens == 200
    run = run.attempt_failed(Usage(200)).reload().recover()
    assert run.reason is Reason.TOKEN_BUDGET_EXHAUSTED
    assert run.all(Decide) == []
    assert run.outcome.usage == Usage(500)


def test_one_that_is_not_durable_is_lost_with_its_process() -> None:
    """The machine knows no more of it than the journal."""
    run = held(priced()).attempt_failed(Usage(300))
    assert run.machine.folded.spent.usage.total == 0
    assert run.ack().machine.folded.spent.usage.total == 300


def test_it_is_durable_before_the_turn_it_belongs_to() -> None:
    """Commits go in order: a reply that comes at once does not overtake it."""
    run = held(priced()).attempt_failed(Usage(1)).finish().ack()
    kinds = [entry.record.kind for entry in run.journal]
    assert kinds[1:] == ["model_attempted", "turn_committed", "invocation_ended"]
    assert run.reason is Reason.COMPLETED


@pytest.mark.parametrize(
    ("category", "reason"),
    [
        (KINDS.TRANSIENT, Reason.MODEL_ERROR),
        (KINDS.RATE_LIMITED, Reason.MODEL_ERROR),
        (KINDS.CONTEXT_TOO_LONG, Reason.MODEL_ERROR),
        (KINDS.PERMANENT, Reason.MODEL_ERROR),
        (KINDS.UNAVAILABLE, Reason.MODEL_ERROR),
        (KINDS.REFUSED, Reason.MODEL_REFUSED),
    ],
)
def test_how_it_ends_once_no_model_replies(category: ModelErrorKind, reason: Reason) -> None:
    """A refusal of the content is final; whatever may pass can be resumed."""
    run = priced().attempt_failed(Usage(5), category=category).fail_model("no", category)
    assert (run.reason, run.outcome.cause) == (reason, "no")
    assert reason.resumable == (reason is Reason.MODEL_ERROR)
    assert run.outcome.usage.total == 5


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(max_cost=Decimal("0.1")), Reason.COST_BUDGET_EXHAUSTED),
        (Budget(max_tokens=100), Reason.TOKEN_BUDGET_EXHAUSTED),
        (Budget(), Reason.MODEL_ERROR),
    ],
)
def test_none_is_asked_when_its_attempts_have_used_up_the_budget(
    budget: Budget, reason: Reason
) -> None:
    """It says which budget, so that the right thing can be granted."""
    run = priced(budget).attempt_failed(Usage(100)).fail_model("nothing left", KINDS.UNAVAILABLE)
    assert run.reason is reason
    assert run.outcome.usage.total == 100


def test_an_attempt_that_is_told_while_cancelling_is_charged() -> None:
    """It was made; then the wait is over as without it."""
    run = priced().cancel()
    assert [cancel.turn for cancel in run.all(CancelDecide)] == [1]
    run.attempt_failed(Usage(100)).fail_model("cancelled")
    assert run.reason is Reason.CANCELLED
    assert run.outcome.usage.total == 100


def test_nothing_is_stored_of_it_once_the_store_is_lost() -> None:
    """Whoever owns the invocation by then has its own attempts."""
    run = priced().lose_lease()
    before = len(run.journal)
    run.attempt_failed(Usage(100)).fail_model("interrupted")
    assert (run.reason, len(run.journal), run.pending) == (Reason.LEASE_LOST, before, [])


def test_one_of_another_turn_is_late() -> None:
    """Its invocation has gone on."""
    run = priced().fail_model().attempt_failed(Usage(100))
    assert run.said[-1] == Late("AttemptFailed")
    assert run.machine.folded.spent.usage.total == 0


def test_a_price_that_is_pinned_is_the_one_that_is_charged() -> None:
    """The model is shown the prices of the journal, also in a process with others."""
    run = priced()
    run.prices = ()
    run = run.reload().recover()
    assert run.last(Decide).prices == PRICES
    run.finish()
    assert run.outcome.cost == Decimal("0.12")
