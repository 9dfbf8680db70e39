"""Stop conditions: they compose like sets, name the budget they are about, and fail closed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import (
    ActiveSeconds,
    Condition,
    Cost,
    MaxSteps,
    MaxToolCalls,
    Met,
    Policy,
    Seen,
    Tokens,
    ToolFailures,
    ToolSeen,
    When,
)
from loopwright.protocol import (
    NO_USAGE,
    CallId,
    ConfigurationError,
    History,
    Proposal,
    Reason,
    ResultStatus,
    Spent,
    ToolCall,
    ToolCalls,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
    applied,
    encode_record,
    not_applied,
)

NOTHING = History([])
SPENT = Spent(5, 7, Usage(60, 40), 30.0, Decimal("0.50"), 2)


def seen(spent: Spent = SPENT, history: History = NOTHING) -> Seen:
    return Seen(spent, history)


def turn(number: int, **tools: ResultStatus) -> Turn:
    """Commit a turn in which each of these tools was called once."""
    calls = tuple(ToolCall(CallId(name), name, {}) for name in tools)
    results = tuple(
        ToolResult(CallId(name), name, status, attempts=status is not ResultStatus.NOT_STARTED)
        for name, status in tools.items()
    )
    proposal = Proposal(ToolCalls(calls), NO_USAGE)
    committed = TurnCommitted(number, proposal, results, len(calls), 0.0, 0.0)
    return Turn(number, encode_record(committed))


# ---------------------------------------------------------------- one condition
@pytest.mark.parametrize(
    ("kind", "used", "reason"),
    [
        (MaxSteps, 5, Reason.MAX_STEPS),
        (MaxToolCalls, 7, Reason.TOOL_BUDGET_EXHAUSTED),
        (Tokens, 100, Reason.TOKEN_BUDGET_EXHAUSTED),
        (Cost, Decimal("0.5"), Reason.COST_BUDGET_EXHAUSTED),
        (ActiveSeconds, 30.0, Reason.TIME_BUDGET_EXHAUSTED),
        (ToolFailures, 2, Reason.TOOL_FAILURES_EXHAUSTED),
    ],
)
def test_an_amount_holds_once_it_is_reached(
    kind: Callable[[Any], Condition], used: Any, reason: Reason
) -> None:
    """At its number and not beyond it, like a budget, whose reason it gives; 0 from the start."""
    met = kind(used).met(seen())
    assert met is not None
    assert met.reason is reason
    assert repr(kind(used)) in met.text
    assert kind(used + 1).met(seen()) is None
    assert kind(0).met(seen(Spent())) is not None


def test_a_tool_is_seen_once_a_call_of_it_has_returned() -> None:
    """What failed or never started has not been done; `ok=False` asks whether it ran at all."""
    history = History(
        [
            turn(1, read=ResultStatus.OK, pay=ResultStatus.NOT_STARTED),
            turn(2, find=ResultStatus.ERROR),
        ]
    )
    holds = [
        condition.met(seen(history=history)) is not None
        for condition in (
            ToolSeen("read"),
            ToolSeen("pay"),
            ToolSeen("pay", ok=False),
            ToolSeen("find"),
            ToolSeen("find", ok=False),
            ToolSeen("other", ok=False),
        )
    ]
    assert holds == [True, False, False, False, True, False]


def test_a_write_counts_once_somebody_knows_that_it_took_place() -> None:
    """An unknown outcome that is settled later is seen later, by what goes on from before too."""
    turns = [turn(1, submit=ResultStatus.OUTCOME_UNKNOWN), turn(2, read=ResultStatus.OK)]
    before = Seen(SPENT, History(turns))
    assert ToolSeen("submit").met(before) is None
    assert ToolSeen("submit", ok=False).met(before) is not None

    turns[0].found = ((CallId("submit"), not_applied()),)
    assert ToolSeen("submit").met(Seen(SPENT, History(turns), before)) is None
    turns = [turn(1, submit=ResultStatus.OUTCOME_UNKNOWN)]
    before = Seen(SPENT, History(turns))
    assert ToolSeen("submit").met(before) is None
    turns[0].found = ((CallId("submit"), applied()),)
    assert ToolSeen("submit").met(Seen(SPENT, History(turns), before)) is not None


def test_a_turn_is_read_once_and_only_if_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition on amounts costs nothing in a long history, one on tools a turn per turn."""
    read: list[int] = []
    results = Turn.results

    def counted(self: Turn) -> tuple[ToolResult, ...]:
        read.append(self.number)
        return results.__get__(self)  # type: ignore[no-any-return]  # a property

    monkeypatch.setattr(Turn, "results", property(counted))
    turns: list[Turn] = []
    now: Seen | None = None
    for number in range(1, 6):
        turns.append(turn(number, read=ResultStatus.OK))
        now = Seen(SPENT, History(turns), now)
        (MaxSteps(99) & ToolSeen("submit")).met(now)
        assert read == []
    for number in range(6, 9):
        turns.append(turn(number, read=ResultStatus.OK))
        now = Seen(SPENT, History(turns), now)
        (MaxSteps(1) & ToolSeen("submit")).met(now)
    assert read == [1, 2, 3, 4, 5, 6, 7, 8]


