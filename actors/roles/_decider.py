"""The Decider: one per agent, shared by all its invocations. It alone calls the model."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

from loopwright.protocol import (
    CancelDecide,
    Decide,
    Decided,
    DecideFailed,
    Decision,
    InvocationId,
    Malformed,
    ModelReply,
    ModelRequest,
    RemoteProtocolError,
    Usage,
    parse_decision,
    raw_text,
)

from .._agent import Agent
from .._work import Work, described, first_cause, passes_through
from ..kernel import ActorRef, Request
from ._service import Service, answer_last

_Key: TypeAlias = tuple[InvocationId, int]
_CHARS_PER_TOKEN = 4
"""A usual ratio for English text; only used where a model reports no usage."""


class Decider(Service[Decide | CancelDecide]):
    """Asks one agent's model, and parses what it says at the edge."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent
        self._asked: dict[_Key, asyncio.Task[None]] = {}
        self._work = Work()

    def serve(self, request: Request[Decide | CancelDecide]) -> None:
        """Begin a model call, or give one up."""
        order = request.message
        key = (order.invocation_id, order.turn)
        if isinstance(order, CancelDecide):
            task = self._asked.get(key)
            if task is not None:
                self._work.interrupt(task)
            return
        asked = self._ask(key, order, request.reply_to)
        self._asked[key] = self._work.start(asked, request.context)

    async def post_stop(self) -> None:
        """End what still runs; a model that does not obey is abandoned."""
        await self._work.close()

    async def _ask(self, key: _Key, order: Decide, reply_to: ActorRef[Any]) -> None:
        said: Decided | DecideFailed
        try:
            reply = await self._agent.model.decide(self._request(order))
            said = _decided(order, reply)
        except asyncio.CancelledError:
            said = DecideFailed(order.turn, "the model call was cancelled")
        except BaseException as error:  # noqa: BLE001 - a model is foreign code
            cause = first_cause(error)
            if passes_through(cause, self._asked.get(key)):
                # The loop hands on an interrupt, but not a group that holds one.
                raise cause from None
            said = DecideFailed(order.turn, described(cause))
        finally:
            self._ended(key)
        answer_last(reply_to, said)

    def _ended(self, key: _Key) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._work.ended(task)
        # A call that outlived its cancellation may have been asked anew meanwhile.
        if self._asked.get(key) is task:
            del self._asked[key]

    def _request(self, order: Decide) -> ModelRequest:
        return ModelRequest(
            order.invocation_id,
            order.turn,
            self._agent.name,
            self._agent.instructions,
            order.goal,
            order.history,
            self._agent.specs,
            order.principal,
            order.notice,
            order.metadata,
        )


def _decided(order: Decide, said: object) -> Decided:
    reply = _checked(said)
    decision: Decision | Malformed
    try:
        decision = parse_decision(reply.decision)
    except RemoteProtocolError as error:
        decision = Malformed(str(error), raw_text(reply.decision))
    usage = reply.usage
    if usage is None:
        raw = reply.decision
        size = len(raw) if isinstance(raw, str | bytes) else len(repr(raw))
        usage = Usage(
            order.context_chars // _CHARS_PER_TOKEN + 1, size // _CHARS_PER_TOKEN + 1, True
        )
    return Decided(order.turn, decision, usage, reply.model, reply.response_id)


def _checked(said: object) -> ModelReply:
    """Take nothing about a reply for granted: all of it goes into the journal.

    Raises:
        TypeError: If it is not what its annotations say.
    """
    if not isinstance(said, ModelReply):
        msg = f"the model returned {type(said).__name__}; decide() must return a ModelReply"
        raise TypeError(msg)
    if not (_is_text(said.model) and _is_text(said.response_id) and _is_usage(said.usage)):
        msg = (
            f"the model replied with usage={said.usage!r}, model={said.model!r}, "
            f"response_id={said.response_id!r}; give counts from 0 up or None, and texts"
        )
        raise TypeError(msg)
    return said


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_usage(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, Usage) and _is_count(value.input_tokens, value.output_tokens)


def _is_count(*values: object) -> bool:
    return all(isinstance(value, int) and value >= 0 for value in values)
