"""What the models of OpenAI's two APIs have in common: all but the translation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from loopwright.protocol import (
    ConfigurationError,
    JsonObject,
    JsonValue,
    ModelError,
    ModelReply,
    ModelRequest,
    TextDelta,
    ToolSpec,
    Usage,
    final_schema,
    reserved_tools,
)

from ..provider._options import checked_options
from ..provider._schema import strict_schema
from ._access import ApiKey, access_to

if TYPE_CHECKING:
    from openai import AsyncOpenAI


@dataclass(frozen=True, slots=True)
class Settings:
    """What a request is made with, beside what is asked."""

    model: str
    by: str
    """Who is asked, through which API: only they are sent again what they want to be sent."""
    structured_output: bool
    options: Mapping[str, JsonValue]
    limit: str
    """The field that says how many tokens a reply may have."""

    def final_calls(self, request: ModelRequest) -> bool:
        """Whether the final answer is a call: its output has a schema, which texts cannot have."""
        return request.output_schema is not None and not self.structured_output

    def tools(self, request: ModelRequest) -> tuple[ToolSpec, ...]:
        """List all that may be called, decisions included."""
        decisions = reserved_tools(request, final_answer=self.final_calls(request))
        return request.tools + decisions

    def final_format(self, request: ModelRequest) -> JsonObject | None:
        """Say which JSON a final answer must be; `None`: it is a text, or a call."""
        if request.output_schema is None or not self.structured_output:
            return None
        schema = final_schema(request)
        strict = strict_schema(schema)
        return {"name": "final_answer", "strict": strict is not None, "schema": strict or schema}

    def merged(self, payload: JsonObject) -> JsonObject:
        """Let the options have the last word; `None` leaves a field out, and tools are added."""
        merged = {**payload, **self.options}
        tools, more = payload.get("tools"), self.options.get("tools")
        if isinstance(tools, list) and isinstance(more, list):
            merged["tools"] = [*tools, *more]
        return {name: value for name, value in merged.items() if value is not None}


class Hearing(Protocol):
    """What collects the events of one reply."""

    @property
    def usage(self) -> Usage | None:
        """What it has cost so far, where that is known."""
        ...

    @property
    def over(self) -> bool:
        """Whether all of it has come; otherwise the stream is heard to its end."""
        ...

    def add(self, event: object) -> str:
        """Take in one event; what it adds to the text is returned."""
        ...

    def body(self, *, done: bool) -> object:
        """Return the reply as it would have come as a whole.

        Args:
            done: Whether the server has said that this is all.
        """
        ...


class OpenAIModel(ABC):
    """A model behind one of OpenAI's APIs.

    Attributes:
        name: By which its price and its breaker are found.
        context_window: Tokens a request and its reply may have together, where that is known.
        timeout: Seconds one attempt may take.
        stream: Gives pieces of a reply as they come, and then the reply; `None` if it is only
            asked for replies as a whole.
    """

    _api: ClassVar[str]
    _path: ClassVar[str]
    _conversation: ClassVar[str]

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        api_key: ApiKey | None,
        client: AsyncOpenAI | None,
        name: str | None,
        context_window: int | None,
        timeout: float,
        stream: bool,
        structured_output: bool,
        options: Mapping[str, JsonValue] | None,
        limit: str,
    ) -> None:
        try:
            from ._sdk import Line
        except ImportError:
            msg = (
                f"{type(self).__name__} needs the openai SDK; run pip install 'loopwright[openai]'"
            )
            raise ConfigurationError(msg) from None
        self.name = name or model
        self.context_window = context_window
        self.timeout = timeout
        self.stream: Callable[[ModelRequest], AsyncGenerator[TextDelta | ModelReply]] | None
        self.stream = self._stream if stream else None
        kind = type(self).__name__
        to = client or access_to(kind, base_url, api_key)
        given = checked_options(kind, options, self._conversation)
        by = self._by(model, base_url if client is None else str(client.base_url))
        self._settings = Settings(model, by, structured_output, given, limit)
        self._line = Line(self._path, to, timeout)

    def __repr__(self) -> str:
        """Name the model."""
        return f"<{type(self).__name__} {self.name}>"

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Ask for one reply.

        Raises:
            ModelError: If there is none, and what kind of failure that is; what the SDK raises
                for a status is raised as it is.
        """
        if self.stream is None:
            try:
                body = await self._line.post(self._payload(request, stream=False))
            except Exception as error:  # noqa: BLE001 - whatever the SDK raises
                raise self._line.failure(error, None) from error.__cause__
            return self._read(body, request)
        reply: ModelReply | None = None
        async for piece in self.stream(request):
            if isinstance(piece, ModelReply):
                reply = piece
        assert reply is not None  # it comes last
        return reply

    async def aclose(self) -> None:
        """Close the connections of this loop; the next request opens new ones."""
        await self._line.aclose()

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReply]:
        heard = self._hearing()
        try:
            async with self._line.events(self._payload(request, stream=True)) as events:
                async for event in events:
                    if text := heard.add(event):
                        yield TextDelta(text)
                    if heard.over:
                        break
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises
            raise self._line.failure(error, heard.usage) from error.__cause__
        yield self._read(heard.body(done=events.done), request)

    def _read(self, body: object, request: ModelRequest) -> ModelReply:
        try:
            return self._reply(body, request)
        except ModelError as error:  # it may say what the server has said
            raise self._line.failure(error, None) from None

    def _by(self, model: str, where: str | None) -> str:
        """Say by whom a reply is."""
        return f"{self._api}:{model}"

    @abstractmethod
    def _payload(self, request: ModelRequest, *, stream: bool) -> JsonObject: ...

    @abstractmethod
    def _reply(self, body: object, request: ModelRequest) -> ModelReply: ...

    @abstractmethod
    def _hearing(self) -> Hearing: ...