# ---------------------------------------------------------------- composed
def test_operators_bind_as_in_python() -> None:
    """`~` before `&` before `|`, and the expression can be read back."""
    condition = MaxSteps(8) | Cost(2) & ~ToolSeen("submit")
    assert repr(condition) == "MaxSteps(8) | Cost(2) & ~ToolSeen('submit')"
    assert condition == MaxSteps(8) | (Cost(2) & (~ToolSeen("submit")))
    assert repr((MaxSteps(8) | Cost(2)) & ~(ToolSeen("a", ok=False) | Tokens(5))) == (
        "(MaxSteps(8) | Cost(2)) & ~(ToolSeen('a', ok=False) | Tokens(5))"
    )

    done = History([turn(1, submit=ResultStatus.OK)])
    rich = Spent(cost=Decimal(2))
    assert condition.met(seen(Spent(8))) == Met(Reason.MAX_STEPS, "MaxSteps(8) with 8 steps")
    assert condition.met(seen(rich)) == Met(
        Reason.COST_BUDGET_EXHAUSTED, "Cost(2) with 2 US dollars and ~ToolSeen('submit')"
    )
    assert condition.met(seen(rich, done)) is None


def test_the_reason_names_a_budget_where_one_of_the_parts_does() -> None:
    """Of `|` the first part that holds, of `&` the first that is about a budget."""
    yes = When("yes", lambda _: True)
    for condition, reason in (
        (yes | MaxSteps(5), Reason.TERMINATED),
        (MaxSteps(5) | yes, Reason.MAX_STEPS),
        (MaxSteps(9) | Tokens(1) | yes, Reason.TOKEN_BUDGET_EXHAUSTED),
        (yes & MaxSteps(5), Reason.MAX_STEPS),
        (yes & Tokens(1) & MaxSteps(5), Reason.TOKEN_BUDGET_EXHAUSTED),
        (yes & yes, Reason.TERMINATED),
        (~MaxSteps(9), Reason.TERMINATED),
    ):
        met = condition.met(seen())
        assert met is not None
        assert met.reason is reason


LEAVES: st.SearchStrategy[Condition] = st.one_of(
    st.builds(MaxSteps, st.integers(0, 9)),
    st.builds(Tokens, st.integers(0, 200)),
    st.builds(Cost, st.decimals(0, 1, places=2)),
    st.builds(ActiveSeconds, st.floats(0, 60)),
    st.builds(ToolSeen, st.sampled_from(["read", "pay"]), st.booleans()),
)


def either(a: Condition, b: Condition) -> Condition:
    return a | b


def both(a: Condition, b: Condition) -> Condition:
    return a & b


def neither(a: Condition) -> Condition:
    return ~a


