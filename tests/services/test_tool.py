"""Registration: what cannot be a tool, and the schema a signature gives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from math import inf, nan
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, Field

from loopwright import (
    Agent,
    ConfigurationError,
    Principal,
    Reconciled,
    ToolCalls,
    ToolContext,
    ToolFailure,
    applied,
    tool,
)
from loopwright.actors import AnyTool
from loopwright.actors.roles._judge import Judge
from loopwright.protocol import (
    Accepted,
    CallId,
    Effect,
    ErrorCategory,
    InvocationId,
    JsonObject,
    PlannedCall,
    ToolCall,
    Validate,
)
from loopwright.testing import ScriptedModel


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
            {"effect": "read", "writes": list},
            "tool 'plain' is a read that writes; drop writes=, or declare its effect",
        ),
        ({"effect": "read", "dispatch": "outbox"}, "tool 'plain' is read and cannot go through "),
        (
            {"effect": Effect.MANUAL, "dispatch": "outbox"},
            "tool 'plain' is manual and cannot go through the outbox, which delivers at least once; ",
        ),
        (
            {"effect": "idempotent", "dispatch": "later"},
            "tool 'plain' has dispatch='later'; give 'call' or 'outbox'",
        ),
        (
            {"effect": "read", "timeout": 0},
            "tool 'plain' has timeout=0; give seconds above 0, or None",
        ),
        (
            {"effect": "read", "max_concurrency": 0},
            "tool 'plain' has max_concurrency=0; give at least 1",
        ),
        (
            {"effect": ["read"]},
            "tool 'plain' has the effect class ['read']; declare effect= one of",
        ),
        ({"effect": "read", "timeout": nan}, "tool 'plain' has timeout=nan; give seconds above 0"),
        ({"effect": "read", "timeout": inf}, "tool 'plain' has timeout=inf; give seconds above 0"),
        ({"effect": "read", "timeout": "5"}, "tool 'plain' has timeout='5'; give seconds above 0"),
        (
            {"effect": "read", "max_concurrency": 1.5},
            "tool 'plain' has max_concurrency=1.5; give at least 1",
        ),
        (
            {"effect": "idempotent", "effect_key": "refund"},
            "tool 'plain' has 'refund' as effect_key=; give a function of one argument",
        ),
        (
            {"effect": "idempotent", "writes": ["order"]},
            "tool 'plain' has ['order'] as writes=; give a function of one argument",
        ),
        (
            {"effect": "idempotent", "effect_key": lambda: "refund"},
            "tool 'plain' has <function <lambda> at ",
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


# ---------------------------------------------------------------- reconcilers
def _ask(_key: str) -> Reconciled:
    return applied()


def test_a_reconcilable_tool_is_asked_by_its_reconciler() -> None:
    """What decorates it stays the function it was."""
    made = tool(effect="reconcilable")(plain)
    assert made.reconcile(_ask) is _ask
    assert made.reconciler is _ask


@pytest.mark.parametrize("effect", [e for e in Effect if e is not Effect.RECONCILABLE], ids=str)
def test_only_a_reconcilable_tool_is_asked(effect: Effect) -> None:
    """For any other class nobody would ask it: a reconciler there is a mistake."""
    made = tool(effect=effect)(plain)
    text = f"tool 'plain' is {effect.value}; only a reconcilable one is asked"
    with pytest.raises(ConfigurationError, match=text):
        made.reconcile(_ask)
    assert made.reconciler is None


def test_a_tool_has_one_reconciler() -> None:
    """Of two, one would never be asked."""
    made = tool(effect="reconcilable")(plain)
    made.reconcile(_ask)
    with pytest.raises(ConfigurationError, match="tool 'plain' has two reconcilers; drop one"):
        made.reconcile(_ask)


@pytest.mark.parametrize("given", ["applied", lambda: applied()])
def test_a_reconciler_takes_the_effect_key(given: Any) -> None:
    """Otherwise it would fail where it is needed, which says that nothing is known."""
    made = tool(effect="reconcilable")(plain)
    with pytest.raises(ConfigurationError, match=r"^tool 'plain' has .* as its reconciler"):
        made.reconcile(given)
    assert made.reconciler is None


def test_a_reconcilable_tool_without_a_reconciler_is_refused_at_registration() -> None:
    """Not at the first crash: the error names the decorator."""
    made = tool(effect="reconcilable")(plain)
    with pytest.raises(
        ConfigurationError,
        match=r"^agent 'desk': tool 'plain' is reconcilable and cannot be asked; .* `.reconcile` of the tool$",
    ):
        Agent("desk", model=ScriptedModel([]), tools=[made])
    made.reconcile(_ask)
    assert Agent("desk", model=ScriptedModel([]), tools=[made]).tools["plain"] is made


# ---------------------------------------------------------------- the outbox, and what is touched
@pytest.mark.parametrize("effect", ["idempotent", "reconcilable"])
def test_what_can_be_delivered_more_than_once_may_go_through_the_outbox(effect: str) -> None:
    """The downstream deduplicates by effect key, or can be asked."""
    assert tool(effect=effect, dispatch="outbox")(plain).outbox
    assert not tool(effect=effect)(plain).outbox


def pay(order: int, amount: int = 1) -> None: ...


def _order(a: Any) -> list[str]:
    return [f"order:{a.order}"]


def _text(_a: Any) -> Any:
    return "order:7"


def planned(made: AnyTool) -> PlannedCall:
    """Have a call judged."""
    agent = Agent("desk", model=ScriptedModel([]), tools=[made])
    call = ToolCall(CallId("p"), "pay", {"order": 7})
    request = Validate(InvocationId("i1"), 1, ToolCalls((call,)), Principal())
    verdict = Judge(agent).judge(request)
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    return verdict.plan.calls[0]


def test_only_an_outbox_call_is_planned_as_one() -> None:
    """In order with what it changes, or with all of its tool; the others say nothing of it."""
    made = tool(effect="idempotent", writes=_order, dispatch="outbox")(pay)
    assert planned(made).outbox == ("order:7",)
    undeclared = tool(effect="idempotent", dispatch="outbox")(pay)
    assert planned(undeclared).outbox == ("tool:pay",)
    assert planned(tool(effect="idempotent", writes=_order)(pay)).outbox is None


def test_an_outbox_call_of_which_nobody_can_say_what_it_touches_is_refused() -> None:
    """The model is told, as for an effect key that cannot be made."""
    made = tool(effect="idempotent", writes=_text, dispatch="outbox")(pay)
    call = planned(made)
    assert call.outbox is None
    assert call.refused is not None
    assert call.refused.status == "invalid_arguments"
