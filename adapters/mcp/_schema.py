"""Arguments by a JSON schema that a server gives, checked here before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from jsonschema_rs import (
    FancyRegexOptions,
    ValidationError,
    ValidationErrorKind,
    validator_for,
)

from loopwright.actors import InvalidArgumentsError, ToolContext
from loopwright.protocol import JsonObject, JsonValue

_Problem: TypeAlias = tuple[Sequence[str | int], str]

_SHOWN_AS: Final = "it"
"""What an error calls a value; the value itself may be long, or a secret."""
_STEPS: Final = FancyRegexOptions(backtrack_limit=10_000)
"""A pattern that goes back more often than this on one text matches nothing."""
_MOST_LOOKS: Final = 10_000
"""So often one value may be looked at: by a few lines, a schema can ask for 2**60 times."""
_SAME_VALUE: Final = (
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    *("$ref", "$dynamicRef", "$recursiveRef", "dependentSchemas", "dependencies"),
)
"""What looks at the same value once more."""


class SchemaArguments:
    """By a JSON schema. Nothing that it refers to is fetched from anywhere.

    Args:
        schema: What the server gives.
        version: Digest of all that the server says of the tool.

    Raises:
        ValueError: If it is no JSON schema, refers to something outside of it, or would take for
            ever.
    """

    def __init__(self, schema: JsonObject, version: str) -> None:
        self.schema = schema
        self.version = version
        _Looks(schema).bound()
        self._validator = validator_for(
            schema, offline=True, mask=_SHOWN_AS, pattern_options=_STEPS
        )

    def check(self, arguments: JsonObject) -> tuple[JsonObject, JsonObject]:
        """Validate arguments; what runs, and what rules are asked about, is what was given."""
        try:
            if self._validator.is_valid(arguments):
                return arguments, arguments
            problems = [p for error in self._validator.iter_errors(arguments) for p in _told(error)]
        except Exception as error:
            # Compiled code that is not ours, run on what is not ours.
            msg = f"the schema could not be applied: {type(error).__name__}"
            raise InvalidArgumentsError(msg) from error
        raise InvalidArgumentsError.at(problems)

    def bind(self, arguments: JsonObject, context: Callable[[], ToolContext]) -> Mapping[str, Any]:
        """Hand them on as they are: the server gets a copy in any case."""
        self.check(arguments)
        return {"arguments": arguments, "context": context()}


def _told(error: ValidationError) -> list[_Problem]:
    """Name the fields themselves, where the error is said of the object they are in."""
    path, kind = error.instance_path, error.kind
    match kind:
        case ValidationErrorKind.Required(property=name):
            return [([*path, name], "Field required")]
        case (
            ValidationErrorKind.AdditionalProperties(unexpected=names)
            | ValidationErrorKind.UnevaluatedProperties(unexpected=names)
        ):
            return [([*path, name], "Extra inputs are not permitted") for name in names]
        case _:
            return [(path, error.message)]


class _Looks:
    """Counts how often a schema looks at one value: nothing else would ever stop it.

    Args:
        schema: The whole.
    """

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._known: dict[int, int] = {}
        self._parts = list[JsonObject]()
        self._named = dict[JsonValue, JsonObject]()
        self._find(schema)

    def bound(self) -> None:
        """See that no part of it looks at one value too often.

        Raises:
            ValueError: If one does.
        """
        try:
            most = max(map(self._of, self._parts))
        except RecursionError:
            most = _MOST_LOOKS + 1
        if most > _MOST_LOOKS:
            raise ValueError("it would look at one value too often")

    def _find(self, value: JsonValue) -> None:
        if isinstance(value, dict):
            self._parts.append(value)
            for name in (value.get("$id"), f"#{value.get('$anchor')}"):
                if isinstance(name, str):
                    self._named[name] = value
            value = list(value.values())
        if isinstance(value, list):
            for inner in value:
                self._find(inner)

    def _of(self, part: JsonValue) -> int:
        if not isinstance(part, dict):
            return 1
        if id(part) not in self._known:
            # Where it comes back to itself, it is not looked at again.
            self._known[id(part)] = 0
            self._known[id(part)] = 1 + sum(
                self._of(inner)
                for key in _SAME_VALUE
                if key in part
                for inner in self._in(part[key], named=key.startswith("dependen"))
            )
        return self._known[id(part)]

    def _in(self, given: JsonValue, *, named: bool) -> Iterable[JsonValue]:
        match given:
            case list():
                return given
            case dict():
                return given.values() if named else [given]
            case str():
                return [self._referred(given)]
            case _:
                return []

    def _referred(self, reference: str) -> JsonValue:
        if reference in self._named:
            return self._named[reference]
        found: JsonValue = self._schema
        for step in unquote(reference).removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            match found:
                case dict() if key in found:
                    found = found[key]
                case list() if key.isdecimal() and int(key) < len(found):
                    found = found[int(key)]
                case _:
                    return None
        return found
