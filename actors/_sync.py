"""The runtime for services without an event loop: the same calls, from any thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from loopwright.protocol import (
    Budget,
    ConfigurationError,
    EffectFact,
    EffectStatus,
    InvocationState,
    JsonObject,
    Outcome,
    Principal,
    Reconciled,
    RuntimeClosedError,
    Status,
    Summary,
)

from ._inbox import Waiting
from ._runtime import Runtime


class SyncRuntime:
    """A runtime in a thread of its own; every call blocks the calling thread only.

    Calls do what those of `Runtime` do, and raise what they raise. Where those return a `Run`,
    these return the invocation id.

    Args:
        runtime: What runs in the thread.
    """

    def __init__(self, runtime: Runtime) -> None:
        if not isinstance(runtime, Runtime):  # pyright: ignore[reportUnnecessaryIsInstance] - by hand
            msg = f"SyncRuntime wants a Runtime, not a {type(runtime).__name__}; give Runtime([agent])"
            raise ConfigurationError(msg)
        self._runtime = runtime
        self._stack: ExitStack | None = None
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        """Start the thread and enter the runtime in it."""
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            stack.enter_context(portal.wrap_async_context_manager(self._runtime))
            self._stack, self._portal = stack.pop_all(), portal
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the runtime and end the thread."""
        stack, self._stack, self._portal = self._stack, None, None
        if stack is not None:
            stack.__exit__(exc_type, exc, traceback)

    def run(
        self,
        agent: str,
        goal: str,
        *,
        principal: Principal | None = None,
        budget: Budget | None = None,
        metadata: object = None,
        key: str | None = None,
    ) -> Outcome:
        """Start an invocation and wait until it is at rest."""

        async def run() -> Outcome:
            return await self._runtime.run(
                agent, goal, principal=principal, budget=budget, metadata=metadata, key=key
            )

        return self._door.call(run)

    def start(
        self,
        agent: str,
        goal: str,
        *,
        principal: Principal | None = None,
        budget: Budget | None = None,
        metadata: object = None,
        key: str | None = None,
    ) -> str:
        """Start an invocation; it is durable when this returns."""

        async def start() -> str:
            run = await self._runtime.start(
                agent, goal, principal=principal, budget=budget, metadata=metadata, key=key
            )
            return run.id

        return self._door.call(start)

    def outcome(self, invocation_id: str) -> Outcome:
        """Wait until an invocation is at rest."""
        return self._door.call(self._runtime.outcome, invocation_id)

    def approve(
        self,
        invocation_id: str,
        digest: str,
        *,
        by: str,
        calls: Iterable[str] | None = None,
        edits: Mapping[str, JsonObject] | None = None,
    ) -> str:
        """Say yes to a proposal, or to some of its calls, also with other arguments."""

        async def approve() -> str:
            run = await self._runtime.approve(
                invocation_id, digest, by=by, calls=calls, edits=edits
            )
            return run.id

        return self._door.call(approve)

    def deny(
        self,
        invocation_id: str,
        digest: str,
        *,
        by: str,
        reason: str = "",
        calls: Iterable[str] | None = None,
    ) -> str:
        """Say no to a proposal, or to some of its calls."""

        async def deny() -> str:
            run = await self._runtime.deny(invocation_id, digest, by=by, reason=reason, calls=calls)
            return run.id

        return self._door.call(deny)

    def answer_approval(
        self,
        invocation_id: str,
        digest: str,
        answers: Mapping[str, bool],
        *,
        by: str,
        reason: str = "",
    ) -> str:
        """Answer call by call."""

        async def answer() -> str:
            run = await self._runtime.answer_approval(
                invocation_id, digest, answers, by=by, reason=reason
            )
            return run.id

        return self._door.call(answer)

    def answer(self, invocation_id: str, text: str, *, by: str) -> str:
        """Answer the model's question."""

        async def answer() -> str:
            run = await self._runtime.answer(invocation_id, text, by=by)
            return run.id

        return self._door.call(answer)

    def decide(self, invocation_id: str, decision: object, *, by: str) -> str:
        """Take one step in the model's place; see `Runtime.decide`."""

        async def decide() -> str:
            run = await self._runtime.decide(invocation_id, decision, by=by)
            return run.id

        return self._door.call(decide)

    def inbox(self, *, agent: str | None = None, limit: int = 100) -> tuple[Waiting, ...]:
        """List what waits for a person, newest invocations first."""

        async def inbox() -> tuple[Waiting, ...]:
            return await self._runtime.inbox(agent=agent, limit=limit)

        return self._door.call(inbox)

    def settle(
        self,
        invocation_id: str,
        call_id: str,
        found: Reconciled,
        *,
        by: str,
        turn: int | None = None,
    ) -> str:
        """Say what became of a write whose outcome is unknown."""

        async def settle() -> str:
            run = await self._runtime.settle(invocation_id, call_id, found, by=by, turn=turn)
            return run.id

        return self._door.call(settle)

    def cancel(
        self, invocation_id: str, reason: str = "", *, by: str = "caller", hard: bool = False
    ) -> Outcome:
        """Cancel an invocation, wherever it is, and wait for its end."""

        async def cancel() -> Outcome:
            return await self._runtime.cancel(invocation_id, reason, by=by, hard=hard)

        return self._door.call(cancel)

    def resume(
        self, invocation_id: str, *, grant: Budget | None = None, by: str = "caller"
    ) -> Outcome:
        """Let an invocation go on and wait until it is at rest."""

        async def resume() -> Outcome:
            return await self._runtime.resume(invocation_id, grant=grant, by=by)

        return self._door.call(resume)

    def recover(self) -> list[str]:
        """Take over every running invocation whose owner is gone; they go on meanwhile.

        Returns:
            The ids of what was taken over; `outcome` waits for one of them.
        """

        async def recover() -> list[str]:
            return [run.id for run in (await self._runtime.recover()).runs]

        return self._door.call(recover)

    def state(self, invocation_id: str) -> InvocationState:
        """Read an invocation back from its journal."""
        return self._door.call(self._runtime.state, invocation_id)

    def invocations(
        self, *, status: Status | None = None, agent: str | None = None
    ) -> list[Summary]:
        """List all invocations, newest first."""

        async def invocations() -> list[Summary]:
            return await self._runtime.invocations(status=status, agent=agent)

        return self._door.call(invocations)

    def effects(
        self,
        *,
        invocation_id: str | None = None,
        effect_key: str | None = None,
        tool: str | None = None,
        statuses: Sequence[EffectStatus] | None = None,
    ) -> list[EffectFact]:
        """Query the effect ledger over all invocations, last announced first."""

        async def effects() -> list[EffectFact]:
            return await self._runtime.effects(
                invocation_id=invocation_id,
                effect_key=effect_key,
                tool=tool,
                statuses=statuses,
            )

        return self._door.call(effects)

    @property
    def _door(self) -> BlockingPortal:
        if self._portal is None:
            raise RuntimeClosedError("the runtime is not entered; use `with SyncRuntime(...):`")
        return self._portal
