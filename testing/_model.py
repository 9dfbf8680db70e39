"""A model that says what the test tells it to."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from loopwright.protocol import ModelReply, ModelRequest, RawDecision, Usage

Step: TypeAlias = (
    RawDecision | ModelReply | BaseException | Callable[[ModelRequest], "Step | Awaitable[Step]"]
)
"""One reply: a decision in any form a model may use, a whole reply, an exception to raise, or a
function of the request that returns one of these."""

USAGE = Usage(input_tokens=10, output_tokens=5)
"""What a scripted reply reports, unless the script says otherwise."""


class ScriptedModel:
    """Replies with the given steps, one per decision; one more request than steps is an error.

    Args:
        steps: What it says, in order.
        usage: What each reply reports, unless a step is a whole `ModelReply`.

    Attributes:
        requests: What it was asked, in order.
    """

    def __init__(self, steps: Iterable[Step], *, usage: Usage | None = USAGE) -> None:
        self._steps = iter(steps)
        self._usage = usage
        self.requests: list[ModelRequest] = []

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Say the next thing.

        Raises:
            AssertionError: If there is nothing left to say.
        """
        self.requests.append(request)
        step = next(self._steps, None)
        if step is None:
            msg = f"the script has no reply left for request {len(self.requests)}"
            raise AssertionError(msg)
        return await self._reply(step, request)

    async def _reply(self, step: Step, request: ModelRequest) -> ModelReply:
        if isinstance(step, ModelReply):
            return step
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            made = step(request)
            return await self._reply(await made if inspect.isawaitable(made) else made, request)
        return ModelReply(step, self._usage, model="scripted")
