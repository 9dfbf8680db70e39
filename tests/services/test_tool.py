"""Registration: what cannot be a tool, and the schema a signature gives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, Field

from loopwright import ConfigurationError, ToolContext, ToolFailure, tool
from loopwright.actors import AnyTool
from loopwright.protocol import Effect, ErrorCategory, JsonObject


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    sku: str
    count: int = 1


def read(function: Callable[..., Any]) -> AnyTool:
    """Register a read."""
    return tool(effect="read")(function)


def properties(made: AnyTool) -> JsonObject:
    """The arguments a model is told of."""
    return cast("JsonObject", made.spec.parameters["properties"])


def plain() -> None:
    """Do nothing."""


class _Callable:
    def __call__(self, x: int) -> None: ...


def _two(a: ToolContext, b: ToolContext) -> None: ...
def _positional(ctx: ToolContext, /) -> None: ...
def _star(*ctx: ToolContext) -> None: ...
def _rest(**rest: int) -> None: ...
def _callback(f: Callable[[], None]) -> None: ...
def _opaque(f: _Callable) -> None: ...
def _misspelt(x: int) -> None: ...
def _unfinished(x: int) -> None: ...
def _missing(x: int) -> None: ...
def _untyped(x: int) -> None: ...


del _untyped.__annotations__["x"]
_misspelt.__annotations__["x"] = "functools.nothing"
_unfinished.__annotations__["x"] = "list["
_missing.__annotations__["x"] = "Nowhere"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "tool 'plain' has no effect class; declare effect= one of 'read', "),
        ({"effect": "wirte"}, "tool 'plain' has the effect class 'wirte'; declare effect= one of "),
        (
            {"effect": "read", "name": "no spaces"},
            "tool name 'no spaces' is not usable; use 1-64 letters, digits, _ or -",
        ),
        ({"effect": "read", "name": "x" * 65}, "tool name 'xxx"),
        (
            {"effect": "read", "effect_key": str},
            "tool 'plain' is a read with an effect key; drop one of the two",
        ),
        (
            {"effect": "read", "timeout": 0},
            "tool 'plain' has timeout=0; give seconds above 0, or None",
        ),
        (
            {"effect": "read", "max_concurrency": 0},
            "tool 'plain' has max_concurrency=0; give at least 1",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], sentence: str) -> None:
    """Each is one sentence: what, where, what to do."""
    with pytest.raises(ConfigurationError) as caught:
        tool(**options)(plain)

    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (_two, "tool '_two' has two ToolContext parameters; one is enough, drop the other"),
        (_positional, "tool '_positional' has the parameter ctx: "),
        (_star, "tool '_star' has the parameter *ctx: "),
        (_rest, "tool '_rest' has the parameter **rest: "),
        (_untyped, "tool '_untyped' has the parameter 'x' without a type; annotate it"),
        (_missing, "tool '_missing' has an annotation that cannot be resolved: name 'Nowhere' is"),
        (_misspelt, "tool '_misspelt' has an annotation that cannot be resolved: module"),
        (_unfinished, "tool '_unfinished' has an annotation that cannot be resolved: "),
        (_callback, "tool '_callback' has an argument type that has no JSON schema: "),
        (_opaque, "tool '_opaque' has an argument type that has no JSON schema: "),
        (functools.partial(plain), "functools.partial(<function plain at "),
        (_Callable(), "<"),
        (_Callable, "<class"),
    ],
)
def test_signatures_that_are_no_schema_are_refused(
    function: Callable[..., Any], sentence: str
) -> None:
    """Whatever is wrong with a signature is said at registration, not at the first call."""
    with pytest.raises(ConfigurationError) as caught:
        read(function)

    assert str(caught.value).startswith(sentence)


def test_lambdas_need_a_name() -> None:
    """A name nobody chose is not usable."""
    with pytest.raises(ConfigurationError, match="tool name '<lambda>' is not usable"):
        read(lambda: None)
    assert tool(effect="read", name="noop")(lambda: None).name == "noop"


def test_the_signature_is_the_schema() -> None:
    """Types, defaults, descriptions and limits of the arguments reach the model; extras don't fit."""

    def order(
        item: Item,
        total: Decimal,
        due: datetime,
        colour: Colour,
        size: Literal["s", "m"] = "m",
        *,
        count: Annotated[int, Field(ge=1, description="how many")] = 1,
        limit: int = Field(5, le=9),
        tags: list[str] = [],  # noqa: B006 - what the test is about
    ) -> None: ...

    made = read(order)

    assert made.spec.parameters["required"] == ["item", "total", "due", "colour"]
    assert made.spec.parameters["additionalProperties"] is False
    assert "title" not in made.spec.parameters
    shown = properties(made)
    assert set(shown) == {"item", "total", "due", "colour", "size", "count", "limit", "tags"}
    assert shown["item"] == {"$ref": "#/$defs/Item"}
    assert shown["colour"] == {"$ref": "#/$defs/Colour"}
    assert shown["due"] == {"format": "date-time", "title": "Due", "type": "string"}
    assert shown["size"] == {
        "default": "m",
        "enum": ["s", "m"],
        "title": "Size",
        "type": "string",
    }
    assert shown["count"] == {
        "default": 1,
        "description": "how many",
        "minimum": 1,
        "title": "Count",
        "type": "integer",
    }
    assert shown["limit"] == {"default": 5, "maximum": 9, "title": "Limit", "type": "integer"}