def composed(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    return st.one_of(
        st.builds(either, inner, inner), st.builds(both, inner, inner), st.builds(neither, inner)
    )


CONDITIONS = st.recursive(LEAVES, composed, max_leaves=8)
LOOKS = st.builds(
    seen,
    st.builds(Spent, st.integers(0, 9), cost=st.decimals(0, 1, places=2)),
    st.sampled_from([NOTHING, History([turn(1, read=ResultStatus.OK, pay=ResultStatus.ERROR)])]),
)


@given(CONDITIONS, CONDITIONS, CONDITIONS, LOOKS)
def test_the_laws_of_logic_hold(a: Condition, b: Condition, c: Condition, view: Seen) -> None:
    """An expression means what it reads as, however it is nested."""

    def holds(condition: Condition) -> bool:
        return condition.met(view) is not None

    assert holds(a | b) == (holds(a) or holds(b))
    assert holds(a & b) == (holds(a) and holds(b))
    assert holds(~a) == (not holds(a))
    assert holds(~~a) == holds(a)
    assert holds(~(a | b)) == holds(~a & ~b)
    assert holds(a | b & c) == holds((a | b) & (a | c))


@given(CONDITIONS)
def test_an_expression_can_be_read_back(condition: Condition) -> None:
    """What a trace shows of it is what somebody would write."""
    assert eval(repr(condition)) == condition
    assert hash(eval(repr(condition))) == hash(condition)


# ---------------------------------------------------------------- foreign and impossible
def failing(_: Seen) -> bool:
    raise KeyError("secret")


def bare() -> bool:
    return True


def says(value: Any) -> Callable[[Seen], Any]:
    return lambda _: value


async def later(_: Seen) -> bool:
    return False


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (failing, "failed with KeyError"),
        (later, "returned coroutine, not True or False"),
        (says(None), "returned NoneType, not True or False"),
        (says(1), "returned int, not True or False"),
        (bare, "failed with TypeError"),
    ],
)
def test_a_function_that_fails_stops_wherever_it_stands(function: Any, problem: str) -> None:
    """It fails closed: no `~` and no `&` makes of it a reason to go on; the text names it."""
    broken, never = When("stuck", function), MaxSteps(99)
    for condition in (broken, ~broken, never | broken, broken & never, ~(broken & never)):
        assert condition.met(seen()) == Met(
            Reason.TERMINATED, f"the stop condition stuck {problem}"
        )
    # Nobody asked it.
    assert (never & broken).met(seen()) is None


def test_a_function_is_shown_what_was_spent_and_done() -> None:
    """It has all a condition of ours has."""
    history = History([turn(1, read=ResultStatus.OK)])
    asked: list[Seen] = []

    def ask(view: Seen) -> bool:
        asked.append(view)
        return "read" in view.returned and len(view.history) == 1 and view.spent.steps == 5

    assert When("read", ask).met(seen(history=history)) == Met(Reason.TERMINATED, "When('read')")
    assert len(asked) == 1


def test_and_or_not_are_refused() -> None:
    """`a or b` would be `a`, and nobody would hear of it."""
    for wrong in (
        lambda: MaxSteps(8) or Cost(2),
        lambda: MaxSteps(8) and Cost(2),
        lambda: not MaxSteps(8),
    ):
        with pytest.raises(ConfigurationError, match=r"compose with \|, & and ~"):
            wrong()


def test_what_is_no_condition_does_not_compose() -> None:
    """The mistake is where it is written."""
    unusable: list[Any] = [None, 8, "submit", failing]
    for wrong in unusable:
        with pytest.raises(TypeError):
            _ = MaxSteps(8) | wrong
        with pytest.raises(TypeError):
            _ = MaxSteps(8) & wrong


@pytest.mark.parametrize(
    "kind", [MaxSteps, MaxToolCalls, Tokens, Cost, ActiveSeconds, ToolFailures]
)
@pytest.mark.parametrize("limit", [-1, None, True, "many", float("nan"), float("inf")])
def test_an_impossible_amount_is_refused(kind: Callable[[Any], Condition], limit: Any) -> None:
    """When it is written, and by name."""
    with pytest.raises(ConfigurationError, match=getattr(kind, "__name__", "")):
        kind(limit)


def test_other_impossible_conditions_are_refused() -> None:
    """A step is whole; a name and a function are needed."""
    with pytest.raises(ConfigurationError, match="whole number"):
        MaxSteps(1.5)
    unusable: list[Any] = ["", " ", None, 3]
    for name in unusable:
        with pytest.raises(ConfigurationError, match="has no name"):
            ToolSeen(name)
    for function in unusable:
        with pytest.raises(ConfigurationError, match="has no function"):
            When("stuck", function)


def test_a_policy_takes_conditions_only() -> None:
    """A class in the place of a condition is an error where it is written."""
    assert Policy().stop is None
    assert Policy(stop=MaxSteps(8) | Cost("0.50")).stop is not None
    unusable: list[Any] = [MaxSteps, 8, failing]
    for wrong in unusable:
        with pytest.raises(ConfigurationError, match=r"Policy\.stop"):
            Policy(stop=wrong)
