"""Tools that are methods: each object of the class has its own, with its state."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getattr_static
from threading import Lock
from types import MethodType
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakValueDictionary

from loopwright.protocol import ConfigurationError, bounded

from ._arguments import SignatureArguments
from ._tool import AnyTool, Tool
from ._tool_options import ToolOptions, check_callable

P = ParamSpec("P")
R = TypeVar("R")

_making = Lock()
"""Threads that ask for the tool of an object at once get the same one."""


class MethodTool(Tool[P, R]):
    """What stands in the body of a class; accessed through an object, it is a tool of that object.

    Args:
        function: The method, as it is written.
        options: What else is declared of it.

    Raises:
        ConfigurationError: If the signature cannot be a schema.
    """

    def __init__(self, function: Callable[P, R], options: ToolOptions) -> None:
        arguments = SignatureArguments(function, options.name, method=True)
        super().__init__(function, options, arguments)
        self._options = options
        self._bound: WeakValueDictionary[int, AnyTool] = WeakValueDictionary()
        """By the id of the object, which lives as long as its tool: the tool holds it."""

    def of(self, instance: object) -> AnyTool:
        """Return the tool of an object, the same one each time."""
        with _making:
            bound = self._bound.get(id(instance))
            if bound is None:
                bound = Tool(_of(instance, self.function), self._options, self._arguments)
                if self.reconciler is not None:
                    bound.reconciler = _of(instance, self.reconciler)
                self._bound[id(instance)] = bound
            return bound

    def _check_reconciler(self, function: Any) -> Callable[[str], object]:
        check_callable(_of(self, function), self.name, "its reconciler")
        return cast("Callable[[str], object]", function)


def toolset(of: object) -> list[AnyTool]:
    """Return all tools of an object, those of base classes first, as they are written.

    Args:
        of: An object of a class with methods that are decorated with `tool`.

    Raises:
        ConfigurationError: If it has none.
    """
    kind = type(of)
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
    found: list[AnyTool] = [
        getattr(of, name) for name in names if isinstance(getattr_static(kind, name, None), Tool)
    ]
    if not found:
        msg = f"{bounded(repr(of))} has no tools; give an object whose methods have @tool(effect=…)"
        raise ConfigurationError(msg)
    return found


def _of(instance: object, function: Callable[..., Any]) -> Callable[..., Any]:
    """Bind a method to an object."""
    return MethodType(function, instance)
