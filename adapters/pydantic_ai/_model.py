"""A model of `pydantic-ai` as a model of the runtime: one request a decision, no loop of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING

from loopwright.protocol import ConfigurationError, JsonValue, ModelReply, ModelRequest, TextDelta

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class PydanticAIModel:
    """Any model that `pydantic-ai` knows: Gemini, Bedrock, Mistral, Groq, Ollama and others.

    Only its requests are used: tools, retries, validation and the loop are the runtime's. An
    answer with an output is asked for as a call, which every provider that knows tools can be
    held to.

    Args:
        model: One of its models, or a name such as ``"google:gemini-2.5-pro"``. A client that you
            gave a model stays yours: it is not closed.
        name: By which its price and its breaker are found; the name of the model by default.
        context_window: Tokens a request and its reply may have together; by default what
            `pydantic-ai` knows.
        timeout: Seconds one attempt may take.
        stream: Whether it is heard while it speaks, where it can be.
        options: Settings of `pydantic-ai` for each request, merged last; `None` takes one out.

    Raises:
        ConfigurationError: If the extra `pydantic-ai`, or the SDK of the provider, is not
            installed, or if there is no such model, or no key for it.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        name: str | None = None,
        context_window: int | None = None,
        timeout: float = 300.0,
        stream: bool = True,
        options: Mapping[str, JsonValue] | None = None,
    ) -> None:
        try:
            from ._bridge import Bridge, can_stream, find
        except ImportError:
            msg = "PydanticAIModel needs it; run pip install 'loopwright[pydantic-ai]'"
            raise ConfigurationError(msg) from None
        known = find(model)
        self.name = name or known.model_name
        self.context_window = known.context_window if context_window is None else context_window
        self.timeout = timeout
        self._bridge = Bridge(model, known.model_id, timeout, dict(options or {}))
        self.stream: Callable[[ModelRequest], AsyncGenerator[TextDelta | ModelReply]] | None
        self.stream = self._bridge.stream if stream and can_stream(known) else None

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Decide what to do next.

        Raises:
            ModelError: If there is no reply.
        """
        return await self._bridge.decide(request)

    async def aclose(self) -> None:
        """Close the connections it holds open."""
        await self._bridge.aclose()
