"""`check` and `bind`: what a model wrote, what is judged, and what the body gets are one thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel, BeforeValidator, Field, Json, computed_field

from loopwright import Principal, ToolContext, tool
from loopwright.actors import AnyTool
from loopwright.actors.definitions._tool import InvalidArgumentsError
from loopwright.protocol import AttemptId, CallId, InvocationId, JsonObject, JsonValue

CONTEXT = ToolContext(
    InvocationId("i"), 1, CallId("c"), AttemptId("c#1"), 1, None, Principal("ann")
)


class Aliased(BaseModel):
    from_: str = Field(alias="from")


class Strict(BaseModel, extra="forbid"):
    a: int

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def twice(self) -> int:
        return 2 * self.a


class Loose(BaseModel):
    number: float


@dataclass
class Options:
    depth: int = 1


def _broken(value: object) -> object:
    raise KeyError(value)


def read(function: Callable[..., Any]) -> AnyTool:
    return tool(effect="read")(function)


def run(made: AnyTool, arguments: JsonObject) -> tuple[JsonObject, Any]:
    """Check arguments, bind them and call the function: the arguments as they run, and its value."""
    final, _ = made.check(arguments)
    return final, made.function(**made.bind(final, lambda: CONTEXT))


def _decimal(d: Decimal) -> Any:
    return d


def _when(at: datetime) -> Any:
    return at


def _aliased(m: Aliased, to: Annotated[str, Field(alias="to-whom")]) -> Any:
    return m.from_, to


def _strict(s: Strict) -> Any:
    return s.twice


def _json(j: Json[list[int]]) -> Any:
    return j


def _defaults(a: int, b: str = "x", *, c: Annotated[int, Field(default=3)]) -> Any:
    return a, b, c


@pytest.mark.parametrize(
    ("function", "given", "final", "value"),
    [
        (_decimal, {"d": 1.50}, {"d": "1.5"}, Decimal("1.5")),
        (_decimal, {"d": "1.50"}, {"d": "1.50"}, Decimal("1.50")),
        (
            _when,
            {"at": "2026-01-02T03:04:05"},
            {"at": "2026-01-02T03:04:05"},
            datetime(2026, 1, 2, 3, 4, 5),
        ),
        (_defaults, {"a": "1"}, {"a": 1, "b": "x", "c": 3}, (1, "x", 3)),
        (
            _aliased,
            {"m": {"from": "ann"}, "to-whom": "bob"},
            {"m": {"from": "ann"}, "to-whom": "bob"},
            ("ann", "bob"),
        ),
        (_strict, {"s": {"a": 2}}, {"s": {"a": 2}}, 4),
        (_json, {"j": "[1, 2]"}, {"j": "[1,2]"}, [1, 2]),
    ],
)
def test_what_is_checked_can_be_bound(
    function: Callable[..., Any], given: JsonObject, final: JsonObject, value: object
) -> None:
    """Arguments after defaults and coercion are JSON, and read again as what was checked."""
    made = read(function)

    assert run(made, given) == (final, value)
    assert made.check(final)[0] == final


def test_arguments_that_need_no_change_are_not_copied() -> None:
    """What fits as it is, runs as it is: the very object, so that nothing is encoded twice."""

    def find(a: str, b: int) -> None: ...

    made = read(find)
    given: JsonObject = {"a": "x", "b": 1}

    assert made.check(given)[0] is given
    assert made.check({"a": "x", "b": "1"})[0] == given


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "a: Field required"),
        ({"a": 1, "z": 2}, "z: Unexpected keyword argument"),
        ({"a": "one"}, "a: Input should be a valid integer"),
        ({"a": 1, "deep": [{"x": "y"}]}, "deep.0.x: Input should be a valid integer"),
        ({"a": 1, "f": "nan"}, "f: Input should be a finite number"),
        ({"a": 1, "loose": {"number": "nan"}}, "arguments.loose.number: nan is not a JSON number"),
        ({"a": 1, "broken": 5}, "KeyError: 5"),
    ],
)
def test_what_does_not_fit_is_explained(given: JsonObject, problem: str) -> None:
    """Each path at fault is named; a type whose own validator crashes fits nothing."""

    def find(
        a: int,
        f: float = 0.0,
        deep: list[dict[str, int]] | None = None,
        loose: Loose | None = None,
        broken: Annotated[int, BeforeValidator(_broken)] = 0,
    ) -> None: ...

    with pytest.raises(InvalidArgumentsError) as caught:
        read(find).check(given)

    assert str(caught.value).startswith(problem)


def test_an_explanation_is_bounded() -> None:
    """A hundred faults are five and a number."""

    def find(xs: list[int]) -> None: ...

    with pytest.raises(InvalidArgumentsError, match=r"; and 95 more$"):
        read(find).check({"xs": cast("list[JsonValue]", ["x"] * 100)})


def test_the_context_is_handed_over() -> None:
    """It is made when the body is to run, under whatever name it is asked for."""

    def find(a: int, whoever: ToolContext | None = None) -> object:
        return a, whoever

    assert run(read(find), {"a": 1}) == ({"a": 1}, (1, CONTEXT))


def test_defaults_do_not_leak() -> None:
    """A body that changes what it got by default changes it for nobody else."""
    shared_options = Options()

    def find(
        xs: list[int] = [],  # noqa: B006 - what the test is about
        options: Options = shared_options,
        seen: set[str] = set(),  # noqa: B006 - see above
        m: Strict = Strict(a=1),  # noqa: B008 - see above
    ) -> object:
        xs.append(1)
        options.depth += 1
        seen.add("x")
        m.a += 1
        return xs, options.depth, seen, m.a

    made = read(find)
    for _ in range(2):
        assert run(made, {})[1] == ([1], 2, {"x"}, 2)
    assert made.bind({}, lambda: CONTEXT)["xs"] == []
    assert shared_options.depth == 1


def test_arguments_do_not_leak() -> None:
    """A body that changes its arguments changes neither the plan nor another attempt's."""

    def find(any_: Any, nested: list[dict[str, Any]]) -> None:
        any_["x"].append(1)
        nested[0]["deep"]["y"] = 1

    made = read(find)
    final: JsonObject = {"any_": {"x": []}, "nested": [{"deep": {}}]}
    for _ in range(2):
        run(made, final)

    assert final == {"any_": {"x": []}, "nested": [{"deep": {}}]}


