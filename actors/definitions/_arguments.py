"""What a tool takes: the schema of its arguments, and who checks them against it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

from pydantic import ValidationError

from loopwright.protocol import JsonObject, JsonValue, RemoteProtocolError, check_json, digest

from .._work import described
from ._signature import adapter_of, explain, parameters_of
from ._tool_body import InvalidArgumentsError, ToolContext

_MISSING: Final = object()


class Arguments(Protocol):
    """The arguments of a tool: by the signature of a function, or by a schema from elsewhere."""

    @property
    def schema(self) -> JsonObject:
        """What a model is told."""
        ...

    @property
    def version(self) -> str:
        """Changes with whatever a person relies on who approves a call."""
        ...

    def check(self, arguments: JsonObject) -> tuple[JsonObject, Any]:
        """Validate arguments; return them as they will run, and what rules are asked about.

        Raises:
            InvalidArgumentsError: If they don't fit; the text names each path at fault.
        """
        ...

    def bind(self, arguments: JsonObject, context: Callable[[], ToolContext]) -> Mapping[str, Any]:
        """Turn checked arguments into keyword arguments for the function, as its own.

        Raises:
            InvalidArgumentsError: If they were checked by another version of the tool.
        """
        ...


class SignatureArguments:
    """By a signature: types, defaults and limits are the schema, and pydantic checks them.

    Args:
        function: Whose signature.
        name: Of the tool.
        method: Whether the first parameter is the object it belongs to, and no argument.

    Raises:
        ConfigurationError: If the signature cannot be a schema.
    """

    def __init__(self, function: Callable[..., Any], name: str, *, method: bool = False) -> None:
        self._context_parameter, fields = parameters_of(function, name, method=method)
        self._adapter, parameters = adapter_of(name, fields)
        self._validate = self._adapter.validator.validate_python
        self.schema = cast("JsonObject", parameters)
        self.version = digest(cast("JsonValue", parameters))[:16]

    def check(self, arguments: JsonObject) -> tuple[JsonObject, Any]:
        """Validate arguments; return them as they will run, and the object made of them."""
        try:
            checked: Any = self._validate(arguments)
            values: dict[str, Any] = checked.__dict__
            if len(values) == len(arguments):
                for name, value in values.items():
                    if arguments.get(name, _MISSING) is not value:
                        break
                else:
                    return arguments, checked
            # By alias and with a round trip in mind: `bind` has to read this again.
            final = self._adapter.dump_python(checked, mode="json", by_alias=True, round_trip=True)
            check_json(final, where="arguments")
        except ValidationError as error:
            raise explain(error) from None
        except RemoteProtocolError as error:
            raise InvalidArgumentsError(str(error)) from None
        except Exception as error:
            # The validators of its types are foreign code.
            raise InvalidArgumentsError(described(error)) from error
        return final, checked

    def bind(self, arguments: JsonObject, context: Callable[[], ToolContext]) -> Mapping[str, Any]:
        """Turn checked arguments into keyword arguments."""
        own = arguments
        for value in arguments.values():
            if isinstance(value, dict | list):
                # What the body does to them is seen neither by another attempt nor by the plan.
                own = copy.deepcopy(arguments)
                break
        try:
            values: dict[str, Any] = self._validate(own).__dict__
        except ValidationError as error:
            raise explain(error) from None
        if self._context_parameter is not None:
            values[self._context_parameter] = context()
        return values
