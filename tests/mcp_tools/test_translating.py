"""What a server says of its tools and their results, as what it is taken for here."""

from __future__ import annotations

import time
from typing import Any

import pytest
from mcp_types import CallToolResult, InputRequiredResult, Tool, ToolAnnotations

from loopwright import Effect, ToolFailure
from loopwright.actors import InvalidArgumentsError
from loopwright.adapters.mcp._effects import effect_of
from loopwright.adapters.mcp._names import tool_name
from loopwright.adapters.mcp._results import output_of
from loopwright.adapters.mcp._schema import SchemaArguments
from loopwright.protocol import JsonObject, JsonValue

from .bench import CONTEXT

ANY: dict[str, Any] = {"type": "object"}


# ---------------------------------------------------------------- names
def test_a_name_that_fits_stays_as_it_is() -> None:
    assert tool_name("git", "git_log") == "git__git_log"
    assert tool_name("git", "read-file") == "git__read-file"
    assert len(tool_name("git", "x" * 59)) == 64


@pytest.mark.parametrize("listed", ["read.file", "a/b", "x" * 60, "", "naïve", "\ud800", " "])
def test_a_name_that_does_not_fit_gets_a_digest(listed: str) -> None:
    """The same each time, and never that of another one."""
    made = tool_name("git", listed)
    assert made == tool_name("git", listed)
    assert len(made) <= 64
    assert made.isascii()
    if listed:
        assert made.startswith("git__")
        assert made != tool_name("git", listed[:-1] + "?")


# ---------------------------------------------------------------- effects
READ, SAFE = {"read_only_hint": True}, {"idempotent_hint": True}


@pytest.mark.parametrize(
    ("hints", "trusted"),
    [
        (None, "manual"),
        ({}, "manual"),
        (READ, "read"),
        ({**READ, "idempotent_hint": False, "destructive_hint": False}, "read"),
        # It contradicts itself.
        ({**READ, "destructive_hint": True}, "manual"),
        (SAFE, "idempotent"),
        ({**SAFE, "destructive_hint": True}, "idempotent"),
        ({"destructive_hint": False}, "manual"),
        ({"read_only_hint": False}, "manual"),
    ],
)
def test_hints_count_only_where_they_are_trusted(
    hints: dict[str, bool] | None, trusted: str
) -> None:
    """What is missing means the worst; what the user declares counts in any case."""
    annotations = None if hints is None else ToolAnnotations.model_validate(hints, by_name=True)
    listed = Tool(name="t", input_schema=ANY, annotations=annotations)
    assert effect_of(listed, {}, trust_hints=False) is Effect.MANUAL
    assert effect_of(listed, {}, trust_hints=True).value == trusted
    for trust in (True, False):
        assert effect_of(listed, {"t": Effect.READ}, trust_hints=trust) is Effect.READ


# ---------------------------------------------------------------- results
def content(*blocks: dict[str, Any], **more: Any) -> CallToolResult:
    return CallToolResult.model_validate({"content": list(blocks), **more}, by_name=False)


TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGVs", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"}
LINES = {"type": "resource", "resource": {"uri": "file:///a", "text": "lines"}}
BLOB = {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGVsbG8h", "mimeType": "x/y"}}


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (content(), ""),
        (content(TEXT), "a"),
        (content(TEXT, structuredContent={"n": 1}), {"n": 1}),
        (content(structuredContent={"n": 1}), {"n": 1}),
        (content(TEXT, TEXT), [TEXT, TEXT]),
        (content(IMAGE), [{"type": "image", "mime_type": "image/png", "bytes": 5}]),
        (content(AUDIO), [{"type": "audio", "mime_type": "audio/wav", "bytes": 3}]),
        (
            content(LINK),
            [{"type": "resource_link", "uri": "file:///a", "name": "a", "mime_type": "text/plain"}],
        ),
        (
            content(LINES),
            [{"type": "resource", "uri": "file:///a", "mime_type": None, "text": "lines"}],
        ),
        (
            content(BLOB),
            [{"type": "resource", "uri": "file:///b", "mime_type": "x/y", "bytes": 6}],
        ),
    ],
)
def test_what_a_result_is(result: CallToolResult, output: JsonValue) -> None:
    assert output_of(result) == output


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (content(TEXT, TEXT, isError=True), "a\na"),
        (content(isError=True), "the server says that it failed, and not why"),
        (content(isError=True, structuredContent={"why": "no"}), '{"why":"no"}'),
        (content(IMAGE, isError=True), "the server says that it failed, and not why"),
        (InputRequiredResult(request_state="s"), "the server wants further input for this call"),
    ],
)
def test_what_is_a_failure(result: CallToolResult | InputRequiredResult, text: str) -> None:
    """By the server's own word, so that the same call is not tried again."""
    with pytest.raises(ToolFailure) as caught:
        output_of(result)
    assert str(caught.value).startswith(text)
    assert (caught.value.category, caught.value.retryable) == ("permanent", False)


