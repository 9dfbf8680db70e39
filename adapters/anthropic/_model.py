"""Claude as a model: requests are sent, streams are heard, failures are named."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Final, cast

from pydantic import BaseModel

from loopwright.policy import classify
from loopwright.protocol import (
    ConfigurationError,
    JsonObject,
    JsonValue,
    ModelError,
    ModelReply,
    ModelRequest,
    RemoteProtocolError,
    TextDelta,
    bounded,
)

from ..provider._boundary import clean
from ..provider._clients import CONNECT_TIMEOUT, Clients
from ..provider._failures import failure_of
from ..provider._hosts import NO_KEY, checked_key, checked_url, is_at
from ..provider._options import checked_options
from ._reply import Body, added, body_of, goes_on, joined, reply_of
from ._request import prepared
from ._settings import Settings
from ._stream import Building

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import MessageParam, RawMessageStreamEvent

PAUSES: Final = 8
"""How often a reply may be interrupted to let tools of the provider run."""
_MESSAGE: Final = 500


class AnthropicModel:
    """A Claude model, by Anthropic's Messages API or a server that speaks it.

    Args:
        model: Id of the model, such as ``"claude-sonnet-4-5"``.
        api_key: By default the SDK finds it, as in ``ANTHROPIC_API_KEY``; but not for a `base_url`
            that is not Anthropic's.
        base_url: Of a server that speaks the same API.
        client: A client of the SDK to use instead, such as one for Bedrock or Vertex. It stays
            yours: it is not closed.
        name: By which its price and its breaker are found; the id of the model by default.
        context_window: Tokens a request and its reply may have together.
        timeout: Seconds one attempt may take.
        stream: Whether it is heard while it speaks.
        structured_output: Whether the API can hold an answer to a schema. Otherwise, and for
            schemas it cannot enforce, the final answer is a call.
        cache: Whether the provider is to cache the beginning of each request for the next one.
        max_tokens: The most a reply may have, thinking included; a budget may lower it.
        options: Merged into each request: `None` takes a field out, objects are merged, and
            ``tools``, which are the provider's own, are added to those of the agent.

    Raises:
        ConfigurationError: If the extra `anthropic` is not installed, there is no key, or
            something of it cannot be meant.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: AsyncAnthropic | None = None,
        name: str | None = None,
        context_window: int | None = None,
        timeout: float = 300.0,
        stream: bool = True,
        structured_output: bool = True,
        cache: bool = True,
        max_tokens: int = 8192,
        options: Mapping[str, JsonValue] | None = None,
    ) -> None:
        try:
            import anthropic
            import httpx2
        except ImportError:
            msg = "AnthropicModel needs the SDK; run pip install 'loopwright[anthropic]'"
            raise ConfigurationError(msg) from None
        if max_tokens < 1:
            msg = f"AnthropicModel.max_tokens is {max_tokens!r}; give the tokens a reply may have"
            raise ConfigurationError(msg)
        self.name = name or model
        self.context_window = context_window
        self.timeout = timeout
        self.stream: Callable[[ModelRequest], AsyncGenerator[TextDelta | ModelReply]] | None
        self.stream = self._pieces if stream else None
        given = checked_options(type(self).__name__, options, "messages")
        if given.get("max_tokens", 1) is None:
            msg = "AnthropicModel cannot leave out max_tokens, which the API insists on"
            raise ConfigurationError(msg)
        self._settings = Settings(model, max_tokens, structured_output, cache, given)
        self._lost = (
            *(anthropic.APIConnectionError, httpx2.RequestError, RemoteProtocolError),
            *(ValueError, RecursionError),  # of the decoder
        )
        self._known = (anthropic.APIError, *self._lost)
        self._limits = anthropic.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT))
        kind = type(self).__name__
        url = checked_url(kind, base_url)
        key = checked_key(kind, api_key) if api_key else None
        if key is None and url is not None and not is_at(url, "anthropic.com"):
            key = NO_KEY  # that of the environment is not for a server that is named here

        def make() -> AsyncAnthropic:
            if client is not None:
                return client.with_options(max_retries=0)
            return anthropic.AsyncAnthropic(
                api_key=key, base_url=url, timeout=self._limits, max_retries=0
            )

        try:
            made = make()  # which looks for a key
        except anthropic.AnthropicError as error:
            told = f"{kind} cannot be made: {bounded(str(error), _MESSAGE)}"
            raise ConfigurationError(told) from None
        if client is None and not (made.api_key or made.auth_token or made.credentials):
            msg = f"{kind} has no key; set ANTHROPIC_API_KEY, or give it api_key= or client="
            raise ConfigurationError(msg)

        async def close(made: AsyncAnthropic) -> None:
            if client is None:
                await made.close()

        self._clients = Clients(make, close)

    def __repr__(self) -> str:
        """Name the model."""
        return f"<{type(self).__name__} {self.name}>"

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Decide what to do next."""
        async with aclosing(self._pieces(request)) as pieces:
            reply = [piece async for piece in pieces][-1]
        assert isinstance(reply, ModelReply)
        return reply

    async def aclose(self) -> None:
        """Close the connections it holds open."""
        await self._clients.aclose()

    async def _pieces(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReply]:
        asked = prepared(request, self._settings)
        payload = asked.payload
        body: Body | None = None
        async with self._clients.lend() as client:
            for _ in range(1 + PAUSES):
                building = Building()
                with self._failures(client, body, building):
                    if self.stream is None:
                        part = body_of(await self._whole(client, payload))
                    else:
                        async with await self._events(client, payload) as events:
                            try:
                                async for event in events:
                                    if text := building.take(_plain(event)):
                                        yield TextDelta(clean(text))
                            except self._lost:
                                if not building.done:
                                    raise  # otherwise nothing is missing
                        part = building.body()
                    body = joined(body, part)
                    if not body.paused:
                        yield reply_of(body, request, self._settings.by, asked.after)
                        return
                payload = goes_on(asked.payload, body)
        msg = f"the reply was paused more than {PAUSES} times"
        raise ModelError(msg, usage=None if body is None else body.usage)

    async def _whole(self, client: AsyncAnthropic, payload: JsonObject) -> JsonValue:
        model, limit, messages, rest = _parts(payload)
        return _plain(
            await client.messages.create(
                model=model,
                max_tokens=limit,
                messages=messages,
                extra_body=rest,
                timeout=self._limits,
            )
        )

    async def _events(
        self, client: AsyncAnthropic, payload: JsonObject
    ) -> AsyncStream[RawMessageStreamEvent]:
        model, limit, messages, rest = _parts(payload)
        return await client.messages.create(
            model=model,
            max_tokens=limit,
            messages=messages,
            extra_body=rest,
            timeout=self._limits,
            stream=True,
        )

    @contextmanager
    def _failures(
        self, client: AsyncAnthropic, before: Body | None, building: Building
    ) -> Generator[None]:
        """Name what the SDK raises, with what is charged for the parts that came before it."""
        try:
            yield
        except self._known as error:
            usage = added(None if before is None else before.usage, building.usage)
            secret = client.api_key or client.auth_token or ""
            failure = failure_of(error, self._lost, usage, secret)
            if failure is error and usage is None:
                raise
            if failure is error:
                found = classify(error)
                told = bounded(str(error), _MESSAGE)
                failure = ModelError(
                    told, kind=found.kind, retry_after=found.retry_after, usage=usage
                )
            raise failure from error


def _parts(payload: JsonObject) -> tuple[str, int, list[MessageParam], JsonObject]:
    """Take a request apart: the SDK has names for what is required, and takes the rest as it is."""
    rest = dict(payload)
    model, limit = cast("str", rest.pop("model")), cast("int", rest.pop("max_tokens"))
    return model, limit, cast("list[MessageParam]", rest.pop("messages")), rest


def _plain(value: object) -> JsonValue:
    """Turn what the SDK has made back into what came: it has validated nothing of it."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_unset=True, warnings=False)
    return cast("JsonValue", value)
