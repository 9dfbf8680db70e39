"""What is declared of a tool beside its signature: what it touches, and how it is to be treated."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import ConfigurationError, tool
from loopwright.actors.definitions._tool import InvalidArgumentsError
from loopwright.policy import Traits


def pay(order: int, amount: int = 1) -> None: ...


def _order(a: Any) -> list[str]:
    return [f"order:{a.order}"]


def _both(a: Any) -> set[str]:
    return {f"order:{a.order}", "account"}


def _twice(_a: Any) -> list[str]:
    return ["b", "a", "b"]


def _none(_a: Any) -> tuple[str, ...]:
    return ()


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        (None, None),
        (_none, ()),
        (_order, ("order:7",)),
        (_both, ("account", "order:7")),
        (_twice, ("a", "b")),
    ],
)
def test_what_a_call_touches(declared: Any, named: tuple[str, ...] | None) -> None:
    """Sorted, once each; to touch nothing is not the same as not to say."""
    made = tool(effect="idempotent", resources=declared, writes=declared)(pay)
    _, checked = made.check({"order": 7})
    assert made.reads_of(checked) == named
    assert made.writes_of(checked) == named


def _fails(a: Any) -> Any:
    return a.nothing


def _nothing(_a: Any) -> Any:
    return None


def _mixed(_a: Any) -> Any:
    return [1, "a"]


def _number(_a: Any) -> Any:
    return [7]


def _text(_a: Any) -> Any:
    return "order:7"


def _surrogate(_a: Any) -> Any:
    return ["order:\ud800"]


@pytest.mark.parametrize("parameter", ["resources", "writes"])
@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (_fails, "failed with AttributeError: "),
        (_nothing, "failed with TypeError: "),
        (_mixed, "failed with TypeError: "),
        (_number, "are [7]; {} must return texts"),
        (_text, "are 'order:7'; {} must return texts"),
        (_surrogate, "are ['order:"),
    ],
)
def test_what_cannot_be_said_to_be_touched_does_not_run(
    parameter: str, declared: Any, problem: str
) -> None:
    """A call must not run in a made-up order, nor be judged without its objects."""
    made = tool(effect="idempotent", **{parameter: declared})(pay)
    _, checked = made.check({"order": 7})
    ask = made.reads_of if parameter == "resources" else made.writes_of
    with pytest.raises(InvalidArgumentsError) as caught:
        ask(checked)
    start = f"the resources of tool 'pay' {problem.format(parameter)}"
    assert str(caught.value).startswith(start)


def test_how_a_tool_is_treated() -> None:
    """All of it is off unless it is declared."""
    plain = tool(effect="read")(pay)
    assert (plain.traits, plain.finishing, plain.operation) == (Traits(), False, "pay")
    assert plain.child is None
    made = tool(
        effect="read", polling=True, volatile=["at", "id"], finishing=True, operation="orders.pay"
    )(pay)
    assert made.traits == Traits(polling=True, volatile=("at", "id"))
    assert (made.finishing, made.operation) == (True, "orders.pay")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"resources": ["order"]}, "tool 'pay' has ['order'] as resources=; give a function of "),
        ({"resources": lambda: ["a"]}, "tool 'pay' has <function <lambda> at "),
        ({"polling": 1}, "tool 'pay' has polling=1; give True or False"),
        ({"finishing": "yes"}, "tool 'pay' has finishing='yes'; give True or False"),
        ({"volatile": "at"}, "tool 'pay' has volatile='at'; give a list of field names"),
        ({"volatile": [1]}, "tool 'pay' has volatile=[1]; give a list of field names"),
        ({"volatile": [""]}, "tool 'pay' has volatile=['']; give a list of field names"),
        ({"volatile": None}, "tool 'pay' has volatile=None; give a list of field names"),
        ({"operation": " "}, "tool 'pay' has operation=' '; give a text, or leave it out"),
        ({"operation": 7}, "tool 'pay' has operation=7; give a text, or leave it out"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], sentence: str) -> None:
    """At registration, not at the first call."""
    with pytest.raises(ConfigurationError) as caught:
        tool(effect="read", **options)(pay)
    assert str(caught.value).startswith(sentence)
