"""Who may run what: an ordered list of small rules over parsed arguments, nothing else.

Rules run when a call is proposed, again after its approval, and again on recovery, always as
they are today; nothing about permission is read back from a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from loopwright.protocol import CallId, Effect, JsonObject, JsonValue, Principal


@dataclass(frozen=True, slots=True)
class Access:
    """What a rule decides on: who wants to do what, with exactly these arguments."""

    principal: Principal
    agent: str
    tool: str
    effect: Effect
    arguments: JsonObject
    """After defaults and coercion: what the tool would get."""
    call_id: CallId


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


def name_of(rule: Rule | Predicate) -> str:
    """Give the name a rule is explained by."""
    return getattr(rule, "__name__", None) or type(rule).__name__


def judge(
    access: Access,
    *,
    deny: Sequence[Predicate],
    ask: Sequence[Predicate],
    rules: Sequence[Rule],
    default_deny: bool,
) -> Judgement:
    """Let denials speak first, then the ordered rules, then the questions, then the default.

    A rule that raises denies: an authorization never fails open.
    """
    for predicate in deny:
        name = name_of(predicate)
        held, failure = _holds(predicate, access)
        if held or failure:
            return Deny(failure or f"denied by {name}", name)
    for rule in rules:
        name = name_of(rule)
        try:
            verdict = rule(access)
        except Exception as error:  # noqa: BLE001 - it never fails open, whatever a rule raises
            return Deny(f"the rule {name} failed with {type(error).__name__}", name)
        if verdict is not None:
            return _named(verdict, name)
    for predicate in ask:
        name = name_of(predicate)
        held, failure = _holds(predicate, access)
        if failure:
            return Deny(failure, name)
        if held:
            return Ask(f"{name} needs a human's yes", name)
    if default_deny:
        return Deny(f"no rule allows {access.tool}", "default")
    return Allow()


def over(limit: int | Decimal, field: str = "amount") -> Predicate:
    """Hold for a call whose numeric argument `field` is above `limit`, or is no number."""
    bound = Decimal(limit)

    def predicate(access: Access) -> bool:
        value: JsonValue = access.arguments.get(field)
        if value is None:
            return False
        try:
            return Decimal(str(value)) > bound
        except InvalidOperation:
            return True

    predicate.__name__ = f"over({limit})"
    return predicate


def writes() -> Predicate:
    """Hold for every call that may change something."""

    def predicate(access: Access) -> bool:
        return access.effect.is_write

    predicate.__name__ = "writes"
    return predicate


def tool_named(*names: str) -> Predicate:
    """Hold for calls of these tools."""

    def predicate(access: Access) -> bool:
        return access.tool in names

    predicate.__name__ = f"tool_named({', '.join(names)})"
    return predicate


def _holds(predicate: Predicate, access: Access) -> tuple[bool, str]:
    """Evaluate; one that fails says why instead, which denies: it never fails open."""
    try:
        return bool(predicate(access)), ""
    except Exception as error:  # noqa: BLE001 - it never fails open, whatever a rule raises
        return False, f"the rule {name_of(predicate)} failed with {type(error).__name__}"


def _named(verdict: Judgement, name: str) -> Judgement:
    match verdict:
        case Allow():
            return Allow(name)
        case Deny(reason=reason):
            return Deny(reason, name)
        case Ask(reason=reason):
            return Ask(reason, name)
        case _:
            # A rule is foreign code: its annotation is only a promise.
            return Deny(f"the rule {name} returned no judgement", name)
