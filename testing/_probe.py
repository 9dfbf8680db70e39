"""An actor that records and answers: the reply address of a test, or a stand-in for any actor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, TypeGuard, cast

from loopwright.actors.kernel import Actor, ActorDeadError, ActorRef, ActorSystem, Request

Answers: TypeAlias = Mapping[type, object | Callable[[Any], object]] | Iterable[object]
"""What a probe says: by type of message, a value or a function of the message; or a list, whose
values are said one after the other. `None` is silence, and so is the end of the list."""


class Probe:
    """A recording actor and the handle to it.

    It records each message, unwrapped where it came in a `Request`, and answers as the actor it
    stands in for would: a request by telling its `reply_to`, an ask by its reply.

    Args:
        system: Where the actor lives.
        answers: What it says; by default nothing.
    """

    def __init__(self, system: ActorSystem, answers: Answers = ()) -> None:
        self.messages: list[Any] = []
        """What it was told or asked, in order."""
        self._by_type: Mapping[type, object] = {}
        self._in_turn: Iterator[object] = iter(())
        if isinstance(answers, Mapping):
            self._by_type = cast("Mapping[type, object]", answers)
        else:
            self._in_turn = iter(answers)
        self._came = asyncio.Event()
        self.ref: ActorRef[Any] = system.start(_Recorder, self.take)
        """Its address."""

    async def received(self, count: int = 1) -> list[Any]:
        """Wait until it has got this many messages, and return all it has got."""
        while len(self.messages) < count:
            self._came.clear()
            await self._came.wait()
        return list(self.messages)

    def take(self, message: Any) -> object:
        """Record a message and return what is said to it; the actor calls this."""
        self.messages.append(message)
        self._came.set()
        for kind, said in self._by_type.items():
            if isinstance(message, kind):
                return said(message) if callable(said) else said
        return next(self._in_turn, None)


class _Recorder(Actor):
    def __init__(self, take: Callable[[Any], object]) -> None:
        super().__init__()
        self._take = take

    def on_receive(self, message: Any) -> object:
        if not _is_request(message):
            return self._take(message)
        answer = self._take(message.message)
        if answer is not None:
            with suppress(ActorDeadError):
                message.reply_to.tell(answer)
        return None


def _is_request(message: object) -> TypeGuard[Request[Any]]:
    return isinstance(message, Request)
