"""Endpoints and chains: what a model may say of itself, and what is refused at construction."""

from __future__ import annotations

from typing import Any, cast

import pytest

from loopwright import ConfigurationError, FallbackChain, Model
from loopwright.actors import Endpoint, endpoints_of
from loopwright.testing import ScriptedModel
from services.deciding import Named


def test_one_model_is_a_chain_of_one() -> None:
    """It is named by its `name`, or else by its class."""
    plain, named = ScriptedModel([]), Named("m-1", context_window=8_000, timeout=6)
    assert endpoints_of(plain) == (Endpoint("ScriptedModel", plain),)
    assert endpoints_of(named) == (Endpoint("m-1", named, 8_000, 6),)


@pytest.mark.parametrize("name", [None, "", 7, b"m"])
def test_a_name_that_is_none_is_not_used(name: object) -> None:
    model = Named(cast("str", name))
    assert endpoints_of(model) == (Endpoint("Named", model),)


def test_a_chain_keeps_its_order_and_who_is_there_for_refusals_comes_last() -> None:
    a, b, c = Named("a"), Named("b"), Named("c")
    chain = FallbackChain([a, b], on_refusal=c)
    assert endpoints_of(chain) == (
        Endpoint("a", a),
        Endpoint("b", b),
        Endpoint("c", c, only_refused=True),
    )
    assert repr(chain) == "<FallbackChain a, b, c>"


def test_one_of_a_chain_may_be_there_for_refusals_too() -> None:
    a, b = Named("a"), Named("b")
    names = [(e.name, e.only_refused) for e in endpoints_of(FallbackChain([a, b], on_refusal=b))]
    assert names == [("a", False), ("b", False), ("b", True)]


@pytest.mark.parametrize(
    ("models", "on_refusal", "problem"),
    [
        ([], None, "has no models; give at least one"),
        ([Named("a"), Named("a")], None, "two models named 'a'"),
        ([ScriptedModel([]), ScriptedModel([])], None, "two models named 'ScriptedModel'"),
        ([Named("a")], Named("a"), "two models named 'a'"),
        ([Named("a"), "b"], None, "str is no model; it needs `async def decide`"),
        ([Named("a")], "b", "str is no model"),
        ([FallbackChain([Named("a")])], None, "a FallbackChain is in another one"),
    ],
)
def test_a_chain_that_cannot_work_is_refused(models: Any, on_refusal: Any, problem: str) -> None:
    """Two models of one name would share a price and a breaker."""
    with pytest.raises(ConfigurationError, match=problem):
        FallbackChain(models, on_refusal=on_refusal)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"context_window": 0}, "context_window=0; give tokens, or None"),
        ({"context_window": "8k"}, "context_window='8k'"),
        ({"context_window": True}, "context_window=True"),
        ({"timeout": 0}, "timeout=0; give seconds above 0, or None"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"timeout": "6"}, "timeout='6'"),
    ],
)
def test_what_a_model_cannot_mean_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        endpoints_of(cast("Model", Named("a", **options)))
