"""Who may run what: principal, tool, operation and objects, judged by an ordered list of rules.

Rules run when a call is proposed, again after its approval, and again on recovery, always as
they are today; nothing about permission is read back from a journal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

from loopwright.protocol import (
    CallId,
    ConfigurationError,
    Effect,
    JsonObject,
    JsonValue,
    Principal,
    bounded,
)


@dataclass(frozen=True, slots=True)
class Access:
    """What a rule decides on: who wants to do what, with exactly these arguments."""

    principal: Principal
    agent: str
    tool: str
    operation: str
    """What the tool calls it; its name, unless it declares another."""
    effect: Effect
    arguments: JsonObject
    """After defaults and coercion: what the tool would get."""
    call_id: CallId
    reads: tuple[str, ...] = ()
    """What it reads, as far as its tool declares `resources`."""
    writes: tuple[str, ...] = ()
    """What it changes, as far as its tool declares `writes`."""
    metadata: JsonValue = None
    """What the invocation was started with."""

    @property
    def objects(self) -> tuple[str, ...]:
        """Everything the call touches, as far as its tool declares it."""
        if len(self.reads) < 2 and not self.writes:
            return self.reads
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""

    rule: str = "default"


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the model sees why."""

    reason: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A human has to say yes first."""

    reason: str
    rule: str = ""


Judgement: TypeAlias = Allow | Deny | Ask
Rule: TypeAlias = Callable[[Access], Judgement | None]
"""Decides, or returns `None` to leave it to the next rule."""
Predicate: TypeAlias = Callable[[Access], bool]
"""Holds for a call, or does not: `True` or `False`, and nothing that is merely taken for one."""
F = TypeVar("F", bound=Callable[..., object])


class NoTruthError(TypeError):
    """Raised for a predicate that says something else than `True` or `False`."""


def name_of(rule: Callable[..., object]) -> str:
    """Give the name a rule is explained by."""
    name: object = getattr(rule, "__name__", None)
    return name if isinstance(name, str) and name else type(rule).__name__


def in_order(given: F | Sequence[F], where: str) -> tuple[F, ...]:
    """Make of a list of rules, or of one, what no one can change afterwards.

    Raises:
        ConfigurationError: If there is something else in it; the text names `where`.
    """
    if callable(given):
        rules: tuple[object, ...] = (given,)
    else:
        try:
            rules = tuple(given)
        except TypeError:
            msg = f"{where} is {bounded(repr(given))}; give a list of functions of a call"
            raise ConfigurationError(msg) from None
    for rule in rules:
        # A class is callable too: `Allow` itself, as a rule, would allow everything.
        if not callable(rule) or isinstance(rule, type) or _is_async(rule):
            msg = f"{where} holds {bounded(repr(rule))}; give plain functions of a call"
            if isinstance(rule, str):
                msg += f", such as tool_named({rule!r}) of loopwright.policy"
            raise ConfigurationError(msg)
        if hasattr(rule, "effect"):
            # A tool can be called, and would be, with a call for its arguments.
            name: object = getattr(rule, "name", "…")
            msg = f"{where} holds {bounded(repr(rule))}; give tool_named({name!r}) for its calls"
            raise ConfigurationError(msg)
    return cast("tuple[F, ...]", rules)


def holds(predicate: Predicate, access: Access) -> bool:
    """Ask a predicate: only `True` and `False` are answers, for a call is never judged by a guess.

    Raises:
        NoTruthError: If it says anything else, such as a coroutine.
    """
    said: object = predicate(access)
    if said is True or said is False:
        return said
    discard(said)
    kind = type(said).__name__
    raise NoTruthError(f"{name_of(predicate)} said neither True nor False, but a {kind}")


def discard(said: object) -> None:
    """Drop what a function has returned and nobody will await; closing it spares the warning."""
    if inspect.iscoroutine(said):
        said.close()


def judge(
    access: Access,
    *,
    deny: Sequence[Predicate],
    ask: Sequence[Predicate],
    rules: Sequence[Rule],
    default_deny: bool,
) -> Judgement:
    """Let denials speak first, then the ordered rules, then the questions, then the default.

    A rule that raises denies, and so does a predicate that says neither `True` nor `False`: an
    authorization never fails open.
    """
    for predicate in deny:
        try:
            held = holds(predicate, access)
        except Exception as error:  # noqa: BLE001 - it never fails open, whatever a rule raises
            return _failed(predicate, error)
        if held:
            name = name_of(predicate)
            return Deny(f"denied by {name}", name)
    for rule in rules:
        try:
            verdict = rule(access)
        except Exception as error:  # noqa: BLE001 - it never fails open, whatever a rule raises
            return _failed(rule, error)
        if verdict is not None:
            return _named(verdict, name_of(rule))
    for predicate in ask:
        try:
            held = holds(predicate, access)
        except Exception as error:  # noqa: BLE001 - it never fails open, whatever a rule raises
            return _failed(predicate, error)
        if held:
            name = name_of(predicate)
            return Ask(f"{name} needs a human's yes", name)
    if default_deny:
        return Deny(f"no rule allows {access.tool}", "default")
    return Allow()


def _failed(rule: Callable[..., object], error: Exception) -> Deny:
    name = name_of(rule)
    # What an error of somebody else says may be a secret; ours names a type.
    said = f": {error}" if isinstance(error, NoTruthError) else ""
    return Deny(f"the rule {name} failed with {type(error).__name__}{said}", name)


def _is_async(rule: Callable[..., object]) -> bool:
    """Whether calling it is known to give something to await: of an object, its `__call__` does."""
    return any(map(inspect.iscoroutinefunction, (rule, type(rule).__call__)))


def _named(verdict: Judgement, name: str) -> Judgement:
    match verdict:
        case Allow():
            return Allow(name)
        case Deny(reason=str(reason)):
            return Deny(reason, name)
        case Ask(reason=str(reason)):
            return Ask(reason, name)
        case _:
            # A rule is foreign code: its annotation is only a promise. A reason that is no text
            # could never be read back from the journal.
            discard(verdict)
            return Deny(f"the rule {name} returned no judgement", name)
