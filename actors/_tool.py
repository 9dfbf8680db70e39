"""Tools: a function with a schema, an effect class, and limits."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Generic, Literal, ParamSpec, TypeGuard, TypeVar, cast

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from loopwright.protocol import (
    AttemptId,
    CallId,
    ConfigurationError,
    Effect,
    EffectKey,
    ErrorCategory,
    InvocationId,
    JsonObject,
    JsonValue,
    LoopwrightError,
    Principal,
    RemoteProtocolError,
    ToolSpec,
    bounded,
    check_json,
    digest,
)

from ._work import described

P = ParamSpec("P")
R = TypeVar("R")
Reconcile = TypeVar("Reconcile", bound=Callable[[str], object])

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MISSING: Final = object()
_CONFIG: Final = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=False)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the call it serves; ask for it by annotating a parameter."""

    invocation_id: InvocationId
    turn: int
    call_id: CallId
    attempt_id: AttemptId
    attempt: int
    effect_key: EffectKey | None
    """Hand it to the downstream, which deduplicates by it. `None` for a read."""
    principal: Principal


class ToolFailure(LoopwrightError):
    """Raised by a tool to say what kind of failure it met.

    Args:
        message: What went wrong, for the model and the trace.
        category: What a sensible next step would be.
        retryable: Whether the same call may succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        category: ErrorCategory | str = ErrorCategory.PERMANENT,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.category = ErrorCategory(category)
        self.retryable = retryable


class InvalidArgumentsError(LoopwrightError):
    """Raised when a call's arguments don't fit the tool; the text is for the model."""


class Tool(Generic[P, R]):
    """A registered tool. Calling it calls the function, so it can be tested as one."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        effect: Effect,
        name: str,
        description: str,
        timeout: float | None,
        max_concurrency: int | None,
        effect_key: Callable[[Any], str] | None,
        writes: Callable[[Any], Iterable[str]] | None,
        outbox: bool,
    ) -> None:
        self.function = function
        self.name = name
        self.effect = effect
        self.timeout = timeout
        """Seconds one attempt may take; `None` leaves it to the invocation's own limits."""
        self.max_concurrency = max_concurrency
        """Attempts that may run at once in this runtime; more wait their turn."""
        self.is_async = inspect.iscoroutinefunction(function)
        self.outbox = outbox
        """Whether a call is put into the outbox and delivered after its turn is durable."""
        self.reconciler: Callable[[str], object] | None = None
        """Asks the downstream by effect key; see `reconcile`."""
        self._effect_key = effect_key
        self._writes = writes
        self._context_parameter, fields = _parameters(function, name)
        self._adapter, parameters = _adapter(name, fields)
        self._validate = self._adapter.validator.validate_python
        self.schema_version = digest(cast("JsonValue", parameters))[:16]
        """Digest of the arguments' schema: an approval does not outlive a change of it."""
        self.spec = ToolSpec(name, description, cast("JsonObject", parameters), effect)

    def __repr__(self) -> str:
        """Name the tool and what it does to the world."""
        return f"<Tool {self.name} effect={self.effect.value}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no validation, no policy, no journal."""
        return self.function(*args, **kwargs)

    def reconcile(self, function: Reconcile) -> Reconcile:
        """Decorate what asks the downstream, by effect key, what became of a write.

        It returns `applied(receipt)`, `rejected(reason)`, `not_applied()` or `unknown()`; it may
        be sync or async, gets the tool's timeout, and must change nothing.

        Raises:
            ConfigurationError: If the tool is not `reconcilable`, has a reconciler, or this is no
                function.
        """
        if self.effect is not Effect.RECONCILABLE:
            msg = f"tool {self.name!r} is {self.effect.value}; only a reconcilable one is asked"
            raise ConfigurationError(msg)
        if self.reconciler is not None:
            raise ConfigurationError(f"tool {self.name!r} has two reconcilers; drop one")
        _check_callable(function, self.name, "its reconciler")
        self.reconciler = function
        return function

    def check(self, arguments: JsonObject) -> tuple[JsonObject, Any]:
        """Validate arguments; return them as they will run, and the object made of them.

        Raises:
            InvalidArgumentsError: If they don't fit; the text names each path at fault.
        """
        try:
            return self._checked(arguments)
        except ValidationError as error:
            raise InvalidArgumentsError(_explain(error)) from None
        except RemoteProtocolError as error:
            raise InvalidArgumentsError(str(error)) from None
        except Exception as error:
            # The validators of its types are foreign code.
            raise InvalidArgumentsError(described(error)) from error

    def _checked(self, arguments: JsonObject) -> tuple[JsonObject, Any]:
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
        return final, checked

    def effect_key_of(self, checked: Any) -> EffectKey | None:
        """Compute the declared effect key of checked arguments; `None` if none is declared.

        Raises:
            InvalidArgumentsError: If they have none; a write must not run under a made-up one.
        """
        if self._effect_key is None:
            return None
        try:
            key = cast("object", self._effect_key(checked))
        except Exception as error:
            msg = f"the effect key of tool {self.name!r} failed with {described(error)}"
            raise InvalidArgumentsError(msg) from error
        if not (_storable(key) and key.strip()):
            msg = f"the effect key of tool {self.name!r} is {key!r}; effect_key must return a text"
            raise InvalidArgumentsError(bounded(msg, 1_000))
        return EffectKey(key)

    def resources_of(self, checked: Any) -> tuple[str, ...]:
        """Say what checked arguments touch, sorted; without `writes`, all calls of the tool share.

        Raises:
            InvalidArgumentsError: If it cannot be said.
        """
        if self._writes is None:
            return (f"tool:{self.name}",)
        try:
            named = self._writes(checked)
            resources = tuple(sorted(set(named)))
        except Exception as error:
            msg = f"the resources of tool {self.name!r} failed with {described(error)}"
            raise InvalidArgumentsError(msg) from error
        if isinstance(named, str) or not all(map(_storable, resources)):
            msg = f"the resources of tool {self.name!r} are {named!r}; writes must return texts"
            raise InvalidArgumentsError(bounded(msg, 1_000))
        return resources

    def bind(self, arguments: JsonObject, context: Callable[[], ToolContext]) -> Mapping[str, Any]:
        """Turn checked arguments into keyword arguments for `function`.

        What the body does to them is seen neither by another attempt nor by the plan.

        Raises:
            InvalidArgumentsError: If they were checked by another version of the tool.
        """
        own = arguments
        for value in arguments.values():
            if isinstance(value, dict | list):
                own = copy.deepcopy(arguments)
                break
        try:
            values: dict[str, Any] = self._validate(own).__dict__
        except ValidationError as error:
            raise InvalidArgumentsError(_explain(error)) from None
        if self._context_parameter is not None:
            values[self._context_parameter] = context()
        return values


