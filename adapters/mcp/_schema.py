"""Arguments by a JSON schema that a server gives, checked here before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jsonschema_rs import ValidationError, ValidationErrorKind, validator_for

from loopwright.actors import InvalidArgumentsError, ToolContext
from loopwright.protocol import JsonObject

_Problem: TypeAlias = tuple[Sequence[str | int], str]

_SHOWN_AS: Final = "it"
"""What an error calls a value; the value itself may be long, or a secret."""


class SchemaArguments:
    """By a JSON schema. Nothing that it refers to is fetched from anywhere.

    Args:
        schema: What the server gives.
        version: Digest of all that the server says of the tool.

    Raises:
        ValueError: If it is no JSON schema, or refers to something outside of it.
    """

    def __init__(self, schema: JsonObject, version: str) -> None:
        self.schema = schema
        self.version = version
        self._validator = validator_for(schema, offline=True, mask=_SHOWN_AS)

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
