"""Who may run what: denials speak first, and nothing that fails or is unclear opens anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import (
    Access,
    Allow,
    Ask,
    Deny,
    Judgement,
    Policy,
    Predicate,
    Rule,
)
from loopwright.protocol import CallId, ConfigurationError, Effect, JsonValue, Principal


def access(tool: str = "pay", effect: Effect = Effect.IDEMPOTENT, **arguments: JsonValue) -> Access:
    """Let somebody want something."""
    return Access(Principal("ann"), "desk", tool, tool, effect, arguments, CallId("c1"))


def yes(_: Access) -> bool:
    return True


def no(_: Access) -> bool:
    return False


def broken(_: Access) -> bool:
    raise KeyError("amount")


def allows(_: Access) -> Judgement | None:
    return Allow()


def denies(_: Access) -> Judgement | None:
    return Deny("not for you")


def asks(_: Access) -> Judgement | None:
    return Ask("is that right?")


def silent(_: Access) -> Judgement | None:
    return None


def fails(_: Access) -> Judgement | None:
    raise RuntimeError("boom")


def test_without_a_word_a_call_is_allowed_unless_the_default_denies() -> None:
    """One switch turns a missing rule into a no."""
    assert Policy().judge(access()) == Allow("default")
    assert Policy(default_deny=True).judge(access()) == Deny("no rule allows pay", "default")
    assert Policy(default_deny=True, rules=[allows]).judge(access()) == Allow("allows")


def test_a_denial_speaks_before_every_rule() -> None:
    """No rule allows what is denied."""
    policy = Policy(deny=[no, yes], rules=[allows])
    assert policy.judge(access()) == Deny("denied by yes", "yes")


def test_the_first_rule_that_decides_decides() -> None:
    """`None` leaves it to the next; questions come after the rules."""
    assert Policy(rules=[silent, denies, allows]).judge(access()) == Deny("not for you", "denies")
    assert Policy(rules=[silent, asks]).judge(access()) == Ask("is that right?", "asks")
    assert Policy(rules=[allows], ask=[yes]).judge(access()) == Allow("allows")
    assert Policy(rules=[silent], ask=[yes]).judge(access()) == Ask(
        "yes needs a human's yes", "yes"
    )


RULES = st.lists(st.sampled_from([allows, denies, asks, silent, fails]), max_size=4)
PREDICATES = st.lists(st.sampled_from([yes, no, broken]), max_size=3)


@given(RULES, PREDICATES, PREDICATES, st.booleans())
def test_authorization_never_fails_open(
    rules: list[Rule], deny: list[Predicate], ask: list[Predicate], default_deny: bool
) -> None:
    """It always gives a judgement, and whatever fails before a yes makes it a no."""
    judgement = Policy(deny=deny, rules=rules, ask=ask, default_deny=default_deny).judge(access())
    assert isinstance(judgement, Allow | Deny | Ask)
    if yes in deny or broken in deny:
        assert isinstance(judgement, Deny)
    elif (first := next((rule for rule in rules if rule is not silent), None)) is not None:
        expected: dict[Rule, type[Judgement]] = {allows: Allow, asks: Ask}
        assert type(judgement) is expected.get(first, Deny)
    elif (second := next((p for p in ask if p is not no), None)) is not None:
        assert isinstance(judgement, Ask if second is yes else Deny)
    else:
        assert isinstance(judgement, Deny if default_deny else Allow)


@pytest.mark.parametrize("said", [True, 1, "yes", "allow", Allow, ()])
def test_what_is_no_judgement_is_no_yes(said: object) -> None:
    """A rule is foreign code; only `Allow` itself allows."""

    def rule(_: Access) -> Judgement | None:
        return cast("Judgement", said)

    assert isinstance(Policy(rules=[rule]).judge(access()), Deny)


def test_a_failing_rule_names_itself_and_not_its_data() -> None:
    """The model sees which rule failed and how, not what the exception said."""
    assert Policy(rules=[fails]).judge(access()) == Deny(
        "the rule fails failed with RuntimeError", "fails"
    )


async def later(_: Access) -> Judgement | None:
    return Allow()


@pytest.mark.parametrize("where", ["rules", "deny", "ask"])
@pytest.mark.parametrize("given", [[Allow], [Allow()], ["yes"], "yes", 7, None, [later], [None]])
def test_what_is_no_rule_is_refused_where_it_is_written(where: str, given: Any) -> None:
    """Also a class, which is callable: `Allow` itself as a rule would allow everything."""
    with pytest.raises(ConfigurationError, match=f"^Policy.{where} .*; give "):
        Policy(**{where: given})


def test_one_callable_may_stand_for_a_list() -> None:
    """A service may have one function that decides everything."""
    assert Policy(rules=denies).judge(access()) == Deny("not for you", "denies")
    assert not Policy(rules=denies).allows_everything


def test_a_rule_sees_every_object_once() -> None:
    """What is read and what is changed are both touched."""
    one = replace(access(), reads=("a", "b"), writes=("b", "c"))
    assert one.objects == ("a", "b", "c")
    assert access().objects == ()


@pytest.mark.parametrize(
    "name", ["max_repairs", "max_faulty_turns", "cancel_grace", "approval_grace"]
)
def test_a_policy_of_negative_numbers_is_refused(name: str) -> None:
    """The error names the field."""
    with pytest.raises(ConfigurationError, match=f"Policy.{name}"):
        Policy(**{name: -1})  # type: ignore[arg-type]  # one field after the other, by name


def test_a_policy_does_not_change_with_the_lists_it_was_made_from() -> None:
    """It is a value: adding to the list later adds no rule."""
    rules: list[Rule] = []
    policy = Policy(rules=rules)
    rules.append(denies)
    assert policy.judge(access()) == Allow("default")
