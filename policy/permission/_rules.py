"""Rules ready to use: predicates that say what a call is, and rules made of them.

A predicate goes into `Policy.deny` or `Policy.ask`, or into a rule for `Policy.rules`. What one
cannot tell, such as a tenant where there is none, it takes as the answer that opens nothing.
Each is explained by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TypeVar, cast

from loopwright.protocol import ConfigurationError, JsonValue

from ._authorization import (
    Access,
    Allow,
    Ask,
    Deny,
    Judgement,
    NoTruthError,
    Predicate,
    Rule,
    discard,
    holds,
    in_order,
    name_of,
)

F = TypeVar("F", Rule, Predicate)


# ---------------------------------------------------------------- what a call is
def tool_named(*names: str) -> Predicate:
    """Hold for calls of these tools."""

    def predicate(access: Access) -> bool:
        return access.tool in names

    return _named(predicate, f"tool_named({', '.join(names)})")


def operation(*names: str) -> Predicate:
    """Hold for these operations: a tool's own word for it, by default its name."""

    def predicate(access: Access) -> bool:
        return access.operation in names

    return _named(predicate, f"operation({', '.join(names)})")


def writes() -> Predicate:
    """Hold for every call that may change something."""

    def predicate(access: Access) -> bool:
        return access.effect.is_write

    return _named(predicate, "writes")


def over(limit: int | Decimal, field: str = "amount") -> Predicate:
    """Hold for a call whose numeric argument `field` is above `limit`, or is no number.

    Raises:
        ConfigurationError: If the limit is no number.
    """
    bound = _limit(limit, "over")

    def predicate(access: Access) -> bool:
        if field not in access.arguments:
            return False
        value = _number(access.arguments[field])
        return value is None or value > bound

    return _named(predicate, f"over({limit})")


def outside(low: int | Decimal, high: int | Decimal, field: str = "amount") -> Predicate:
    """Hold for a call whose numeric argument `field` is below, above, or is no number.

    Raises:
        ConfigurationError: If a limit is no number.
    """
    lowest, highest = _limit(low, "outside"), _limit(high, "outside")

    def predicate(access: Access) -> bool:
        if field not in access.arguments:
            return False
        value = _number(access.arguments[field])
        return value is None or not lowest <= value <= highest

    return _named(predicate, f"outside({low}, {high})")


# ---------------------------------------------------------------- who asks, and for what
def role(name: str) -> Predicate:
    """Hold for a principal with this role."""

    def predicate(access: Access) -> bool:
        return name in access.principal.roles

    return _named(predicate, f"role({name})")


def capability(name: str) -> Predicate:
    """Hold for a principal with this capability."""

    def predicate(access: Access) -> bool:
        return name in access.principal.capabilities

    return _named(predicate, f"capability({name})")


def same_tenant(tenant_of: Callable[[str], str | None] | None = None) -> Predicate:
    """Hold where everything a call touches is of the principal's tenant.

    What it touches is `Access.objects`: all its tool declares, as `resources` and as `writes`. A
    tool that declares only what it writes is taken to read nothing else; if it does, declare that
    as well, for nobody else can know. It does not hold for a call of a tool that declares
    nothing, nor for a principal without a tenant.

    Args:
        tenant_of: Says whose an object is, by the name its tool declares; by default what is
            before the first slash, as in ``acme/order:7``.

    Raises:
        ConfigurationError: If `tenant_of` is no plain function.
    """
    find = _before_slash if tenant_of is None else _lookup(tenant_of, "same_tenant")

    def predicate(access: Access) -> bool:
        return _all_of(access, access.principal.tenant, find)

    return _named(predicate, "same_tenant")


def owns(owner_of: Callable[[str], str | None]) -> Predicate:
    """Hold where everything a call touches is the acting principal's own; else as `same_tenant`.

    Args:
        owner_of: Says which actor owns an object, by the name its tool declares.

    Raises:
        ConfigurationError: If `owner_of` is no plain function.
    """
    find = _lookup(owner_of, "owns")

    def predicate(access: Access) -> bool:
        return _all_of(access, access.principal.actor, find)

    return _named(predicate, "owns")


