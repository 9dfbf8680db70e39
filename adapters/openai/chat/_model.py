"""The public class: what is asked where, and how the translation is put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from loopwright.protocol import JsonObject, JsonValue, ModelReply, ModelRequest

from ...provider._hosts import is_at
from .._access import ApiKey
from .._model import OpenAIModel
from ._reply import reply_of
from ._request import payload_of
from ._stream import Chunks

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIChatModel(OpenAIModel):
    """A model behind Chat Completions: of OpenAI, or of any server that speaks it.

    Such servers are vLLM, Ollama, llama.cpp, DeepSeek and many more: give `base_url`.

    Args:
        model: Its id, as the server knows it.
        base_url: Of the server, such as ``"http://localhost:11434/v1"``; by default that of the
            environment (``OPENAI_BASE_URL``), or else OpenAI itself.
        api_key: Its key, or a function that is asked for one. By default ``OPENAI_API_KEY``, but
            that is shown only to OpenAI and to the base URL of the environment.
        client: An `AsyncOpenAI` to use instead, Azure's included; it is never closed.
        name: By which its price and its breaker are found; by default the model's id.
        context_window: Tokens a request and its reply may have together.
        timeout: Seconds one attempt may take.
        stream: Whether replies are heard while they come.
        structured_output: Whether the server can hold a final answer to a schema while it also
            offers tools. If not, a final answer with an output is a call of ``final_answer``.
        max_tokens_field: The field for the most tokens of a reply; by default
            ``max_completion_tokens`` at OpenAI and Azure, and ``max_tokens`` elsewhere.
        options: More fields of the request, such as ``temperature``. They have the last word;
            ``None`` leaves a field out.

    Raises:
        ConfigurationError: If the extra `openai` is not installed, or OpenAI's key is missing.
    """

    _api = "openai_chat"
    _path = "/chat/completions"
    _conversation = "messages"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        client: AsyncOpenAI | None = None,
        name: str | None = None,
        context_window: int | None = None,
        timeout: float = 300.0,
        stream: bool = True,
        structured_output: bool = True,
        max_tokens_field: str | None = None,
        options: Mapping[str, JsonValue] | None = None,
    ) -> None:
        where = base_url if client is None else str(client.base_url)
        super().__init__(
            model,
            base_url=base_url,
            api_key=api_key,
            client=client,
            name=name,
            context_window=context_window,
            timeout=timeout,
            stream=stream,
            structured_output=structured_output,
            options=options,
            limit=max_tokens_field or _limit(where or os.environ.get("OPENAI_BASE_URL")),
        )

    def _payload(self, request: ModelRequest, *, stream: bool) -> JsonObject:
        return payload_of(request, self._settings, stream=stream)

    def _reply(self, body: object, request: ModelRequest) -> ModelReply:
        return reply_of(body, request, self._settings.by)

    def _hearing(self) -> Chunks:
        return Chunks()


def _limit(where: str | None) -> str:
    # OpenAI's newer models refuse the old name, and many other servers do not know the new one.
    new = where is None or is_at(where, "openai.com", "azure.com")
    return "max_completion_tokens" if new else "max_tokens"
