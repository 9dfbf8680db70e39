"""The ChildExecutor: one per agent that is used as a tool. It runs calls as child invocations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from loopwright.protocol import (
    AttemptId,
    ChildRested,
    ChildStand,
    ConfigurationError,
    Ending,
    ErrorCategory,
    Execute,
    Found,
    Input,
    Interrupt,
    InvocationId,
    InvocationStateError,
    Lease,
    NotDispatched,
    Outcome,
    Reason,
    Reconcile,
    ResultStatus,
    RuntimeClosedError,
    ToolError,
    ToolResult,
    not_applied,
)

from .._work import Work, described
from ..definitions._child_tool import ChildTool
from ..kernel import ActorRef, Request
from ._service import Service, answer

_Key: TypeAlias = tuple[InvocationId, int, AttemptId]


class Family(Protocol):
    """Starts, finds, follows and cancels children."""

    async def find(self, agent: str, key: str) -> InvocationId | None:
        """Find the child of a call."""
        ...

    async def start(self, tool: ChildTool, order: Execute) -> InvocationId:
        """Start the child of a call."""
        ...

    async def rest(self, child: InvocationId) -> Outcome:
        """Wait until it is at rest."""
        ...

    async def cancel(self, child: InvocationId, reason: str) -> None:
        """Have it stopped."""
        ...


class _Call:
    """A call that is followed."""

    def __init__(self, order: Execute | Reconcile, reply_to: ActorRef[Any]) -> None:
        self.order = order
        self.reply_to = reply_to
        self.task: asyncio.Task[None] | None = None
        self.child: InvocationId | None = None
        self.stop = isinstance(order, Reconcile) and order.stop

    @property
    def key(self) -> _Key:
        """What it is found by."""
        return self.order.invocation_id, self.order.turn, self.order.attempt_id


class ChildExecutor(Service[Execute | Interrupt | Reconcile]):
    """Starts the child of a call and tells how it stands at rest.

    A child outlives its call: a parent that goes on elsewhere finds it again by its effect key.

    Args:
        tool: Which agent the children are of; `None` for one that only follows what is known.
        family: Runs them.
        holds: Whether a lease is safely held at this moment; nothing is started without.
    """

    def __init__(
        self, tool: ChildTool | None, family: Family, holds: Callable[[Lease], bool]
    ) -> None:
        super().__init__()
        self._tool = tool
        self._family = family
        self._holds = holds
        self._calls: dict[_Key, _Call] = {}
        self._work = Work()

    def serve(self, request: Request[Execute | Interrupt | Reconcile]) -> None:
        """Start a child, look after one, or have one stopped."""
        order = request.message
        if isinstance(order, Interrupt):
            self._interrupt(order)
            return
        if isinstance(order, Execute) and not self._holds(order.lease):
            text = f"the lease of worker {order.lease.worker} is no longer safely held"
            answer(request.reply_to, NotDispatched(order.turn, order.attempt_id, text))
            return
        call = _Call(order, request.reply_to)
        self._calls[call.key] = call
        call.task = self._work.start(self._follow(call), request.context)

    async def post_stop(self) -> None:
        """Follow no longer; the children themselves are the runtime's."""
        await self._work.close()

    def _interrupt(self, order: Interrupt) -> None:
        call = self._calls.get((order.invocation_id, order.turn, order.attempt_id))
        if call is None:
            return
        if order.detach:
            if call.task is not None:
                self._work.interrupt(call.task)
            self._answer(call, self._unknown(call, "its parent goes on elsewhere"))
        elif not call.stop:
            call.stop = True
            if call.child is not None:
                self._work.start(self._cancel(call.child), None)

    async def _follow(self, call: _Call) -> None:
        try:
            self._answer(call, await self._stand(call))
        except RuntimeClosedError:
            # Whoever recovers the parent follows the child on.
            return
        except Exception as error:  # noqa: BLE001 - a store is foreign code, and a call gets an answer
            self._answer(call, self._unknown(call, described(error)))
        finally:
            if call.task is not None:
                self._work.ended(call.task)

    async def _stand(self, call: _Call) -> Input:
        order, tool = call.order, self._tool
        if isinstance(order, Execute):
            assert tool is not None
            try:
                call.child = await self._family.start(tool, order)
            except (ConfigurationError, InvocationStateError) as error:
                # Refused before anything was stored; any other failure leaves that open.
                return ChildRested(order.turn, order.attempt_id, _never(order, error))
        elif order.child is not None:
            call.child = order.child
        elif tool is not None:
            call.child = await self._family.find(tool.agent, str(order.effect_key))
        if call.child is None:
            return Found(order.turn, order.attempt_id, not_applied())
        if call.stop:
            await self._family.cancel(call.child, "its parent was stopped")
        outcome = await self._family.rest(call.child)
        if call.stop and outcome.reason.outcome is Ending.SUSPENDED:
            await self._family.cancel(call.child, "its parent was stopped")
            outcome = await self._family.rest(call.child)
        return ChildRested(order.turn, order.attempt_id, _result(order, outcome))

    async def _cancel(self, child: InvocationId) -> None:
        try:
            await self._family.cancel(child, "its parent was stopped")
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._work.ended(task)

    def _unknown(self, call: _Call, why: str) -> Input:
        order = call.order
        error = ToolError(ErrorCategory.INTERNAL, "OutcomeUnknown", f"{why}; see the child itself")
        result = _bare(order, ResultStatus.OUTCOME_UNKNOWN, error)
        return ChildRested(order.turn, order.attempt_id, result)

    def _answer(self, call: _Call, said: Input) -> None:
        if self._calls.get(call.key) is call:
            del self._calls[call.key]
            answer(call.reply_to, said)


