"""What is declared of a tool beside its function, and what of that cannot be meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Literal, TypeGuard, cast

from loopwright.protocol import (
    ConfigurationError,
    Effect,
    RemoteProtocolError,
    bounded,
    check_json,
)

from ._signature import not_of_one_argument

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """What `tool` was given; see there.

    Raises:
        ConfigurationError: For what cannot be meant; one sentence that names the tool.
    """

    name: str
    effect: Effect
    description: str = ""
    timeout: float | None = 60.0
    max_concurrency: int | None = None
    effect_key: Callable[[Any], str] | None = None
    resources: Callable[[Any], Iterable[str]] | None = None
    writes: Callable[[Any], Iterable[str]] | None = None
    dispatch: Literal["call", "outbox"] = "call"
    polling: bool = False
    volatile: Sequence[str] = ()
    finishing: bool = False
    operation: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not _NAME.fullmatch(self.name):
            msg = (
                f"tool name {bounded(self.name)!r} is not usable; use 1-64 letters, digits, _ or -"
            )
            raise ConfigurationError(msg)
        self._check_effect()
        self._check_limits()
        for parameter in ("effect_key", "resources", "writes"):
            given: object = getattr(self, parameter)
            if given is not None:
                check_callable(given, self.name, f"{parameter}=")
        self._check_marks()

    def _check_effect(self) -> None:
        named, effect = f"tool {self.name!r}", cast("object", self.effect)
        if not isinstance(effect, str) or effect not in set(Effect):
            known = ", ".join(repr(e.value) for e in Effect)
            got = "has no effect class" if effect is None else f"has the effect class {effect!r}"
            raise ConfigurationError(f"{named} {got}; declare effect= one of {known}")
        object.__setattr__(self, "effect", Effect(effect))
        if self.effect_key is not None and effect == Effect.READ:
            msg = f"{named} is a read with an effect key; drop one of the two"
            raise ConfigurationError(msg)
        if self.writes is not None and effect == Effect.READ:
            msg = f"{named} is a read that writes; drop writes=, or declare its effect"
            raise ConfigurationError(msg)
        if self.dispatch == "outbox" and effect not in (Effect.IDEMPOTENT, Effect.RECONCILABLE):
            msg = (
                f"{named} is {effect} and cannot go through the outbox, which delivers at "
                "least once; make it idempotent or reconcilable"
            )
            raise ConfigurationError(msg)
        if self.dispatch not in ("call", "outbox"):
            msg = f"{named} has dispatch={self.dispatch!r}; give 'call' or 'outbox'"
            raise ConfigurationError(msg)

    def _check_limits(self) -> None:
        named = f"tool {self.name!r}"
        # A comparison with NaN holds never.
        seconds = cast("object", self.timeout)
        if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds < inf):
            msg = f"{named} has timeout={seconds!r}; give seconds above 0, or None"
            raise ConfigurationError(msg)
        at_once = cast("object", self.max_concurrency)
        if at_once is not None and (type(at_once) is not int or at_once < 1):
            msg = f"{named} has max_concurrency={at_once!r}; give at least 1"
            raise ConfigurationError(msg)

    def _check_marks(self) -> None:
        named = f"tool {self.name!r}"
        for mark in ("polling", "finishing"):
            value: object = getattr(self, mark)
            if type(value) is not bool:
                raise ConfigurationError(f"{named} has {mark}={value!r}; give True or False")
        if not _are_names(self.volatile):
            msg = f"{named} has volatile={self.volatile!r}; give a list of field names"
            raise ConfigurationError(msg)
        object.__setattr__(self, "volatile", tuple(self.volatile))
        operation = cast("object", self.operation)
        if operation is not None and not (storable(operation) and operation.strip()):
            msg = f"{named} has operation={bounded(repr(operation))}; give a text, or leave it out"
            raise ConfigurationError(msg)


def _are_names(given: object) -> bool:
    if isinstance(given, str) or not isinstance(given, Iterable):
        return False
    return all(storable(name) and name for name in cast("Iterable[object]", given))


def storable(text: object) -> TypeGuard[str]:
    """Whether it is a text without lone surrogates: those are no characters, and no store takes them."""
    if not isinstance(text, str):
        return False
    if text.isascii():
        return True
    try:
        check_json(text, where="text")
    except RemoteProtocolError:
        return False
    return True


def check_callable(given: object, tool_name: str, what: str) -> None:
    """Refuse what cannot be asked later, with one argument.

    Raises:
        ConfigurationError: If it cannot be called so.
    """
    shown = bounded(repr(given))
    if not callable(given):
        msg = f"tool {tool_name!r} has {shown} as {what}; give a function of one argument"
        raise ConfigurationError(msg)
    problem = not_of_one_argument(given)
    if problem is not None:
        msg = (
            f"tool {tool_name!r} has {shown} as {what}, which does not take one argument: {problem}"
        )
        raise ConfigurationError(msg)
