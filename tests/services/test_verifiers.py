"""Verifiers as they are given to an agent: their names, their limits, and what a verdict rests on."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from loopwright import Claim, ConfigurationError, Verification, passed
from loopwright.actors.definitions._verifiers import AnyVerifier, verifier_names
from loopwright.protocol import (
    EffectEntry,
    EffectKey,
    JsonValue,
    bound_to,
)
from services.verifying import CLAIM, PAID, ok, ok_too


def test_its_name_is_that_of_the_function_or_the_class() -> None:
    """It is stable: by it verdicts are kept."""

    class Checks:
        def __call__(self, _: Claim) -> Verification:
            return passed()

        def again(self, _: Claim) -> Verification:
            return passed()

    def named(_: str, __: Claim) -> Verification:
        return passed()

    own = Checks()
    own.__dict__["__name__"] = "its own"
    made = (ok, ok_too, Checks(), Checks().again, partial(named, "x"), own)
    assert verifier_names(made) == ("ok", "ok_too", "Checks", "again", "named", "its own")
    assert verifier_names(()) == ()


def _with(timeout: object) -> Any:
    def limited(_: Claim) -> Verification:
        return passed()

    cast("Any", limited).timeout = timeout
    return limited


def unnamed() -> AnyVerifier:
    return lambda _: passed()


class Plain:
    """A class without a `__call__`, which may be called all the same."""

    def __init__(self, claim: Claim) -> None: ...


@pytest.mark.parametrize(
    ("verifiers", "problem"),
    [
        ((ok, ok_too, ok), "there are two verifiers named 'ok'"),
        ((unnamed(), unnamed()), "two verifiers named '<lambda>'"),
        ((None,), "None is no verifier"),
        (("checks",), "'checks' is no verifier"),
        ((Plain,), "Plain'> is no verifier; give a function of the claim, or an object"),
        ((lambda: passed(),), "does not take one argument, the claim: too many"),
        ((_with(0),), "verifier 'limited' has a timeout of 0; give a number of seconds above 0"),
        ((_with(-1.0),), "has a timeout of -1.0"),
        ((_with(None),), "has a timeout of None"),
        ((_with(True),), "has a timeout of True"),
        ((_with(float("nan")),), "has a timeout of nan"),
        ((_with(float("inf")),), "has a timeout of inf"),
        ((_with("9"),), "has a timeout of '9'"),
    ],
)
def test_what_cannot_verify_is_refused_where_it_is_given(
    verifiers: tuple[Any, ...], problem: str
) -> None:
    """Two of one name as well: their verdicts could not be told apart."""
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        verifier_names(verifiers)


# ---------------------------------------------------------------- what a verdict rests on
@pytest.mark.parametrize(
    "other",
    [
        ("Paid", {"id": "r-1"}, (PAID,), "d1"),
        ("Refunded", {"id": "r-2"}, (PAID,), "d1"),
        ("Refunded", {"id": "r-1"}, (PAID,), "d2"),
        ("Refunded", {"id": "r-1"}, (), "d1"),
        ("Refunded", {"id": "r-1"}, (PAID, PAID), "d1"),
        *(
            ("Refunded", {"id": "r-1"}, (replace(PAID, **change),), "d1")
            for change in (
                {"effect_key": EffectKey("refund:8")},
                {"tool_name": "mail"},
                {"status": "outcome_unknown"},
                {"receipt": {"id": "r-2"}},
                {"attempts": 2},
                {"arguments": {"order": 7}},
            )
        ),
    ],
)
def test_a_verdict_is_bound_to_what_it_rests_on(
    other: tuple[str, JsonValue, tuple[EffectEntry, ...], str],
) -> None:
    """Another answer, another ledger or another history makes it void."""
    bound = bound_to("Refunded", {"id": "r-1"}, (PAID,), "d1")
    assert bound == bound_to(*CLAIM[3:5], CLAIM.effects, "d1")
    assert bound_to(*other) != bound