def _bare(
    order: Execute | Reconcile, status: ResultStatus, error: ToolError | None = None
) -> ToolResult:
    return ToolResult(order.call_id, order.tool_name, status, error=error)


def _never(order: Execute, error: Exception) -> ToolResult:
    failure = ToolError(ErrorCategory.PERMANENT, type(error).__name__, str(error))
    return _bare(order, ResultStatus.NOT_STARTED, failure)


def _result(order: Execute | Reconcile, outcome: Outcome) -> ToolResult:
    """Say in the parent how a child stands: its typed reason, its answer, and what it has used."""
    reason, spent = outcome.reason, outcome.spent
    stand = ChildStand(outcome.invocation_id, reason, spent.tool_calls, spent.usage, outcome.cost)
    output = outcome.answer if outcome.output is None else outcome.output
    text = outcome.cause or reason.advice
    error = ToolError(_category(reason), str(reason), f"the child ended with {reason}: {text}")
    match reason.outcome:
        case Ending.SUSPENDED:
            status = ResultStatus.OUTCOME_UNKNOWN
            error = ToolError(ErrorCategory.INTERNAL, str(reason), f"the child waits: {reason}")
        case Ending.CANCELLED:
            status = ResultStatus.CANCELLED
        case Ending.FINISHED:
            status = ResultStatus.OK
        case Ending.FAILED:
            status = ResultStatus.ERROR
    return ToolResult(
        order.call_id,
        order.tool_name,
        status,
        output if status is ResultStatus.OK else None,
        None if status is ResultStatus.OK else error,
        child=stand,
    )


def _category(reason: Reason) -> ErrorCategory:
    match reason:
        case Reason.POLICY_DENIED:
            return ErrorCategory.PERMISSION
        case Reason.MODEL_ERROR | Reason.CHECKPOINT_FAILED | Reason.CANCELLED:
            return ErrorCategory.TRANSIENT
        case Reason.TOOL_UNAVAILABLE:
            return ErrorCategory.UNAVAILABLE
        case Reason.INTERNAL_ERROR:
            return ErrorCategory.INTERNAL
        case _:
            return ErrorCategory.PERMANENT
