"""The public class: what is asked where, and how the translation is put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from loopwright.protocol import JsonObject, JsonValue, ModelReply, ModelRequest

from .._access import ApiKey
from .._model import OpenAIModel
from ._reply import reply_of
from ._request import payload_of
from ._stream import Events

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIResponsesModel(OpenAIModel):
    """A model behind the Responses API: of OpenAI, or of any server that speaks it.

    Nothing is stored at the provider: each request has all of the conversation, the model's
    encrypted reasoning included.

    Args:
        model: Its id, as the server knows it.
        base_url: Of the server; by default that of the environment (``OPENAI_BASE_URL``), or else
            OpenAI itself.
        api_key: Its key, or a function that is asked for one. By default ``OPENAI_API_KEY``, but
            that is shown only to OpenAI and to the base URL of the environment.
        client: An `AsyncOpenAI` to use instead, Azure's included; it is never closed.
        name: By which its price and its breaker are found; by default the model's id.
        context_window: Tokens a request and its reply may have together.
        timeout: Seconds one attempt may take.
        stream: Whether replies are heard while they come.
        structured_output: Whether the server can hold a final answer to a schema while it also
            offers tools. If not, a final answer with an output is a call of ``final_answer``.
        options: More fields of the request, such as ``reasoning``. They have the last word;
            ``None`` leaves a field out: ``{"include": None}`` is for models that do not reason
            and refuse to be asked for their reasoning.

    Raises:
        ConfigurationError: If the extra `openai` is not installed, or OpenAI's key is missing.
    """

    _api = "openai_responses"
    _path = "/responses"
    _conversation = "input"

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
        options: Mapping[str, JsonValue] | None = None,
    ) -> None:
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
            limit="max_output_tokens",
        )

    def _by(self, model: str, where: str | None) -> str:
        # Encrypted reasoning can be read only by who has written it: one account at one server.
        at = where or os.environ.get("OPENAI_BASE_URL") or ""
        return f"{super()._by(model, where)}:{self.name}@{urlsplit(at).netloc}"

    def _payload(self, request: ModelRequest, *, stream: bool) -> JsonObject:
        return payload_of(request, self._settings, stream=stream)

    def _reply(self, body: object, request: ModelRequest) -> ModelReply:
        return reply_of(body, request, self._settings.by)

    def _hearing(self) -> Events:
        return Events()
