"""The decorator that makes tools of functions and methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, cast

from loopwright.protocol import ConfigurationError, Effect, bounded

from ._method_tool import MethodTool
from ._signature import is_method
from ._tool import Tool
from ._tool_options import ToolOptions

P = ParamSpec("P")
R = TypeVar("R")


def tool(
    bare: None = None,
    /,
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

    On a method, each object of the class has a tool of its own, for which its first parameter is
    no argument: ``shop.refund``, or all of them by `toolset`.

    Args:
        bare: Nothing: a decorator without its parentheses is refused.
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
    if bare is not None:
        # `@tool` without parentheses: what it is given is the function.
        shown = getattr(bare, "__name__", bounded(repr(bare)))
        msg = f"tool {shown!r} has no effect class; decorate it with @tool(effect=…)"
        raise ConfigurationError(msg)

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
        return MethodTool(function, options) if is_method(function) else Tool(function, options)

    return decorate
