"""A Decider with somebody asking, on a clock of its own, and models that fail as they are told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

from loopwright import Agent, ModelReply, ModelRequest
from loopwright.actors import Decider
from loopwright.actors.kernel import ActorRef, ActorSystem, Request
from loopwright.actors.roles._breakers import Breakers
from loopwright.protocol import AttemptFailed, CancelDecide, Decide, Decided, DecideFailed
from loopwright.testing import Probe, ScriptedModel, Step, VirtualClock, settle
from services.bench import INVOCATION, JITTER, decide


class Says:
    """A model that returns one thing, of any type, or raises it."""

    def __init__(self, said: object) -> None:
        self.said = said

    async def decide(self, _: ModelRequest) -> ModelReply:
        if isinstance(self.said, BaseException):
            raise self.said
        return cast("ModelReply", self.said)


class Named(ScriptedModel):
    """A scripted model with a name, and what else an endpoint may have."""

    def __init__(
        self,
        name: str,
        steps: Iterable[Step] = (),
        *,
        context_window: int | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(steps, **options)
        self.name = name
        self.context_window = context_window
        self.timeout = timeout


class DeciderBench:
    """A Decider and a probe that is told its answers.

    Args:
        system: Where it lives.
        agent: Whose Decider.
        clock: Time.
        breakers: What it shares with others.
    """

    def __init__(
        self, system: ActorSystem, agent: Agent, clock: VirtualClock, breakers: Breakers
    ) -> None:
        self.clock = clock
        self.began = clock.now().monotonic
        self.asker = Probe(system)
        self.ref: ActorRef[Any] = system.start(
            Decider, agent, clock, breakers, random=lambda: JITTER
        )

    def ask(self, order: Decide | CancelDecide | None = None) -> None:
        """Ask, and don't wait."""
        self.ref.tell(Request(order or decide(), self.asker.ref))

    def cancel(self, turn: int = 1) -> None:
        """Give it up."""
        self.ask(CancelDecide(INVOCATION, turn))

    @property
    def failed(self) -> list[AttemptFailed]:
        """The attempts it has told of."""
        return [said for said in self.asker.messages if isinstance(said, AttemptFailed)]

    @property
    def answers(self) -> list[Decided | DecideFailed]:
        """What else it has said."""
        return [said for said in self.asker.messages if not isinstance(said, AttemptFailed)]

    async def answer(self, order: Decide | None = None) -> Decided | DecideFailed:
        """Ask; return the one answer, which comes before any time has passed."""
        before = len(self.answers)
        self.ask(order)
        await settle()
        assert len(self.answers) == before + 1
        answered: Decided | DecideFailed = self.answers[-1]
        last: object = self.asker.messages[-1]
        assert last is answered
        return answered

    async def decided(self, order: Decide | None = None) -> Decided:
        """Ask; return the decision."""
        answered = await self.answer(order)
        assert isinstance(answered, Decided)
        return answered


@asynccontextmanager
async def decider(model: Any, **options: Any) -> AsyncGenerator[DeciderBench, None]:
    """Run a Decider of an agent with this model."""
    clock = VirtualClock()
    async with ActorSystem() as system:
        agent = Agent("desk", model=model, **options)
        yield DeciderBench(system, agent, clock, Breakers(clock))
