"""Verifiers: foreign code that a final answer has to stand up to before it counts."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Any, Final, TypeAlias, cast

from loopwright.protocol import Claim, ConfigurationError, Verification, bounded

from ._signature import not_of_one_argument

AnyVerifier: TypeAlias = Callable[[Claim], Verification | Awaitable[Verification]]
"""Looks at a claim and returns `passed()` or `failed(reason)`; must change nothing.

It may be sync, and is then run in a thread. With an attribute `timeout`, it may take that many
seconds.
"""

TIMEOUT: Final = 60.0
"""Seconds a verifier without a `timeout` of its own may take."""


def verifier_names(verifiers: Sequence[AnyVerifier]) -> tuple[str, ...]:
    """Name each by its `__name__`, or else its class: by it its verdicts are kept and shown.

    Raises:
        ConfigurationError: If one cannot be asked, two have the same name, or a `timeout` is no
            number of seconds.
    """
    names: list[str] = []
    for verifier in verifiers:
        _check(verifier)
        name = _name_of(verifier)
        time_limit(verifier)
        if name in names:
            msg = f"there are two verifiers named {name!r}; give one another `__name__`"
            raise ConfigurationError(msg)
        names.append(name)
    return tuple(names)


def time_limit(verifier: AnyVerifier, default: float = TIMEOUT) -> float:
    """Return the seconds it may take.

    Raises:
        ConfigurationError: If its `timeout` is no number of seconds.
    """
    limit: object = getattr(verifier, "timeout", default)
    if not isinstance(limit, int | float) or isinstance(limit, bool) or not 0 < limit < inf:
        msg = f"verifier {_name_of(verifier)!r} has a timeout of {bounded(repr(limit))}; "
        raise ConfigurationError(msg + "give a number of seconds above 0")
    return float(limit)


def _name_of(verifier: Any) -> str:
    name: object = getattr(verifier, "__name__", None)
    if isinstance(name, str) and name:
        return name
    if isinstance(verifier, partial):
        return _name_of(cast("Any", verifier).func)
    return type(verifier).__name__


def _check(verifier: object) -> None:
    shown = bounded(repr(verifier))
    if not callable(verifier) or inspect.isclass(verifier):
        msg = f"{shown} is no verifier; give a function of the claim, or an object that is called"
        raise ConfigurationError(msg)
    problem = not_of_one_argument(verifier)
    if problem is not None:
        msg = f"verifier {shown} does not take one argument, the claim: {problem}"
        raise ConfigurationError(msg)
