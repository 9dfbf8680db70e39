"""A life under watch: its store, models, tools, reconcilers and verifiers, with their points.

What is watched behaves as before: the same schemas, effect keys, timeouts and threads. At each
point the trap decides whether the process is killed, or a cancel is asked for.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, cast

from loopwright.actors import Agent, AnyTool, AnyVerifier, FallbackChain, Tool, ToolContext
from loopwright.protocol import (
    AnswerVerified,
    Append,
    ApprovalDecided,
    ApprovalRequested,
    CallCompleted,
    CancelRequested,
    Claim,
    Effect,
    EffectReconciled,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    JsonObject,
    Model,
    ModelReply,
    ModelRequest,
    Reason,
    Record,
    Suspended,
    TurnCommitted,
    TurnProposed,
    decode_record,
)
from loopwright.stores import AppendResult, Store

from .._wrapped_store import WrappedStore
from ._log import Body, Durable, Killed, Log, ModelAsked, VerifierAsked, digest_of
from ._points import CrashPoint

PERSON: Final = "crash kit"
"""In whose name the kit approves, answers, settles and cancels."""
_PATIENCE: Final = 2.0
"""Seconds a body waits for the cancel asked for in it to be durable."""
_MOMENT: Final = 0.001


class Trap:
    """Knows where to kill this process, and where to cancel.

    Args:
        life: The number of this life.
        log: Where it is written down.
        point: Where to kill; `None` lets it live.
        occurrence: At which time the point is reached, from 1.
        cancel_at: Where to ask for a cancel, the first time it is reached.
    """

    def __init__(
        self,
        life: int,
        log: Log,
        point: CrashPoint | None,
        occurrence: int,
        cancel_at: CrashPoint | None,
    ) -> None:
        self.life = life
        self.log = log
        self.invocation_id: InvocationId | None = None
        """The invocation of the case, once it is known."""
        self.cancel: Callable[[InvocationId], None] | None = None
        """Asks for a cancel, from any thread; set once there is a runtime."""
        self.replied: set[tuple[InvocationId, int]] = set()
        """Turns for which the model was asked in this life, and of which nothing is durable."""
        self.owed: set[tuple[InvocationId, int, str]] = set()
        """Replies and, by name, verdicts of verifiers, of this life, that are not durable yet."""
        self._point = point
        self._occurrence = occurrence
        self._cancel_at = cancel_at
        self._counts: Counter[CrashPoint] = Counter()
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._told = asyncio.Event()

    def reached(self, point: CrashPoint) -> bool:
        """Kill this process if this is the place; return whether a cancel was asked for here."""
        with self._lock:
            self._counts[point] += 1
            count = self._counts[point]
        if point is self._point and count == self._occurrence:
            self.log.write(Killed(self.life, point))
            os.kill(os.getpid(), signal.SIGKILL)
        if point is not self._cancel_at or count != 1 or self.cancel is None:
            return False
        if self.invocation_id is not None:
            self.cancel(self.invocation_id)
        return True

    def cancel_is_durable(self) -> None:
        """Let the bodies go on that have waited for it; called in the loop."""
        self._cancelled.set()
        self._told.set()

    async def until_cancelled(self) -> None:
        """Wait, in the loop, until the cancel that was asked for is durable."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._told.wait()

    def block_until_cancelled(self) -> None:
        """Wait, in a thread, until the cancel that was asked for is durable."""
        self._cancelled.wait(_PATIENCE)


