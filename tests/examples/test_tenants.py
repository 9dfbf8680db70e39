"""Two shops on one desk: a test per hole, through the real runtime."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from loopwright import LoopwrightError, Outcome, Principal, Reason, Runtime
from loopwright.examples.tenants import NAME, Office, make_agent
from loopwright.examples.tenants.__main__ import main
from loopwright.examples.tenants.office import CLERKS
from loopwright.testing import VirtualClock

pytestmark = pytest.mark.anyio


async def attempt(goal: str, by: str | Principal) -> tuple[Office, Outcome]:
    """Let somebody try something."""
    office = Office()
    principal = by if isinstance(by, Principal) else CLERKS[by]
    async with Runtime([make_agent(office)], clock=VirtualClock()) as runtime:
        outcome = await runtime.run(NAME, goal, principal=principal)
    return office, outcome


async def denied(goal: str, by: str | Principal, rule: str) -> None:
    """Expect that nothing happens, and that the model is told which rule said no."""
    office, outcome = await attempt(goal, by)
    assert office.refunds == []
    assert office.voided == []
    (result,) = outcome.history[0].results
    assert (result.status, result.attempts) == ("denied", 0)
    assert result.error is not None
    assert rule in result.error.message


async def test_what_a_clerk_may_do_works() -> None:
    """Closing holes is not enough: their own order, below the limit, and a look at any of the shop."""
    office, outcome = await attempt("refund order=A-1 amount=30", "ann")
    assert outcome.completed
    assert office.refunds == [("A-1", Decimal(30))]
    for clerk in ("ann", "bo", "cy"):
        assert (await attempt("order_status order=A-1", clerk))[1].answer == "80 paid"
    assert (await attempt("refund order=A-1 amount=30", "bo"))[0].refunds == [("A-1", Decimal(30))]


@pytest.mark.parametrize(
    ("by", "rule"),
    [
        ("cy", "refund needs the capability refund"),
        (Principal("ann", "acme"), "refund needs the capability refund"),
        (Principal("mallory", "acme", (), ("refund",)), "no rule allows refund"),
        (Principal(), "not_(same_tenant)"),
    ],
)
async def test_hole_actor(by: str | Principal, rule: str) -> None:
    """Who has no capability, is not known, or does not say who they are, refunds nothing."""
    await denied("refund order=A-1 amount=30", by, rule)


@pytest.mark.parametrize(
    "goal", ["refund order=A-1 amount=30", "order_status order=A-1", "refund order=A-2 amount=30"]
)
async def test_hole_tenant(goal: str) -> None:
    """A lead of one shop is nobody in the other; not even to look."""
    await denied(goal, "gil", "not_(same_tenant)")


@pytest.mark.parametrize("by", ["ann", "gil"])
async def test_hole_tenant_of_an_order_that_does_not_exist(by: str) -> None:
    """It is denied like a foreign one: what exists elsewhere cannot be found out."""
    await denied("order_status order=Z-9", by, "not_(same_tenant)")
    await denied("refund order=Z-9 amount=30", by, "not_(same_tenant)")


async def test_hole_object_of_another_actor() -> None:
    """The same shop, the right to refund, and somebody else's order."""
    await denied("refund order=A-2 amount=30", "ann", "no rule allows refund")


async def test_hole_object_that_no_rule_speaks_of() -> None:
    """A tool may call itself a refund: a gift card is no order."""
    await denied(
        "void_card card=C-1", Principal("bo", "acme", ("lead",), ("refund",)), "no rule allows"
    )


async def test_hole_tool_that_does_not_say_what_it_touches() -> None:
    """Undeclared is denied: it would list the orders of both shops."""
    await denied("export_orders", "bo", "not_(same_tenant)")


@pytest.mark.parametrize("amount", ["200.01", "1e9", "1E+2000", "-30", "0", "-0.01"])
async def test_hole_amount(amount: str) -> None:
    """Above what anybody may refund, or turned round; however it is written."""
    await denied(f"refund order=A-1 amount={amount}", "ann", "outside(0.01, 200)")


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "much"])
async def test_hole_amount_that_is_no_number(amount: str) -> None:
    """The tool's own type does not take it; no rule is asked."""
    office, outcome = await attempt(f"refund order=A-1 amount={amount}", "ann")
    assert [r.status for r in outcome.history[0].results] == ["invalid_arguments"]
    assert office.refunds == []


async def test_above_the_limit_a_lead_is_asked() -> None:
    """But not about what is not the clerk's own order."""
    office, outcome = await attempt("refund order=A-1 amount=120", "ann")
    assert outcome.reason is Reason.APPROVAL_REQUIRED
    assert office.refunds == []
    await denied("refund order=A-2 amount=120", "ann", "no rule allows refund")


@pytest.mark.parametrize(
    ("goal", "clerk", "not_by", "by"),
    [
        ("refund order=A-1 amount=120", "ann", ["ann", "cy", "gil", "mallory", "Bo"], "bo"),
        ("refund order=A-2 amount=120", "bo", ["bo", "ann", "gil"], None),
    ],
)
async def test_hole_approver(goal: str, clerk: str, not_by: Sequence[str], by: str | None) -> None:
    """Not who asked, no clerk, no lead of the other shop; with only one lead, nobody."""
    office = Office()
    async with Runtime([make_agent(office)], clock=VirtualClock()) as runtime:
        before = await runtime.run(NAME, goal, principal=CLERKS[clerk])
        assert before.proposal is not None
        name, shown = before.invocation_id, before.proposal.digest
        for other in not_by:
            with pytest.raises(LoopwrightError, match="may not answer for call 'c1'"):
                await runtime.approve(name, shown, by=other)
        assert (await runtime.outcome(name)).reason is Reason.APPROVAL_REQUIRED
        assert office.refunds == []
        if by is not None:
            assert (await (await runtime.approve(name, shown, by=by)).outcome()).completed
            assert office.refunds == [("A-1", Decimal(120))]


@pytest.mark.parametrize("edit", [{"order": "G-1", "amount": 120}, {"order": "A-1", "amount": 999}])
async def test_hole_edit(edit: dict[str, str | int]) -> None:
    """Also what an approver makes of a call is judged: for the clerk, not for the approver."""
    office = Office()
    async with Runtime([make_agent(office)], clock=VirtualClock()) as runtime:
        before = await runtime.run(NAME, "refund order=A-1 amount=120", principal=CLERKS["ann"])
        assert before.proposal is not None
        with pytest.raises(LoopwrightError, match="denied by"):
            await runtime.approve(
                before.invocation_id, before.proposal.digest, by="bo", edits={"c1": {**edit}}
            )
    assert office.refunds == []


async def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Each try is told in a line."""
    await main()
    told = capsys.readouterr().out.splitlines()
    assert told[1] == f"ann  {'refund order=A-1 amount=30':32} 30 refunded"
    assert told[4].startswith(f"ann  {'refund order=A-1 amount=120':32} waits: ask_if(")
    assert len(told) == 8
