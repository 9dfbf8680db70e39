"""Where decisions come from: one model, or a chain of them, one behind the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from math import inf
from typing import Any, NamedTuple, TypeGuard, cast

from loopwright.protocol import ConfigurationError, Model, ModelRequest, bounded


class Endpoint(NamedTuple):
    """One model as it is asked, priced and watched over."""

    name: str
    """Its `name`, or else that of its class; its price and its breaker are found by it."""
    model: Model
    context_window: int | None = None
    """Tokens a request and its reply may have together; `None` where it does not say."""
    timeout: float | None = None
    """Seconds one attempt may take; `None` leaves it to the invocation's own limits."""
    only_refused: bool = False
    """Whether it is asked only for what another one has refused."""
    stream: Callable[[ModelRequest], AsyncIterator[object]] | None = None
    """Asks it where it can be heard while it speaks."""
    aclose: Callable[[], Awaitable[object]] | None = None
    """Lets it close what it holds open."""


class FallbackChain:
    """Models that stand in for one another: each gets its retries before the next one is asked.

    The next one is asked where a model cannot answer: it is down, too slow or over its rate, or
    the request is too long and the next one's `context_window` is known to hold it. It is never
    asked because of what a model has said: that the request or the right to make it is wrong, or
    that it refuses the content.

    Args:
        models: In the order in which they are asked.
        on_refusal: Asked, once, for what one of them refuses. Without it, a refusal is the end.

    Raises:
        ConfigurationError: If it is empty, something in it is no model, or two models have the
            same name.
    """

    def __init__(self, models: Sequence[Model], *, on_refusal: Model | None = None) -> None:
        endpoints = [_endpoint(model) for model in models]
        names = [endpoint.name for endpoint in endpoints]
        if not endpoints:
            msg = "a FallbackChain has no models; give at least one"
            raise ConfigurationError(msg)
        if on_refusal is not None and not any(model is on_refusal for model in models):
            names.append(_endpoint(on_refusal).name)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            msg = (
                f"a FallbackChain has two models named {twice!r}, which would share a price and a "
                "breaker; give each its own `name`"
            )
            raise ConfigurationError(msg)
        if on_refusal is not None:
            endpoints.append(_endpoint(on_refusal)._replace(only_refused=True))
        self.endpoints = tuple(endpoints)
        """As they are asked; the one for refusals comes last."""

    def __repr__(self) -> str:
        """Name its models."""
        return f"<FallbackChain {', '.join(endpoint.name for endpoint in self.endpoints)}>"


def endpoints_of(model: Model | FallbackChain) -> tuple[Endpoint, ...]:
    """List all models that may be asked, in order; the one for refusals comes last.

    Raises:
        ConfigurationError: If it is no model, or says of itself what cannot be meant.
    """
    return model.endpoints if isinstance(model, FallbackChain) else (_endpoint(model),)


def _endpoint(model: object) -> Endpoint:
    kind = type(model).__name__
    if isinstance(model, FallbackChain):
        msg = "a FallbackChain is in another one; list the models of both in one chain"
        raise ConfigurationError(msg)
    if isinstance(model, type):
        msg = f"{model.__name__} is a class and no model; give an object of it: {model.__name__}(…)"
        raise ConfigurationError(msg)
    if not callable(getattr(model, "decide", None)):
        msg = f"{kind} is no model; it needs `async def decide`"
        raise ConfigurationError(msg)
    name: object = getattr(model, "name", None)
    window: object = getattr(model, "context_window", None)
    timeout: object = getattr(model, "timeout", None)
    if not (window is None or (type(window) is int and window > 0)):
        msg = f"model {kind} has context_window={bounded(repr(window))}; give tokens, or None"
        raise ConfigurationError(msg)
    if not (timeout is None or _is_limit(timeout)):
        msg = f"model {kind} has timeout={bounded(repr(timeout))}; give seconds above 0, or None"
        raise ConfigurationError(msg)
    named = name if isinstance(name, str) and name else kind
    stream, aclose = _method(model, "stream"), _method(model, "aclose")
    return Endpoint(named, cast("Model", model), window, timeout, False, stream, aclose)


def _method(model: object, name: str) -> Any:
    method: object = getattr(model, name, None)
    if not (method is None or callable(method)):
        msg = f"model {type(model).__name__} has {name}={bounded(repr(method))}; make it a method"
        raise ConfigurationError(msg)
    return method


def _is_limit(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 < value < inf