def test_arguments_of_another_version_are_refused() -> None:
    """A journal may hold arguments that an older version of the tool had checked."""

    def find(a: int) -> None: ...

    with pytest.raises(InvalidArgumentsError, match="a: Field required"):
        read(find).bind({}, lambda: CONTEXT)


def key_of(effect_key: Callable[[Any], Any] | None, **given: Any) -> str | None:
    @tool(effect="idempotent", effect_key=effect_key)
    def pay(order: int, note: str = "none") -> None: ...

    return pay.effect_key_of(pay.check(given)[1])


def test_an_effect_key_is_made_of_checked_arguments() -> None:
    """Defaults and coercion come first, so that one mutation has one key."""

    def key(a: Any) -> str:
        return f"order:{a.order}:{a.note}"

    assert key_of(key, order="7") == key_of(key, order=7, note="none") == "order:7:none"
    assert key_of(None, order=7) is None


def _order(a: Any) -> Any:
    return a.order


def _nothing(_: Any) -> Any:
    return None


def _blank(_: Any) -> Any:
    return " "


def _half(_: Any) -> Any:
    return "pay:\ud800"


def _misspelt(a: Any) -> Any:
    return a.ordr


@pytest.mark.parametrize(
    ("effect_key", "sentence"),
    [
        (_order, "the effect key of tool 'pay' is 7; effect_key must return a text"),
        (_nothing, "the effect key of tool 'pay' is None; effect_key must return a text"),
        (_blank, "the effect key of tool 'pay' is ' '; effect_key must return a text"),
        (_half, "the effect key of tool 'pay' is 'pay:"),
        (_misspelt, "the effect key of tool 'pay' failed with AttributeError: "),
    ],
)
def test_an_effect_key_is_never_made_up(effect_key: Callable[[Any], Any], sentence: str) -> None:
    """A key that was declared and cannot be made stops the write; no other one is put in its place."""
    with pytest.raises(InvalidArgumentsError) as caught:
        key_of(effect_key, order=7)

    assert str(caught.value).startswith(sentence)
