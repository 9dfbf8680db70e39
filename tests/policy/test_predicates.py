"""What a predicate may say: `True` or `False`; whatever else it says denies."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import (
    Access,
    Allow,
    Approver,
    Deny,
    Policy,
    all_of,
    allow_if,
    any_of,
    ask_if,
    not_,
    owns,
    refused_approver,
    same_tenant,
)
from loopwright.policy import Ask as AskHuman
from loopwright.protocol import Ask, CallId, ConfigurationError, Effect, Principal

ANN = Principal("ann", "acme")
ACCESS = Access(ANN, "desk", "pay", "pay", Effect.IDEMPOTENT, {}, CallId("c1"), (), ("acme/o:7",))


async def later(_: object) -> bool:
    return False


class Later:
    """An object that gives something to await when it is called."""

    async def __call__(self, _: object) -> bool:
        return False


def yes(_: Access) -> bool:
    return True


def no(_: Access) -> bool:
    return False


def says(said: object) -> Any:
    def predicate(_: object) -> object:
        return said

    return predicate


def hidden(_: object) -> Any:
    """A plain function that returns a coroutine all the same."""
    return later(_)


Wrap = Callable[[Any], Policy]

PLACES: dict[str, Wrap] = {
    "deny": lambda p: Policy(deny=[p]),
    "ask": lambda p: Policy(ask=[p]),
    "not_": lambda p: Policy(deny=[not_(p)]),
    "not_ not_": lambda p: Policy(deny=[not_(not_(p))]),
    "all_of": lambda p: Policy(deny=[all_of(yes, p)]),
    "any_of": lambda p: Policy(deny=[any_of(no, p)]),
    "not_ all_of": lambda p: Policy(deny=[not_(all_of(yes, p))]),
    "not_ any_of": lambda p: Policy(deny=[not_(any_of(p, yes))]),
    "allow_if": lambda p: Policy(rules=[allow_if(yes, p)]),
    "allow_if not_": lambda p: Policy(rules=[allow_if(not_(p))]),
    "ask_if": lambda p: Policy(rules=[ask_if(p)]),
}
WRAPS = pytest.mark.parametrize("wrap", PLACES.values(), ids=PLACES)
SAID = [None, "no", "", 0, 1, 1.0, [], [False], object(), NotImplemented, hidden, yes]


@WRAPS
@pytest.mark.parametrize("said", SAID, ids=[type(said).__name__ for said in SAID])
def test_what_is_neither_true_nor_false_denies(wrap: Wrap, said: object) -> None:
    """Nothing is taken for a yes or a no: a text that says no is true, and None is false."""
    verdict = wrap(says(said)).judge(ACCESS)
    assert isinstance(verdict, Deny)
    assert "NoTruthError" in verdict.reason
    assert f"but a {type(said).__name__}" in verdict.reason


@given(
    st.sampled_from(sorted(PLACES)),
    st.none() | st.integers() | st.text() | st.binary() | st.lists(st.booleans()) | st.floats(),
)
def test_nothing_of_any_type_is_allowed_by_a_guess(place: str, said: object) -> None:
    assert isinstance(PLACES[place](says(said)).judge(ACCESS), Deny)


@WRAPS
def test_a_coroutine_denies_and_is_closed(wrap: Wrap) -> None:
    """It is never awaited, and nobody is warned of that."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict = wrap(hidden).judge(ACCESS)
    assert isinstance(verdict, Deny)
    assert verdict.reason.endswith("said neither True nor False, but a coroutine")


def test_a_rule_that_returns_a_coroutine_denies_and_it_is_closed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(Policy(rules=[hidden]).judge(ACCESS), Deny)


@pytest.mark.parametrize("reason", [None, 5, {1: 2}, b"no", ["no"]])
@pytest.mark.parametrize("kind", [Deny, AskHuman])
def test_a_judgement_whose_reason_is_no_text_denies(kind: Any, reason: Any) -> None:
    """It goes into the journal, and has to be read back."""
    verdict = Policy(rules=[says(kind(reason))]).judge(ACCESS)
    assert verdict == Deny("the rule predicate returned no judgement", "predicate")


def test_a_rule_is_named_by_a_text() -> None:
    """Whatever an object calls its name."""

    class Rule:
        __name__: Any = 7

        def __call__(self, _: Access) -> bool:
            return True

    assert Policy(deny=[Rule()]).judge(ACCESS) == Deny("denied by Rule", "Rule")


@WRAPS
@pytest.mark.parametrize(
    "given",
    [later, Later(), partial(later), Later().__call__],
    ids=["def", "object", "partial", "method"],
)
def test_what_is_known_to_be_async_is_refused_where_it_is_written(wrap: Wrap, given: Any) -> None:
    with pytest.raises(ConfigurationError, match="give plain functions of a call"):
        wrap(given)


def test_an_async_rule_and_an_async_say_on_approvers_are_refused_as_well() -> None:
    for rule in (later, Later()):
        places: list[dict[str, Any]] = [{"rules": [rule]}, {"rules": rule}, {"may_approve": rule}]
        for options in places:
            with pytest.raises(ConfigurationError, match="give plain functions of a call"):
                Policy(**options)


def test_the_name_of_a_tool_is_no_rule() -> None:
    with pytest.raises(ConfigurationError, match=r"of a call, such as tool_named\('refund'\) of "):
        Policy(ask=["refund"])  # type: ignore[list-item]


def test_a_tool_is_no_rule() -> None:
    """It can be called as one, and would answer every call with a failure: all are denied."""

    class Refund:
        name, effect = "refund", "manual"

        def __call__(self, order: int) -> str:
            raise AssertionError(order)

    with pytest.raises(ConfigurationError, match=r"give tool_named\('refund'\) for its calls"):
        Policy(ask=[Refund()])  # type: ignore[list-item]


@pytest.mark.parametrize("make", [same_tenant, owns])
def test_whose_an_object_is_has_to_be_a_name_or_none(make: Any) -> None:
    """What is not understood is not taken for somebody else's."""
    for find in (later, Later(), 7):
        with pytest.raises(ConfigurationError, match=f"^{make.__name__} "):
            make(find)
    assert Policy(deny=[make(says(None))]).judge(ACCESS) == Allow()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for find in (says(True), says(["ann"]), says(b"acme"), hidden):
            for predicate in (make(find), not_(make(find))):
                verdict = Policy(deny=[predicate]).judge(ACCESS)
                assert isinstance(verdict, Deny)
                assert "said neither a name nor None" in verdict.reason


def test_only_true_approves_and_a_coroutine_is_closed() -> None:
    """`may_approve` holds for the same reasons."""

    def rule(approver: Approver) -> bool:
        return hidden(approver)  # type: ignore[no-any-return]

    ask = Ask(CallId("c1"), "pay", {}, "why")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refused_approver(rule, "bo", [ask], ANN) is not None


def test_a_future_is_no_answer_either() -> None:
    """It is true, as every object is."""
    loop = asyncio.new_event_loop()
    try:
        assert isinstance(Policy(deny=[not_(says(loop.create_future()))]).judge(ACCESS), Deny)
    finally:
        loop.close()


def test_true_and_false_are_what_they_are() -> None:
    assert isinstance(Policy(deny=[yes]).judge(ACCESS), Deny)
    assert Policy(deny=[no, not_(yes)], ask=[all_of(yes, no)]).judge(ACCESS) == Allow()
    assert all_of(yes, yes)(ACCESS) is True
    assert any_of(no, yes, says("never asked"))(ACCESS) is True
    assert all_of(yes, no, says("never asked"))(ACCESS) is False
