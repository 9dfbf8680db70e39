"""Requests to models of `pydantic-ai`, and the connections that they hold open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import contextmanager

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model, StreamedResponse, infer_model
from pydantic_ai.settings import ModelSettings

from loopwright.protocol import (
    ConfigurationError,
    JsonValue,
    ModelError,
    ModelReply,
    ModelRequest,
    TextDelta,
    Usage,
)

from ..provider._clients import Clients
from ..provider._failures import without
from ._failures import failure_of
from ._reply import reply_of, usage_of
from ._request import messages, parameters, settings


class Bridge:
    """Asks one model.

    Args:
        model: The model, or its name, which stands for a client of each event loop's own.
        by: What its replies are known by.
        timeout: Seconds a request may take.
        options: Settings for each request.
    """

    def __init__(
        self, model: Model | str, by: str, timeout: float, options: Mapping[str, JsonValue]
    ) -> None:
        self._by = f"pydantic-ai {by}"
        self._timeout = timeout
        self._options = options
        self._models = Clients(lambda: _Entered(find(model)), _Entered.leave)

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Ask for a whole reply."""
        async with self._models.lend() as entered:
            with _failures(entered):
                model = await entered.enter()
                response = await model_request(
                    model,
                    messages(request, self._by),
                    model_settings=self._settings(request, model),
                    model_request_parameters=parameters(request),
                )
                return reply_of(response, request, self._by)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReply]:
        """Ask for a reply in pieces."""
        heard: StreamedResponse | None = None
        async with self._models.lend() as entered:
            with _failures(entered, lambda: None if heard is None else usage_of(heard.usage)):
                model = await entered.enter()
                async with model_request_stream(
                    model,
                    messages(request, self._by),
                    model_settings=self._settings(request, model),
                    model_request_parameters=parameters(request),
                ) as heard:
                    async for event in heard:
                        if text := _text(event):
                            yield TextDelta(text)
                yield reply_of(heard.get(), request, self._by)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._models.aclose()

    def _settings(self, request: ModelRequest, model: Model) -> ModelSettings:
        ignored = frozenset[str](model.unsupported_settings)
        return settings(request, self._timeout, self._options, ignored)


def find(model: Model | str) -> Model:
    """Return the model that a name stands for.

    Raises:
        ConfigurationError: If there is none, or its SDK is not installed, or there is no key.
    """
    try:
        return infer_model(model)
    except (UserError, ImportError, ValueError) as error:
        msg = f"PydanticAIModel cannot have the model {model!r}: {error}"
        raise ConfigurationError(msg) from None


def can_stream(model: Model) -> bool:
    """Whether a model has streams."""
    return type(model).request_stream is not Model.request_stream


class _Entered:
    """A model in use: it keeps its connections until it is left."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._entering = asyncio.Lock()
        self._inside = False

    @property
    def key(self) -> str:
        """The key it uses, where its client says."""
        client: object = getattr(self._model, "client", None)
        key: object = getattr(client, "api_key", None)
        return key if isinstance(key, str) else ""

    async def enter(self) -> Model:
        async with self._entering:
            if not self._inside:
                await self._model.__aenter__()
                self._inside = True
        return self._model

    async def leave(self) -> None:
        if self._inside:
            self._inside = False
            await self._model.__aexit__(None, None, None)


@contextmanager
def _failures(
    entered: _Entered, usage: Callable[[], Usage | None] = lambda: None
) -> Generator[None]:
    """Raise what happens in the words of the runtime."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        failure = failure_of(error, usage())
        without(failure, entered.key)
        if failure is error:
            raise
        # What it was raised from may hold what must not be told, such as a key.
        raise failure from None


def _text(event: ModelResponseStreamEvent) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return text
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""
