"""One call on its way to a plan, and why it may not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loopwright.policy import Footprint, stages
from loopwright.protocol import (
    EXPIRED,
    AnyCall,
    Effect,
    ErrorCategory,
    JsonObject,
    Plan,
    PlannedCall,
    ResultStatus,
    ToolCall,
    ToolError,
    ToolResult,
    Validate,
    Verdict,
    bounded,
    canonical,
)

BROKEN: Final = ToolError(
    ErrorCategory.INVALID_INPUT,
    "BrokenBatch",
    "not started, because another call of the batch was refused; propose it again",
)
MIXED: Final = ToolError(
    ErrorCategory.INVALID_INPUT,
    "MixedBatch",
    "not started, because it changes something and is not alone in its batch; propose it by itself",
)


@dataclass(slots=True)
class Judged:
    """One call, as far as it is judged."""

    planned: PlannedCall
    ask: str | None = None
    verdict: Verdict | None = None
    broken: str | None = None
    """What the model did wrong; a denial by a human is not that."""
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    proposed: JsonObject | None = None
    """The arguments as they were proposed; what is planned are those that would run."""

    @property
    def runs(self) -> bool:
        """Whether it may run, as far as is known."""
        return self.planned.refused is None

    def refuse(self, status: ResultStatus, error: ToolError) -> None:
        """Not run it, and not ask anybody about it."""
        planned = self.planned
        # Whoever spells out a default has proposed the same: it is kept what was denied.
        meant = planned.arguments if status is ResultStatus.DENIED else None
        if meant is not None and self.proposed is not None:
            # By what is written: 1 and 1.0 are equal, and two texts.
            meant = None if canonical(meant) == canonical(self.proposed) else meant
        result = ToolResult(
            planned.call_id, planned.tool_name, status, error=error, arguments=meant
        )
        self.planned = PlannedCall(
            planned.call_id, planned.tool_name, planned.effect, planned.arguments, refused=result
        )
        self.ask = None


def refused(
    call: AnyCall,
    status: ResultStatus,
    error: ToolError,
    effect: Effect = Effect.READ,
    arguments: JsonObject | None = None,
) -> Judged:
    """Refuse a call for what is not the model's fault.

    Args:
        call: The call.
        status: How it ends.
        error: Why.
        effect: Of its tool.
        arguments: As it would run; by default as it was proposed.
    """
    given = call.arguments if isinstance(call, ToolCall) else {}
    planned = PlannedCall(
        call.call_id, bounded(call.tool_name), effect, given if arguments is None else arguments
    )
    judged = Judged(planned, proposed=given)
    judged.refuse(status, error)
    return judged


def at_fault(
    call: AnyCall,
    status: ResultStatus,
    kind: str,
    text: str,
    effect: Effect = Effect.READ,
    arguments: JsonObject | None = None,
) -> Judged:
    """Refuse a call that the model should not have proposed; the writes beside it don't start."""
    category = (
        ErrorCategory.PERMISSION if status is ResultStatus.DENIED else ErrorCategory.INVALID_INPUT
    )
    judged = refused(call, status, ToolError(category, kind, text), effect, arguments)
    judged.broken = f"call {bounded(call.call_id)!r}: {text}"
    return judged


def withhold_writes(batch: list[Judged], error: ToolError) -> None:
    """Start no write of a batch that is at fault: the model did not mean what it said."""
    for judged in batch:
        if judged.runs and judged.planned.effect.is_write:
            judged.refuse(ResultStatus.NOT_STARTED, error)


def is_mixed(batch: list[Judged]) -> bool:
    """Whether a write is to run beside anything else."""
    runnable = [judged for judged in batch if judged.runs]
    return len(runnable) > 1 and any(judged.planned.effect.is_write for judged in runnable)


def take_refusal(judged: Judged, request: Validate) -> None:
    """Not run a call to which a human has said no, or nobody anything in time.

    That holds for the model's proposal whatever has changed since: only a yes is void then.
    """
    if not judged.runs:
        return
    call_id = judged.planned.call_id
    why = dict(request.denied).get(call_id)
    if why is not None:
        kind, text = "DeniedByHuman", f"denied by {why}"
    elif call_id in request.expired:
        kind = EXPIRED
        text = "nobody has answered for it in time, so it did not run; that is no human's no"
    else:
        return
    judged.refuse(ResultStatus.DENIED, ToolError(ErrorCategory.PERMISSION, kind, text))


def plan_of(batch: list[Judged], fault: str | None, *, serial: bool) -> Plan:
    """Order what may run."""
    calls: list[PlannedCall] = []
    verdicts: list[Verdict] = []
    runnable: list[int] = []
    writes = False
    for index, judged in enumerate(batch):
        call = judged.planned
        calls.append(call)
        if judged.verdict is not None:
            verdicts.append(judged.verdict)
        if call.refused is None:
            runnable.append(index)
            writes = writes or call.effect is not Effect.READ
    if writes:
        order = stages([_footprint(index, batch[index]) for index in runnable], serial=serial)
    else:
        # Most batches: reads wait for nothing.
        order = (tuple(runnable),) if runnable else ()
    return Plan(tuple(calls), order, tuple(verdicts), fault)


def _footprint(index: int, judged: Judged) -> Footprint:
    return Footprint(index, judged.planned.effect, judged.reads, judged.writes)
