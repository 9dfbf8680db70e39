"""The refund desk settles every request as expected, pays once, and asks a human only when it must."""

from __future__ import annotations

import csv
import sys
from decimal import Decimal
from pathlib import Path

import anyio
import pytest
from pydantic import TypeAdapter

from loopwright import ConfigurationError, Outcome, Reason, Runtime
from loopwright.actors import TraceEvent
from loopwright.examples.refund_desk import NAME, Settlement, make_agent
from loopwright.examples.refund_desk.shop import DATA, Shop, build
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

_settlement = TypeAdapter(Settlement)


def expectations() -> list[dict[str, str]]:
    with (DATA / "expected.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    build(tmp_path / "shop.db")
    return tmp_path / "shop.db"


def goal(request_id: str) -> str:
    return f"Settle refund request {request_id}"


def settled(outcome: Outcome) -> Settlement:
    assert outcome.reason is Reason.COMPLETED, outcome
    return _settlement.validate_python(outcome.output)


@pytest.mark.parametrize("row", expectations(), ids=lambda row: row["request_id"])
async def test_each_request_is_settled_as_expected(path: Path, row: dict[str, str]) -> None:
    """Nobody is asked about a payment that could not be made, whatever the sum."""
    name, expected = row["request_id"], row["expected"]
    async with Runtime([make_agent(path)]) as runtime:
        outcome = await runtime.run(NAME, goal(name))
        if expected == "needs_approval":
            assert outcome.reason is Reason.APPROVAL_REQUIRED
            assert Shop(path).ledger() == []
            assert outcome.proposal is not None
            digest = outcome.proposal.digest
            run = await runtime.approve(outcome.invocation_id, digest, by="ana")
            outcome = await run.outcome()
    ledger = [(paid.effect_key, paid.amount) for paid in Shop(path).ledger()]
    if expected.startswith("refused:"):
        assert settled(outcome).status == "refused"
        assert settled(outcome).code == expected.removeprefix("refused:")
        assert ledger == []
    else:
        assert settled(outcome).status == "paid"
        assert ledger == [(f"refund:{name}", Decimal(row["pays"]))]


async def test_an_agent_gives_its_output_as_the_type_it_declares(path: Path) -> None:
    agent = make_agent(path)
    async with Runtime([agent]) as runtime:
        paid = await runtime.run(NAME, goal("REQ-01"))
        asked = await runtime.run(NAME, "The customer is angry")
    money = Decimal("24.90")
    assert agent.parse_output(paid) == (
        Settlement("REQ-01", "paid", refund_id="PO-0001", amount=money, currency="EUR")
    )
    with pytest.raises(ConfigurationError, match="clarification_required"):
        agent.parse_output(asked)


async def test_a_denied_payment_is_not_made(path: Path) -> None:
    async with Runtime([make_agent(path)]) as runtime:
        waiting = await runtime.run(NAME, goal("REQ-05"))
        assert waiting.proposal is not None
        run = await runtime.deny(
            waiting.invocation_id, waiting.proposal.digest, by="ben", reason="no chair came back"
        )
        outcome = await run.outcome()
    assert settled(outcome).status == "denied"
    assert "no chair came back" in outcome.answer
    assert Shop(path).ledger() == []


async def test_reads_of_one_order_run_concurrently(path: Path) -> None:
    """All three are requested before the first of them has answered."""
    seen: list[str] = []

    def observe(event: TraceEvent) -> None:
        if event.turn == 2 and event.name.startswith("tool_call"):
            seen.append(event.name)

    async with Runtime([make_agent(path)], observers=[observe]) as runtime:
        await runtime.run(NAME, goal("REQ-01"))
    assert seen == ["tool_call_requested"] * 3 + ["tool_call_finished"] * 3


async def test_settling_a_request_twice_pays_once(path: Path) -> None:
    """The effect key names the request, not the invocation; REQ-03 leaves money to be had."""
    async with Runtime([make_agent(path)]) as runtime:
        for _ in range(2):
            assert settled(await runtime.run(NAME, goal("REQ-03"))).amount == Decimal("15.50")
    assert len(Shop(path).ledger()) == 1


async def test_a_goal_without_a_request_is_asked_about(path: Path) -> None:
    async with Runtime([make_agent(path)]) as runtime:
        asked = await runtime.run(NAME, "The customer is angry")
        assert asked.reason is Reason.CLARIFICATION_REQUIRED
        run = await runtime.answer(asked.invocation_id, "It is REQ-03", by="bo")
        assert settled(await run.outcome()).request_id == "REQ-03"


async def test_an_unknown_request_is_given_up(path: Path) -> None:
    async with Runtime([make_agent(path)]) as runtime:
        outcome = await runtime.run(NAME, goal("REQ-99"))
    assert outcome.reason is Reason.CANNOT_CONTINUE
    assert "REQ-99" in str(outcome.cause)


async def test_a_shop_that_is_gone_is_unavailable(path: Path) -> None:
    """The model asks again, and the runtime ends it as what it is: no endless loop, no guess."""
    agent = make_agent(path)
    path.unlink()  # noqa: ASYNC240 - nothing else runs
    async with Runtime([agent]) as runtime:
        outcome = await runtime.run(NAME, goal("REQ-01"))
    assert outcome.reason is Reason.TOOL_UNAVAILABLE


async def test_a_refusal_of_the_shop_itself_reaches_the_model(path: Path) -> None:
    """A model that skips the rules cannot make the shop pay what it does not owe."""
    arguments = {"request_id": "REQ-09", "order_id": "ORD-1052", "amount": "75.00"}
    call = {
        "call_id": "pay",
        "tool_name": "pay_refund",
        "arguments": {**arguments, "currency": "EUR"},
    }
    refused = {"request_id": "REQ-09", "status": "refused"}
    model = ScriptedModel(
        [{"kind": "tool_calls", "calls": [call]}, {"kind": "final", "output": refused}]
    )
    async with Runtime([make_agent(path, model)]) as runtime:
        outcome = await runtime.run(NAME, goal("REQ-09"))
    (result,) = outcome.history[0].results
    assert result.error is not None
    assert result.error.category == "permanent"
    assert result.error.message.startswith("exceeds_paid: ")
    assert Shop(path).ledger() == []


async def test_a_kill_between_payment_and_record_pays_once(path: Path) -> None:
    """B56 for an idempotent write: sent again with the same key, the shop's count stays 1."""
    store = path.with_name("agents.db")
    command = [sys.executable, __file__, str(path), str(store)]
    with anyio.fail_after(60):
        async with await anyio.open_process(command, stdout=None, stderr=None) as worker:
            while not Shop(path).ledger():
                assert worker.returncode is None
                await anyio.sleep(0.01)
            worker.kill()
            assert await worker.wait() == -9

    async with Runtime([make_agent(path)], store=SQLiteStore(store)) as runtime:
        with anyio.fail_after(60):
            while not (runs := (await runtime.recover()).runs):  # noqa: ASYNC110 - a lease ends in silence
                await anyio.sleep(0.01)
        outcome = await runs[0].outcome()
    assert settled(outcome).refund_id == "PO-0001"
    (paid,) = (r for turn in outcome.history for r in turn.results if r.effect_key is not None)
    assert (paid.effect_key, paid.attempts) == ("refund:REQ-01", 2)
    assert isinstance(paid.output, dict)
    assert paid.output["replayed"] is True
    assert len(Shop(path).ledger()) == 1


async def work(path: str, store: str) -> None:
    """Pay REQ-01, and wait for the shop's answer until somebody ends the process."""
    agent = make_agent(Path(path), delay=50.0)
    async with Runtime([agent], store=SQLiteStore(store), lease_ttl=0.3) as runtime:
        await runtime.run(NAME, goal("REQ-01"))


if __name__ == "__main__":
    anyio.run(work, sys.argv[1], sys.argv[2])