# ---------------------------------------------------------------- put together
def not_(predicate: Predicate) -> Predicate:
    """Hold where the other one does not."""
    (part,) = _parts((predicate,), "not_")

    def negated(access: Access) -> bool:
        return not holds(part, access)

    return _named(negated, f"not_({name_of(part)})")


def all_of(*predicates: Predicate) -> Predicate:
    """Hold where each of these does."""
    parts = _parts(predicates, "all_of")

    def predicate(access: Access) -> bool:
        return all(holds(part, access) for part in parts)

    return _named(predicate, _joined("all_of", parts))


def any_of(*predicates: Predicate) -> Predicate:
    """Hold where one of these does."""
    parts = _parts(predicates, "any_of")

    def predicate(access: Access) -> bool:
        return any(holds(part, access) for part in parts)

    return _named(predicate, _joined("any_of", parts))


def allow_if(*predicates: Predicate) -> Rule:
    """Allow a call for which each of these holds; leave the others to the next rule."""
    parts = _parts(predicates, "allow_if")

    def rule(access: Access) -> Judgement | None:
        return Allow() if all(holds(part, access) for part in parts) else None

    return _named(rule, _joined("allow_if", predicates))


def ask_if(*predicates: Predicate, reason: str = "") -> Rule:
    """Have a human asked about a call for which each of these holds; leave the others."""
    parts = _parts(predicates, "ask_if")
    name = _joined("ask_if", predicates)
    said = Ask(reason or f"{name} needs a human's yes")

    def rule(access: Access) -> Judgement | None:
        return said if all(holds(part, access) for part in parts) else None

    return _named(rule, name)


def requires(needed: str, *operations: str) -> Rule:
    """Deny these operations to a principal without the capability; leave it to the next rule else.

    Args:
        needed: The capability.
        operations: What tools call what they do; by default, whatever it is.
    """

    def rule(access: Access) -> Judgement | None:
        if operations and access.operation not in operations:
            return None
        if needed in access.principal.capabilities:
            return None
        return Deny(f"{access.operation} needs the capability {needed}")

    return _named(rule, f"requires({', '.join((needed, *operations))})")


# ---------------------------------------------------------------- how
def _named(function: F, name: str) -> F:
    function.__name__ = name
    return function


def _parts(predicates: tuple[Predicate, ...], where: str) -> tuple[Predicate, ...]:
    """Refuse to hold for everything because nothing was given."""
    if not predicates:
        raise ConfigurationError(f"{where} is given no predicate; give at least one")
    return in_order(predicates, where)


def _lookup(find: Callable[[str], str | None], where: str) -> Callable[[str], str | None]:
    """Have somebody's function asked whose an object is; what is no name is no answer."""
    (function,) = in_order(find, where)

    def whose(name: str) -> str | None:
        said = cast("object", function(name))
        if said is None or isinstance(said, str):
            return said
        discard(said)
        kind = type(said).__name__
        raise NoTruthError(f"{name_of(function)} said neither a name nor None, but a {kind}")

    return whose


def _joined(word: str, predicates: tuple[Predicate, ...]) -> str:
    return f"{word}({', '.join(map(name_of, predicates))})"


def _limit(given: object, where: str) -> Decimal:
    limit = _number(given)
    if limit is None or not limit.is_finite():
        raise ConfigurationError(f"{where} is given {given!r} as a limit; give a number")
    return limit


def _number(value: JsonValue | object) -> Decimal | None:
    """Read a number as it is written; `None` for what cannot be compared."""
    if isinstance(value, bool):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return None if number.is_nan() else number


def _before_slash(name: str) -> str | None:
    tenant, slash, _ = name.partition("/")
    return tenant if slash else None


def _all_of(access: Access, who: str, of: Callable[[str], str | None]) -> bool:
    """Whether everything it touches is somebody's; a blank name is nobody's."""
    objects = access.objects
    return bool(objects) and bool(who.strip()) and all(of(name) == who for name in objects)