def _first(ctx: ToolContext, x: int) -> None: ...
def _middle(x: int, ctx: ToolContext, y: int) -> None: ...
def _keyword(x: int, *, ctx: ToolContext) -> None: ...
def _optional(x: int, ctx: ToolContext | None = None) -> None: ...
def _annotated(x: int, ctx: Annotated[ToolContext, "mine"]) -> None: ...


@pytest.mark.parametrize("function", [_first, _middle, _keyword, _optional, _annotated])
def test_a_model_never_sees_the_context(function: Callable[..., None]) -> None:
    """Wherever and however a ToolContext is asked for, it is no argument: a model can't make one."""
    made = read(function)

    assert "ctx" not in properties(made)
    assert "ToolContext" not in str(made.spec.parameters)


def test_annotations_as_text_are_resolved() -> None:
    """This module has only text annotations; quoted ones inside are resolved too."""

    def find(item: Item | None, colour: Literal["x"], ctx: ToolContext) -> None: ...

    assert find.__annotations__["ctx"] == "ToolContext"
    assert list(properties(read(find))) == ["item", "colour"]


def test_what_a_tool_is_told_of_by() -> None:
    """Name and description come from the function unless given."""

    @tool(effect="idempotent")
    def pay() -> None:
        """Pay.

        At once.
        """

    @tool(effect=Effect.MANUAL, name="mail-2", description="Send a mail.")
    def mail() -> None: ...

    assert (pay.spec.name, pay.spec.description) == ("pay", "Pay.\n\nAt once.")
    assert (mail.spec.name, mail.spec.description) == ("mail-2", "Send a mail.")
    assert mail.spec.effect is mail.effect is Effect.MANUAL
    assert repr(mail) == "<Tool mail-2 effect=manual>"
    assert read(plain).spec.description == "Do nothing."


def test_a_method_can_be_a_tool() -> None:
    """A bound method is a function of its other parameters."""

    class Shop:
        def find(self, sku: str) -> str:
            return sku

    made = read(Shop().find)
    assert list(properties(made)) == ["sku"]
    assert made("a") == "a"


async def _double(x: int) -> int:
    return 2 * x


@pytest.mark.anyio
async def test_calling_a_tool_calls_the_function() -> None:
    """It can be tested as the function it was: nothing is validated or coerced."""
    made = tool(effect="read")(_double)

    assert made.is_async
    assert await made(21) == 42
    assert await made(x=datetime(2026, 1, 1, tzinfo=UTC).year) == 4052


def test_the_schema_version_follows_the_schema() -> None:
    """It changes with the arguments' schema, and with nothing else."""

    def one(x: int) -> None: ...
    def same(x: int) -> str:
        """Say otherwise."""
        return str(x)

    def wider(x: int | None) -> None: ...
    def defaulted(x: int = 1) -> None: ...
    def limited(x: Annotated[int, Field(le=3)]) -> None: ...

    versions = [read(f).schema_version for f in (one, same, wider, defaulted, limited)]
    assert versions[0] == versions[1]
    assert len(set(versions)) == 4


def test_a_failure_says_its_category() -> None:
    """By name or as the enum; one that doesn't exist is refused where it is raised."""
    assert ToolFailure("no").category is ErrorCategory.PERMANENT
    assert ToolFailure("no", category="rate_limited").category is ErrorCategory.RATE_LIMITED
    assert ToolFailure("no", retryable=True).retryable
    with pytest.raises(ValueError, match="nonsense"):
        ToolFailure("no", category="nonsense")