class WatchedStore(WrappedStore):
    """A store with points before and after each append."""

    def __init__(self, inner: Store, trap: Trap) -> None:
        super().__init__(inner)
        self._trap = trap

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch; as there, if it comes to that."""
        records = [[decode_record(line) for line in append.lines] for append in batch]
        for append, those in zip(batch, records, strict=True):
            if self._trap.invocation_id is None:
                # Children have a later one.
                self._trap.invocation_id = append.invocation_id
            self._before(append.invocation_id, those)
        results = await self.inner.append(batch)
        for append, those, result in zip(batch, records, results, strict=True):
            if result is None:
                self._after(append, those)
        return results

    def _before(self, invocation_id: InvocationId, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, InvocationStarted):
                self._trap.reached(CrashPoint.K0)
            elif isinstance(record, TurnProposed | TurnCommitted):
                turn = invocation_id, record.turn
                if turn in self._trap.replied:
                    self._trap.replied.discard(turn)
                    self._trap.reached(CrashPoint.K2)

    def _after(self, append: Append, records: Sequence[Record]) -> None:
        trap, invocation_id = self._trap, append.invocation_id
        digest = digest_of(append.lines)
        trap.log.write(Durable(trap.life, invocation_id, append.first_seq, append.last_seq, digest))
        for record in records:
            if isinstance(record, TurnProposed | TurnCommitted):
                trap.owed.discard((invocation_id, record.turn, ""))
            elif isinstance(record, AnswerVerified):
                trap.owed.discard((invocation_id, record.turn, record.verifier))
        for point in dict.fromkeys(_points_behind(records)):
            trap.reached(point)
        # Last: a body in a thread must not get on with it in a process that is to be killed.
        if any(isinstance(record, CancelRequested) for record in records):
            trap.cancel_is_durable()


def _points_behind(records: Sequence[Record]) -> list[CrashPoint]:
    """Say which points have been reached once these records are durable together."""
    committed = any(isinstance(record, TurnCommitted) for record in records)
    over = any(isinstance(record, InvocationEnded) for record in records)
    found: list[CrashPoint] = []
    for record in records:
        match record:
            case InvocationStarted():
                found.append(CrashPoint.K1)
            case TurnProposed():
                found.append(CrashPoint.K3)
            case CallCompleted() if not committed:
                found.append(CrashPoint.K7)
            case TurnCommitted() if not over:
                found.append(CrashPoint.K8)
            case ApprovalRequested():
                found.append(CrashPoint.K9)
            case ApprovalDecided():
                found.append(CrashPoint.K10)
            case CancelRequested() if not over:
                found.append(CrashPoint.K12)
            case InvocationEnded():
                found.append(CrashPoint.K13)
            case EffectReconciled(by=by):
                found.append(CrashPoint.R4 if by == PERSON else CrashPoint.R2)
            case Suspended(reason=Reason.RECONCILIATION_REQUIRED):
                found.append(CrashPoint.R3)
            case _:
                pass
    return found


class _WatchedModel:
    """A model, and when it is asked; its price and its breaker go by its name."""

    def __init__(self, inner: Model, name: str, trap: Trap) -> None:
        self.name = name
        self._inner = inner
        self._trap = trap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def decide(self, request: ModelRequest) -> ModelReply:
        self._trap.log.write(ModelAsked(self._trap.life, request.invocation_id, request.turn))
        reply = await self._inner.decide(request)
        self._trap.replied.add((request.invocation_id, request.turn))
        self._trap.owed.add((request.invocation_id, request.turn, ""))
        return reply


class _WatchedTool(Tool[..., Any]):
    """A tool, with points around its body and its reconciler."""

    def __init__(self, real: AnyTool, trap: Trap) -> None:
        # Not calling Tool's: it reads a signature, and this tool keeps that of the real one.
        vars(self).update(vars(real))
        self._real = real
        self._trap = trap
        read = self.effect is Effect.READ
        self._entry = None if read else CrashPoint.K5
        self._exit = CrashPoint.K4 if read else CrashPoint.K6
        self.function = self._run if real.is_async else self._block
        if real.reconciler is not None:
            asks = inspect.iscoroutinefunction(real.reconciler)
            self.reconciler = self._ask if asks else self._block_asking

    def bind(self, arguments: JsonObject, context: Callable[[], ToolContext]) -> Mapping[str, Any]:
        return {"context": context(), "arguments": self._real.bind(arguments, context)}

    # ------------------------------------------------------------ the body
    async def _run(self, context: ToolContext, arguments: Mapping[str, Any]) -> object:
        if self._begin(context):
            await self._trap.until_cancelled()
        try:
            output: object = await self._real.function(**arguments)
        except BaseException:
            self._log("failed", context)
            raise
        return await self._return(context, output)

    def _block(self, context: ToolContext, arguments: Mapping[str, Any]) -> object:
        if self._begin(context):
            self._trap.block_until_cancelled()
        try:
            output: object = self._real.function(**arguments)
        except BaseException:
            self._log("failed", context)
            raise
        if inspect.isawaitable(output):
            return self._rest(context, output)
        self._log("returned", context)
        if self._trap.reached(self._exit):
            self._trap.block_until_cancelled()
        return output

    async def _rest(self, context: ToolContext, output: Any) -> object:
        """Wait for what a blocking body has left to be waited for."""
        try:
            output = await output
        except BaseException:
            self._log("failed", context)
            raise
        return await self._return(context, output)

    def _begin(self, context: ToolContext) -> bool:
        """Write down that the body begins; return whether to wait for a cancel."""
        if self._entry is None:
            self._log("began", context)
            return False
        # Before it is written down: who is killed here has not begun.
        waits = self._trap.reached(self._entry)
        self._log("began", context)
        return waits

    async def _return(self, context: ToolContext, output: object) -> object:
        self._log("returned", context)
        if self._trap.reached(self._exit):
            await self._trap.until_cancelled()
        return output

    def _log(self, step: Any, context: ToolContext) -> None:
        self._trap.log.write(
            Body(
                self._trap.life,
                step,
                context.invocation_id,
                context.turn,
                context.call_id,
                context.attempt,
                self.name,
                self.effect,
                context.effect_key,
                self.outbox,
            )
        )

    # ------------------------------------------------------------ the reconciler
    async def _ask(self, effect_key: str) -> object:
        self._trap.reached(CrashPoint.R0)
        found = await self._asked(effect_key)
        self._trap.reached(CrashPoint.R1)
        return found

    def _block_asking(self, effect_key: str) -> object:
        self._trap.reached(CrashPoint.R0)
        found = self._asked(effect_key)
        if not inspect.isawaitable(found):
            self._trap.reached(CrashPoint.R1)
        return found

    def _asked(self, effect_key: str) -> Any:
        assert self._real.reconciler is not None
        return self._real.reconciler(effect_key)


def _watched(model: Model | FallbackChain, trap: Trap) -> Model | FallbackChain:
    if not isinstance(model, FallbackChain):
        (endpoint,) = FallbackChain([model]).endpoints
        return _WatchedModel(model, endpoint.name, trap)
    ours = [_WatchedModel(endpoint.model, endpoint.name, trap) for endpoint in model.endpoints]
    last = ours.pop() if model.endpoints[-1].only_refused else None
    return FallbackChain(ours, on_refusal=last)


def _watched_verifier(real: AnyVerifier, name: str, trap: Trap) -> AnyVerifier:
    """Watch a verifier: it is asked once all that was said before it is durable."""

    def owes(claim: Claim) -> bool:
        return any(identity == claim.invocation_id for identity, _, _ in trap.owed)

    def begin(claim: Claim) -> None:
        turn = len(claim.history) + 1
        trap.log.write(VerifierAsked(trap.life, claim.invocation_id, turn, name))

    def said(claim: Claim, verdict: Any) -> Any:
        trap.reached(CrashPoint.K11)
        trap.owed.add((claim.invocation_id, len(claim.history) + 1, name))
        return verdict

    async def verify(claim: Claim) -> Any:
        until = time.monotonic() + _PATIENCE
        while owes(claim) and time.monotonic() < until:  # noqa: ASYNC110 - it is told in no one place
            await asyncio.sleep(_MOMENT)
        begin(claim)
        verdict: Any = real(claim)
        return said(claim, await verdict if inspect.isawaitable(verdict) else verdict)

    def block(claim: Claim) -> Any:
        until = time.monotonic() + _PATIENCE
        while owes(claim) and time.monotonic() < until:
            time.sleep(_MOMENT)
        begin(claim)
        return said(claim, real(claim))

    called = getattr(type(real), "__call__", None)  # noqa: B004 - not whether, but how
    asks = inspect.iscoroutinefunction(real) or inspect.iscoroutinefunction(called)
    watched: Any = verify if asks else block
    watched.__name__ = name
    if hasattr(real, "timeout"):
        watched.timeout = getattr(real, "timeout")  # noqa: B009 - a function need not have one
    return cast("AnyVerifier", watched)


def watch(agents: Sequence[Agent], trap: Trap) -> None:
    """Put agents under watch, for the rest of this process; a shared tool stays shared."""
    tools: dict[int, AnyTool] = {}
    for agent in agents:
        agent.model = _watched(agent.model, trap)
        if agent.finish_model is not None:
            agent.finish_model = _watched(agent.finish_model, trap)
        named = zip(agent.verifiers, agent.verifier_names, strict=True)
        agent.verifiers = tuple([_watched_verifier(real, name, trap) for real, name in named])
        for real in agent.tools.values():
            # What stands for a child runs no body of its own.
            tools.setdefault(id(real), real if real.child else _WatchedTool(real, trap))
        agent.tools = MappingProxyType(
            {name: tools[id(real)] for name, real in agent.tools.items()}
        )
