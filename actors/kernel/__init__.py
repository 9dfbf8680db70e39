"""The actor kernel: pykka's actors on asyncio, without a thread or task each. See docs/kernel.md."""

from __future__ import annotations

from loopwright.protocol import Overloaded as Overloaded

from ._actor import Actor as Actor
from ._errors import ActorDeadError as ActorDeadError
from ._errors import AskTimeoutError as AskTimeoutError
from ._errors import RequestCancelledError as RequestCancelledError
from ._errors import SystemClosedError as SystemClosedError
from ._errors import UnsupportedError as UnsupportedError
from ._errors import WouldDeadlockError as WouldDeadlockError
from ._errors import WrongThreadError as WrongThreadError
from ._messages import ActorFailed as ActorFailed
from ._messages import ActorTerminated as ActorTerminated
from ._messages import ChildSpec as ChildSpec
from ._messages import Event as Event
from ._messages import Lane as Lane
from ._messages import Request as Request
from ._messages import Statistics as Statistics
from ._messages import TaskFailed as TaskFailed
from ._ref import ActorRef as ActorRef
from ._reply import Reply as Reply
from ._system import ActorSystem as ActorSystem