def tool(
    *,
    effect: Effect | str | None = None,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = 60.0,
    max_concurrency: int | None = None,
    effect_key: Callable[[Any], str] | None = None,
    writes: Callable[[Any], Iterable[str]] | None = None,
    dispatch: Literal["call", "outbox"] = "call",
) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function, sync or async; its signature is the schema of its arguments.

    Args:
        effect: ``"read"``, ``"idempotent"``, ``"reconcilable"`` or ``"manual"``: what running it
            does to the world. There is no default: the runtime must not guess. A reconcilable
            tool needs a `Tool.reconcile`.
        name: How the model calls it; by default the function's name.
        description: What the model is told; by default the function's docstring.
        timeout: Seconds one attempt may take. A read that exceeds it ends as `timeout`, a write
            as `outcome_unknown`.
        max_concurrency: Attempts that may run at once in a runtime.
        effect_key: For writes: from the checked arguments (`a.order`), the key of the business
            mutation. Without it, a key is derived from invocation, turn and call.
        writes: For writes: from the checked arguments, the names of what a call touches. Without
            it, all calls of the tool touch the same.
        dispatch: ``"outbox"`` puts a call into the outbox, in the transaction that commits its
            turn. Its result says that it is queued; a relay delivers it afterwards, at least once
            under its effect key, and in order for each of the things it touches.

    Raises:
        ConfigurationError: Without an effect class, if something cannot be meant, or if the
            signature cannot be a schema.
    """

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            msg = f"{bounded(repr(function))} is no function; wrap it in a `def` to make it a tool"
            raise ConfigurationError(msg)
        tool_name = name or function.__name__
        if not _NAME.fullmatch(tool_name):
            msg = (
                f"tool name {bounded(tool_name)!r} is not usable; use 1-64 letters, digits, _ or -"
            )
            raise ConfigurationError(msg)
        if not isinstance(effect, str) or effect not in set(Effect):
            known = ", ".join(repr(e.value) for e in Effect)
            got = "has no effect class" if effect is None else f"has the effect class {effect!r}"
            msg = f"tool {tool_name!r} {got}; declare effect= one of {known}"
            raise ConfigurationError(msg)
        if effect_key is not None and effect == Effect.READ:
            msg = f"tool {tool_name!r} is a read with an effect key; drop one of the two"
            raise ConfigurationError(msg)
        if writes is not None and effect == Effect.READ:
            msg = f"tool {tool_name!r} is a read that writes; drop writes=, or declare its effect"
            raise ConfigurationError(msg)
        if dispatch == "outbox" and effect not in (Effect.IDEMPOTENT, Effect.RECONCILABLE):
            msg = (
                f"tool {tool_name!r} is {effect} and cannot go through the outbox, which delivers at "
                "least once; make it idempotent or reconcilable"
            )
            raise ConfigurationError(msg)
        if dispatch not in ("call", "outbox"):
            msg = f"tool {tool_name!r} has dispatch={dispatch!r}; give 'call' or 'outbox'"
            raise ConfigurationError(msg)
        # A comparison with NaN holds never.
        seconds = cast("object", timeout)
        if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds < inf):
            msg = f"tool {tool_name!r} has timeout={timeout!r}; give seconds above 0, or None"
            raise ConfigurationError(msg)
        if max_concurrency is not None and (
            type(max_concurrency) is not int or max_concurrency < 1
        ):
            msg = f"tool {tool_name!r} has max_concurrency={max_concurrency!r}; give at least 1"
            raise ConfigurationError(msg)
        if effect_key is not None:
            _check_callable(effect_key, tool_name, "effect_key=")
        if writes is not None:
            _check_callable(writes, tool_name, "writes=")
        return Tool(
            function,
            effect=Effect(effect),
            name=tool_name,
            description=description or inspect.getdoc(function) or "",
            timeout=timeout,
            max_concurrency=max_concurrency,
            effect_key=effect_key,
            writes=writes,
            outbox=dispatch == "outbox",
        )

    return decorate


AnyTool = Tool[..., Any]


def _storable(text: object) -> TypeGuard[str]:
    """Whether it is a text without lone surrogates: those are no characters, and no store takes them."""
    if not isinstance(text, str):
        return False
    try:
        check_json(text, where="text")
    except RemoteProtocolError:
        return False
    return True


def _check_callable(given: object, tool_name: str, what: str) -> None:
    """Refuse what cannot be asked later, with one argument.

    Raises:
        ConfigurationError: If it cannot be called so.
    """
    shown = bounded(repr(given))
    if not callable(given):
        msg = f"tool {tool_name!r} has {shown} as {what}; give a function of one argument"
        raise ConfigurationError(msg)
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):
        return  # a builtin, which says nothing of itself
    try:
        signature.bind(None)
    except TypeError as error:
        msg = f"tool {tool_name!r} has {shown} as {what}, which does not take one argument: {error}"
        raise ConfigurationError(msg) from None


def _parameters(
    function: Callable[..., Any], name: str
) -> tuple[str | None, list[tuple[str, Any, Any]]]:
    """Read a signature: the name of the context parameter, and the fields of the schema."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (AttributeError, NameError, SyntaxError, TypeError) as error:
        msg = f"tool {name!r} has an annotation that cannot be resolved: {error}"
        raise ConfigurationError(msg) from None
    context: str | None = None
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
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


def _adapter(
    name: str, fields: list[tuple[str, Any, Any]]
) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """Make what validates arguments, and its JSON schema."""
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
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        problem = error.message.partition("\n")[0]
        msg = f"{named} has no JSON schema: {problem}"
        raise ConfigurationError(msg) from None


def _explain(error: ValidationError) -> str:
    """One line for the model: each path at fault and what is wrong with it."""
    problems = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    shown = "; ".join(problems[:5])
    return bounded(shown if len(problems) <= 5 else f"{shown}; and {len(problems) - 5} more", 1_000)
