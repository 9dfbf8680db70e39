"""The actor base class: what a user of the kernel writes a subclass of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

import pykka

from ._errors import UnsupportedError
from ._mailbox import DEFAULT_CAPACITY, Mailbox
from ._ref import ActorRef
from ._reply import Reply

if TYPE_CHECKING:
    import asyncio
    import contextvars
    from collections.abc import Coroutine

    from ._system import ActorSystem

T = TypeVar("T")


class Actor(pykka.Actor):
    """An actor without a thread or task of its own: its handlers are called by the loop.

    `on_receive` is called with one message at a time and must not wait. What waits is a
    coroutine: started with `spawn`, or returned by `on_receive` (which may be `async def`), in
    which case its result is the answer, and the actor takes its next messages meanwhile.

    pykka's hooks keep their meaning: `on_start` before the first message, `on_stop` after the
    last, `on_failure` instead of `on_stop` after a crash.
    """

    prepares: ClassVar[bool] = False
    """Whether `pre_start` is overridden."""

    starts_late: ClassVar[bool] = False
    """Whether `pre_start` or `on_start` is overridden."""

    cleans_up: ClassVar[bool] = False
    """Whether `post_stop` is overridden."""

    _ref: ActorRef[Any]

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: the kernel has bound the actor to its ref before this."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Note which awaiting hooks there are: actors without them start and end without a task."""
        super().__init_subclass__(**kwargs)
        cls.prepares = cls.pre_start is not Actor.pre_start
        cls.starts_late = cls.prepares or cls.on_start is not pykka.Actor.on_start
        cls.cleans_up = cls.post_stop is not Actor.post_stop

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: an actor here belongs to a system, not to the process.

        Raises:
            UnsupportedError: Always.
        """
        msg = f"{cls.__name__}.start() has no system to start in: use system.start({cls.__name__})."
        raise UnsupportedError(msg)

    @property
    def actor_ref(self) -> ActorRef[Self]:  # pyright: ignore[reportIncompatibleMethodOverride]  # invariant, but ours is a pykka ref
        """The actor's own address."""
        return self._ref

    @property
    def system(self) -> ActorSystem:
        """The system the actor lives in."""
        return self._ref.cell.system

    async def pre_start(self) -> None:
        """Prepare what has to be awaited; runs before `on_start`, while messages queue.

        If it raises, the actor has crashed.
        """

    async def post_stop(self) -> None:
        """Clean up what has to be awaited; runs after `on_stop`, not after a crash."""

    def spawn(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        context: contextvars.Context | None = None,
        name: str | None = None,
    ) -> asyncio.Task[T]:
        """Start a task of this actor: cancelled when it ends, and if it raises, a crash of it.

        Args:
            coro: What the task does.
            context: The context variables it sees, by default those of the caller; it gets a
                copy, so nobody sees what it sets.
            name: The task's name.

        Raises:
            ActorDeadError: If this actor has ended, or has been replaced after a crash.
        """
        return self._ref.cell.spawn(self, coro, context, name)

    def stop(self) -> None:
        """Stop this actor, as `ref.stop(block=False)` does."""
        self._ref.stop(block=False)

    def bind(self, ref: ActorRef[Any]) -> None:
        """Give the actor its ref; for the kernel, before `__init__`."""
        self._ref = self._actor_ref = ref
        self.actor_urn = ref.actor_urn
        self.actor_inbox = ref.actor_inbox
        self.actor_stopped = ref.actor_stopped

    # pykka's hooks for a new actor type

    @staticmethod
    def _create_actor_inbox() -> Mailbox:
        return Mailbox(DEFAULT_CAPACITY)

    @staticmethod
    def _create_future() -> Reply[Any]:
        return Reply()

    def _start_actor_loop(self) -> None:
        self._ref.cell.begin()
