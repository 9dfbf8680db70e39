"""Tools: a function with a schema, an effect class, and limits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from loopwright.policy import Traits
from loopwright.protocol import (
    ConfigurationError,
    Effect,
    EffectKey,
    JsonObject,
    ToolSpec,
    bounded,
)

from .._work import described
from ._arguments import Arguments, SignatureArguments
from ._tool_body import InvalidArgumentsError, ToolContext, ToolFailure
from ._tool_options import ToolOptions, check_callable, storable

__all__ = ["AnyTool", "InvalidArgumentsError", "Tool", "ToolContext", "ToolFailure"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
Reconcile = TypeVar("Reconcile", bound=Callable[[str], object] | Callable[[Any, str], object])


class Tool(Generic[P, R]):
    """A registered tool. Calling it calls the function, so it can be tested as one.

    Args:
        function: What a call runs.
        options: What else is declared of it.
        arguments: What it takes; by default what the signature of the function says.

    Raises:
        ConfigurationError: If the signature cannot be a schema.
    """

    def __init__(
        self,
        function: Callable[P, R],
        options: ToolOptions,
        arguments: Arguments | None = None,
    ) -> None:
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
        self._arguments = arguments or SignatureArguments(function, options.name)
        self.schema_version = self._arguments.version
        """An approval does not outlive a change of it."""
        schema = self._arguments.schema
        self.spec = ToolSpec(self.name, options.description, schema, self.effect)

    def __repr__(self) -> str:
        """Name the tool and what it does to the world."""
        return f"<Tool {self.name} effect={self.effect.value}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no validation, no policy, no journal."""
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: Tool[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> Tool[Q, R]: ...

    def __get__(self, instance: object, owner: type | None = None) -> AnyTool:
        """Be the tool of an object, if it is a method; any other stays what it is."""
        return self if instance is None else self.of(instance)

    def of(self, instance: object) -> AnyTool:
        """Return the tool of an object; unless it is a method, it is that of all of them."""
        return self

    def reconcile(self, function: Reconcile) -> Reconcile:
        """Decorate what asks the downstream, by effect key, what became of a write.

        It returns `applied(receipt)`, `rejected(reason)`, `not_applied()` or `unknown()`; it may
        be sync or async, gets the tool's timeout, and must change nothing. That of a method is a
        method as well.

        Raises:
            ConfigurationError: If the tool is not `reconcilable`, has a reconciler, or this is no
                function.
        """
        if self.effect is not Effect.RECONCILABLE:
            msg = f"tool {self.name!r} is {self.effect.value}; only a reconcilable one is asked"
            raise ConfigurationError(msg)
        if self.reconciler is not None:
            raise ConfigurationError(f"tool {self.name!r} has two reconcilers; drop one")
        self.reconciler = self._check_reconciler(function)
        return function

    def _check_reconciler(self, function: Any) -> Callable[[str], object]:
        check_callable(function, self.name, "its reconciler")
        return cast("Callable[[str], object]", function)

    def check(self, arguments: JsonObject) -> tuple[JsonObject, Any]:
        """Validate arguments; return them as they will run, and the object made of them.

        Raises:
            InvalidArgumentsError: If they don't fit; the text names each path at fault.
        """
        return self._arguments.check(arguments)

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
        return self._arguments.bind(arguments, context)


AnyTool = Tool[..., Any]