# ---------------------------------------------------------------- arguments
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "deep": {
            "type": "object",
            "properties": {"s": {"type": "string"}},
            "required": ["s"],
            "additionalProperties": False,
        },
        "list": {"type": "array", "items": {"enum": [1, 2]}},
        "when": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "required": ["n"],
    "unevaluatedProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "n: Field required"),
        ({"n": "hush"}, 'n: it is not of type "integer"'),
        ({"n": 1, "more": 1}, "more: Extra inputs are not permitted"),
        ({"n": 1, "deep": {}}, "deep.s: Field required"),
        ({"n": 1, "deep": {"s": "", "x": 1, "y": 2}}, "deep.x: Extra inputs are not permitted; de"),
        ({"n": 1, "list": [1, 2, 3]}, "list.2: it is not one of 1 or 2"),
        ({"n": 1, "when": "hush"}, 'when: it does not match "^[0-9]+$"'),
        ({"n": 1, "list": [0] * 9}, "list.0: it is not one of 1 or 2; list.1: "),
    ],
)
def test_each_path_at_fault_is_named(arguments: JsonObject, text: str) -> None:
    """As for tools of our own; what stands there is not repeated."""
    with pytest.raises(InvalidArgumentsError) as caught:
        SchemaArguments(SCHEMA, "v").check(arguments)
    assert str(caught.value).startswith(text)
    assert "hush" not in str(caught.value)
    if len(arguments.get("list", [])) == 9:  # type: ignore[arg-type]  # a list
        assert str(caught.value).endswith("; and 4 more")


def test_what_fits_is_what_runs() -> None:
    """Nothing is coerced or filled in: the schema is the server's, and so is what it makes of it."""
    arguments: JsonObject = {"n": 10**30, "deep": {"s": ""}}
    made = SchemaArguments(SCHEMA, "v")
    assert made.check(arguments) == (arguments, arguments)
    assert made.bind(arguments, lambda: CONTEXT) == {"arguments": arguments, "context": CONTEXT}
    with pytest.raises(InvalidArgumentsError):
        made.bind({}, lambda: CONTEXT)


def test_a_pattern_that_could_take_for_ever_does_not() -> None:
    """The schema is foreign, and the arguments are a model's."""
    schema: JsonObject = {"type": "object", "properties": {"s": {"pattern": "^(a+)+$"}}}
    with pytest.raises(InvalidArgumentsError):
        SchemaArguments(schema, "v").check({"s": "a" * 50_000 + "!"})


def test_a_pattern_that_looks_around_gives_up_as_well() -> None:
    """One with a reference back cannot be run in linear time: it is stopped, on each of its texts."""
    schema: JsonObject = {
        "type": "object",
        "properties": {"s": {"items": {"pattern": r"^(a|a)*\1$(?!x)"}}},
    }
    made = SchemaArguments(schema, "v")
    began = time.process_time()
    with pytest.raises(InvalidArgumentsError):
        made.check({"s": [*["a" * 40 + "!"] * 100]})
    assert time.process_time() - began < 2


def doubling(kind: str, link: str) -> JsonObject:
    """Make a schema of a few lines that looks at one value 2**60 times."""
    levels = range(60)
    definitions: dict[str, Any] = {
        f"d{n}": {"$anchor": f"a{n}", kind: [{"$ref": link.format(n + 1)}] * 2} for n in levels
    }
    definitions["d60"] = {"$anchor": "a60", "type": "string"}
    return {
        "type": "object",
        "additionalProperties": {"$ref": link.format(0)},
        "$defs": definitions,
    }


@pytest.mark.parametrize("kind", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("link", ["#/$defs/d{}", "#/%24defs/d{}", "#a{}"])
def test_a_schema_that_would_take_for_ever_cannot_be_applied(kind: str, link: str) -> None:
    """Nothing could stop it once it is asked, and the loop with all other invocations would stand."""
    with pytest.raises(ValueError, match="it would look at one value too often"):
        SchemaArguments(doubling(kind, link), "v")


def test_a_long_choice_is_no_endless_one() -> None:
    """Each branch is looked at once, however deep it stands."""
    schema: JsonObject = {"type": "object"}
    for n in range(25):
        schema = {"type": "object", "if": {"required": [str(n)]}, "then": {}, "else": schema}
    assert SchemaArguments(schema, "v").check({}) == ({}, {})


def test_a_chain_without_end_cannot_be_applied() -> None:
    chain: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(20_000)}
    with pytest.raises(ValueError, match="it would look at one value too often"):
        SchemaArguments({"type": "object", "$ref": "#/$defs/d0", "$defs": chain}, "v")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "$ref": "#"},
        {"type": "object", "allOf": [{"$ref": "#"}], "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"const": n} for n in range(500)]}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"},
    ],
    ids=["itself", "nested", "nowhere", "wide", "old"],
)
def test_a_schema_may_refer_to_itself(schema: JsonObject) -> None:
    """A tree does; and so may others, as old as they are, have many branches."""
    assert SchemaArguments(schema, "v").check({}) == ({}, {})
