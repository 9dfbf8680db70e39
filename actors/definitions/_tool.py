"""Tools: a function with a schema, an effect class, and limits."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, cast

from pydantic import ValidationError

from loopwright.policy import Traits
from loopwright.protocol import (
    ConfigurationError,
    Effect,
    EffectKey,
    JsonObject,
    JsonValue,
    RemoteProtocolError,
    ToolSpec,
    bounded,
    check_json,
    digest,
)

from .._work import described
from ._signature import adapter_of, explain, parameters_of, with_schema
from ._tool_body import InvalidArgumentsError, ToolContext, ToolFailure
from ._tool_options import ToolOptions, check_callable, storable

__all__ = [
    "AnyTool",
    "InvalidArgumentsError",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "tool",
    "with_schema",
]

P = ParamSpec("P")
R = TypeVar("R")
Reconcile = TypeVar("Reconcile", bound=Callable[[str], object])

_MISSING: Final = object()


class Tool(Generic[P, R]):
    """A registered tool. Calling it calls the function, so it can be tested as one.

    Args:
        function: What a call runs.
        options: What else is declared of it.
    """

    def __init__(self, function: Callable[P, R], options: ToolOptions) -> None:
        self.function = function
        self.name = options.name
        self.effect = options.effect
        self.operation = options.operation or options.name
        """What rules of authorization call it."""
        self.timeout = options.timeout
        """Seconds one attempt may take; `None` leaves it to the invocation's own limits."""
        self.max_concurrency = options.max_concurrency
        """Attempts that may run at once in this runtime; more wait their turn."""
        self.is_async = inspect.iscoroutinefunction(function)
        self.outbox = options.dispatch == "outbox"
        """Whether a call is put into the outbox and delivered after its turn is durable."""
        self.finishing = options.finishing
        """Whether it may still be used after a soft stop that restricts."""
        self.traits = Traits(options.polling, tuple(options.volatile))
        """What repeating it says of progress."""
        self.child: str | None = None
        """Name of the agent, if a call stands for an invocation of it."""
        self.reconciler: Callable[[str], object] | None = None
        """Asks the downstream by effect key; see `reconcile`."""
        self._effect_key = options.effect_key
        self._resources = options.resources
        self._writes = options.writes
        self._context_parameter, fields = parameters_of(function, self.name)
        self._adapter, parameters = adapter_of(self.name, fields)
        self._validate = self._adapter.validator.validate_python
        self.schema_version = digest(cast("JsonValue", parameters))[:16]
        """Digest of the arguments' schema: an approval does not outlive a change of it."""
        schema = cast("JsonObject", parameters)
        self.spec = ToolSpec(self.name, options.description, schema, self.effect)

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
        check_callable(function, self.name, "its reconciler")
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
            raise InvalidArgumentsError(explain(error)) from None
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
        if not (storable(key) and key.strip()):
            msg = f"the effect key of tool {self.name!r} is {key!r}; effect_key must return a text"
            raise InvalidArgumentsError(bounded(msg, 1_000))
        return EffectKey(key)

    def reads_of(self, checked: Any) -> tuple[str, ...] | None:
        """Say what checked arguments read, sorted; `None` if that is not declared.

        Raises:
            InvalidArgumentsError: If it cannot be said.
        """
        return None if self._resources is None else self._named(self._resources, checked)

    def writes_of(self, checked: Any) -> tuple[str, ...] | None:
        """Say what checked arguments change, sorted; `None` if that is not declared.

        Raises:
            InvalidArgumentsError: If it cannot be said.
        """
        return None if self._writes is None else self._named(self._writes, checked)

    def ordered_by(self, writes: tuple[str, ...] | None) -> tuple[str, ...]:
        """Say by what deliveries from the outbox are ordered; undeclared, all of the tool are."""
        return (f"tool:{self.name}",) if writes is None else writes

    def _named(self, declared: Callable[[Any], Iterable[str]], checked: Any) -> tuple[str, ...]:
        try:
            named = declared(checked)
            resources = tuple(sorted(set(named)))
        except Exception as error:
            msg = f"the resources of tool {self.name!r} failed with {described(error)}"
            raise InvalidArgumentsError(msg) from error
        if isinstance(named, str) or not all(map(storable, resources)):
            parameter = "writes" if declared is self._writes else "resources"
            msg = (
                f"the resources of tool {self.name!r} are {named!r}; {parameter} must return texts"
            )
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
            raise InvalidArgumentsError(explain(error)) from None
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
    resources: Callable[[Any], Iterable[str]] | None = None,
    writes: Callable[[Any], Iterable[str]] | None = None,
    dispatch: Literal["call", "outbox"] = "call",
    polling: bool = False,
    volatile: Sequence[str] = (),
    finishing: bool = False,
    operation: str | None = None,
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
        resources: From the checked arguments, the names of what a call reads. Calls of one batch
            run at once where none of them changes what another touches; a read that names
            nothing keeps its place beside every write. Rules see the names as `Access.objects`.
        writes: For writes: from the checked arguments, the names of what a call changes. Without
            it, no other write runs at the same time, and deliveries of the tool keep their order.
        dispatch: ``"outbox"`` puts a call into the outbox, in the transaction that commits its
            turn. Its result says that it is queued; a relay delivers it afterwards, at least once
            under its effect key, and in order for each of the things it changes.
        polling: Whether it is meant to be asked again and again until something has changed.
        volatile: Names of fields of its arguments and results, at any depth, whose changes
            mean nothing: a timestamp, a request id.
        finishing: Whether it may still be used after a soft stop that restricts.
        operation: What rules of authorization call it; by default its name.

    Raises:
        ConfigurationError: Without an effect class, if something cannot be meant, or if the
            signature cannot be a schema.
    """

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            msg = f"{bounded(repr(function))} is no function; wrap it in a `def` to make it a tool"
            raise ConfigurationError(msg)
        options = ToolOptions(
            name=name or function.__name__,
            effect=cast("Effect", effect),
            description=description or inspect.getdoc(function) or "",
            timeout=timeout,
            max_concurrency=max_concurrency,
            effect_key=effect_key,
            resources=resources,
            writes=writes,
            dispatch=dispatch,
            polling=polling,
            volatile=volatile,
            finishing=finishing,
            operation=operation,
        )
        return Tool(function, options)

    return decorate


AnyTool = Tool[..., Any]
