"""What every service actor shares: whoever asks is answered, also by a crash."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from loopwright.protocol import Input, ServiceFailed

from .._work import described
from ..kernel import Actor, ActorDeadError, ActorRef, Request

M = TypeVar("M")


class Service(Actor, Generic[M]):
    """An actor shared by all invocations; it takes requests and tells their senders."""

    def on_receive(self, message: Request[M]) -> None:
        """Serve a request; a crash over it is told to its sender before it is one."""
        try:
            self.serve(message)
        except Exception as error:
            failed = ServiceFailed(type(self).__name__, described(error))
            answer(message.reply_to, failed)
            raise

    def serve(self, request: Request[M]) -> None:
        """Do what is asked; must not wait."""
        raise NotImplementedError


def answer_last(to: ActorRef[Any], message: Input) -> None:
    """Answer as the last act of a task; otherwise as `answer`."""
    try:
        to.tell_last(message)
    except ActorDeadError:
        return


def answer(to: ActorRef[Any], message: Input) -> None:
    """Tell somebody who may have left memory meanwhile: nobody waits for it then."""
    try:
        to.tell(message)
    except ActorDeadError:
        return
