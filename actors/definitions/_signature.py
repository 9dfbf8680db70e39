"""Reading a signature: the schema of a tool's arguments, and what validates them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any, Final

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import SchemaError

from loopwright.protocol import ConfigurationError

from ._tool_body import InvalidArgumentsError, ToolContext

_CONFIG: Final = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=False)


def is_method(function: Callable[..., Any]) -> bool:
    """Whether it is written in the body of a class, and its first parameter is the object."""
    home = getattr(function, "__qualname__", "").rpartition(".")[0]
    if inspect.ismethod(function) or not home or home.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and (first.name == "self" or first.annotation is first.empty)


def parameters_of(
    function: Callable[..., Any], name: str, *, method: bool = False
) -> tuple[str | None, list[tuple[str, Any, Any]]]:
    """Read a signature: the name of the context parameter, and the fields of the schema.

    Args:
        function: Whose signature.
        name: Of the tool.
        method: Whether to leave out the first parameter.

    Raises:
        ConfigurationError: If a parameter cannot be an argument.
    """
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (AttributeError, NameError, SyntaxError, TypeError) as error:
        msg = f"tool {name!r} has an annotation that cannot be resolved: {error}"
        raise ConfigurationError(msg) from None
    context: str | None = None
    fields: list[tuple[str, Any, Any]] = []
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters[1:] if method else parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            msg = f"tool {name!r} has the parameter {parameter}; every argument needs its own name"
            raise ConfigurationError(msg)
        hint = hints.get(parameter.name)
        if ToolContext in (hint, *typing.get_args(hint)):
            # Also where it is optional or annotated: a model must never get to fill it in.
            if context is not None:
                msg = f"tool {name!r} has two ToolContext parameters; one is enough, drop the other"
                raise ConfigurationError(msg)
            context = parameter.name
            continue
        if parameter.name not in hints:
            msg = f"tool {name!r} has the parameter {parameter.name!r} without a type; annotate it"
            raise ConfigurationError(msg)
        fields.append((parameter.name, hints[parameter.name], _field(parameter)))
    return context, fields


def _field(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return dataclasses.field()
    if default.__class__.__hash__ is None:
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default))
    return dataclasses.field(default=default)


def adapter_of(
    name: str, fields: list[tuple[str, Any, Any]]
) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """Make what validates arguments, and its JSON schema.

    Raises:
        ConfigurationError: If an argument has none.
    """
    arguments = dataclasses.make_dataclass(
        f"{name}_arguments", fields, kw_only=True, namespace={"__pydantic_config__": _CONFIG}
    )
    adapter, schema = with_schema(arguments, f"tool {name!r} has an argument type that")
    schema.pop("title", None)
    return adapter, schema


def with_schema(of: Any, named: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """Make what validates a type, and its JSON schema.

    Raises:
        ConfigurationError: If it has none; the text begins with how the type is `named`.
    """
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(of)
        return adapter, adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, SchemaError) as error:
        problem = str(error).partition("\n")[0].rstrip(":")
        msg = f"{named} has no JSON schema: {problem}"
        raise ConfigurationError(msg) from None


def explain(error: ValidationError, *where: str) -> InvalidArgumentsError:
    """Say what pydantic has found: each path at fault, from `where` on, and what is wrong there."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return InvalidArgumentsError.at([((*where, *one["loc"]), one["msg"]) for one in found])


def not_of_one_argument(function: Callable[..., object]) -> str | None:
    """Say why something cannot be called with one argument, if it says so itself."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a builtin, which says nothing of itself
    try:
        signature.bind(None)
    except TypeError as error:
        return str(error)
    return None
