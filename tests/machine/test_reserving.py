"""What is kept aside for children: reserve, spend, release; a tree fits the budget of its root."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.protocol import (
    Budget,
    CallId,
    Execute,
    Reason,
    Reserved,
    ToolCall,
    ToolCalls,
    Usage,
    Validate,
)
from machine.driver import Driver
from machine.samples import at_once, calls, judge
from machine.ways import hired, two_hired


def test_what_is_left_is_kept_aside_before_the_child_begins() -> None:
    """Durable with the dispatch, within its own limits; the call itself is one of its parent's."""
    run = hired()
    assert run.reservations() == [Reserved(8, 890, Decimal("0.9"))]
    assert run.commits[1:] == [("turn_proposed", "call_dispatched")]
    execute = run.last(Execute)
    assert execute.budget is not None
    assert (execute.budget.max_tool_calls, execute.budget.max_tokens) == (8, 890)
    assert (execute.budget.max_cost, execute.budget.max_steps) == (Decimal("0.9"), 5)

    assert hired(Budget(max_tool_calls=50)).reservations() == [Reserved(10)]
    assert hired(Budget()).reservations() == [Reserved(10)]


def test_what_is_kept_aside_is_spent_until_the_child_has_ended() -> None:
    """Then what it really used is charged, every token once, and the rest is free again."""
    run = hired()
    spent = run.machine.folded.spent
    assert (spent.tool_calls, spent.usage.total, spent.cost) == (8, 1_000, Decimal(1))
    assert spent.usage.estimated

    run.child_rested("hire", tool_calls=3, usage=Usage(100, 20), cost="0.2")
    p, spent = run.machine.folded.protocol, run.machine.folded.spent
    assert (p.tool_calls, p.usage, p.cost) == (4, Usage(200, 30), Decimal("0.3"))
    assert (spent.tool_calls, spent.usage, spent.cost) == (4, Usage(200, 30), Decimal("0.3"))

    run.observed().propose("hire")
    assert run.reservations()[-1] == Reserved(4, 660, Decimal("0.6"))


def test_two_children_at_once_share_what_is_left() -> None:
    """Neither can use what the other one was promised; both calls are their parent's."""
    run = two_hired()
    assert run.reservations() == [Reserved(1), Reserved(2)]
    assert run.machine.folded.spent.tool_calls == 3
    run.child_rested("hire", tool_calls=1).child_rested("hire_too", tool_calls=2)
    assert run.machine.folded.spent.tool_calls == run.budget.max_tool_calls == 5


def test_one_after_the_other_each_has_what_the_one_before_has_left() -> None:
    """The second begins when the first has ended, in the same batch."""
    run = Driver(Budget(max_tool_calls=6)).start().propose("hire", "hire_too")
    assert run.reservations() == [Reserved(4)]
    run.child_rested("hire", tool_calls=1)
    assert run.reservations() == [Reserved(4), Reserved(3)]


def test_without_anything_left_the_batch_does_not_fit() -> None:
    """A call that stands for a child is a tool call like any other."""
    run = Driver(Budget(max_tool_calls=0)).start().decide(calls("hire")).judged()
    assert run.reason is Reason.TOOL_BUDGET_EXHAUSTED
    assert (run.statuses(), run.all(Execute)) == (["not_started"], [])

    run = Driver(Budget(max_tool_calls=1)).start().propose("hire")
    assert run.reservations() == [Reserved(0)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    batch=st.lists(
        st.tuples(st.sampled_from(["hire", "hire_too", "read"]), st.integers(0, 9)),
        min_size=1,
        max_size=6,
    ),
    max_calls=st.integers(6, 30),
    max_tokens=st.integers(200, 900),
    together=st.booleans(),
    crash=st.integers(0, 8),
)
def test_a_tree_never_uses_more_than_its_root_has(
    batch: list[tuple[str, int]], max_calls: int, max_tokens: int, together: bool, crash: int
) -> None:
    """At every durable point, whatever runs at once and whatever it uses, over a crash as well."""
    named = [(f"{tool}_{n}", tool, used) for n, (tool, used) in enumerate(batch)]
    wanted = {call_id: used for call_id, _, used in named}
    run = Driver(Budget(max_tool_calls=max_calls, max_tokens=max_tokens)).start()
    run.decide(ToolCalls(tuple(ToolCall(CallId(c), tool, {"of": c}) for c, tool, _ in named)))
    verdict = judge(run.last(Validate))
    run.judged(at_once(verdict) if together else verdict).assessed()
    step = total = 0
    while run.waiting:
        spent = run.machine.folded.spent
        assert spent.tool_calls <= max_calls
        assert spent.usage.total <= max_tokens
        call_id, order = next(iter(run.waiting.items()))
        if order.tool_name == "read":
            run.done(call_id)
        else:
            kept_aside = run.kept_aside(order)
            assert kept_aside.tool_calls is not None
            assert kept_aside.tokens is not None
            used = min(wanted[call_id], kept_aside.tool_calls)
            total += used
            tokens = Usage(min(40 * used, kept_aside.tokens))
            run.child_rested(call_id, tool_calls=used, usage=tokens)
        step += 1
        if step == crash and not run.turns:
            run = run.later(0.01).reload().recover().judged()
            total = _used_so_far(run)
    assert run.machine.folded.spent.tool_calls == len(batch) + total <= max_calls


def _used_so_far(run: Driver) -> int:
    """Count tool calls of children whose end is durable; the others are asked after again."""
    turn = run.machine.folded.protocol.open
    results = turn.results.values() if turn is not None else ()
    return sum(result.child.tool_calls for result in results if result.child is not None)
