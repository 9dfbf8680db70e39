"""A script of one invocation: what a `*.script.yaml` file may say, as frozen types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, Discriminator, Field, Tag

from loopwright.protocol import (
    EffectStatus,
    ErrorCategory,
    JsonObject,
    JsonValue,
    RawDecision,
    Reason,
    Reconciled,
    ResultStatus,
    Usage,
    applied,
    not_applied,
    rejected,
    unknown,
)

from ._setting import BudgetPart, OneOf, Part, PolicyPart, ToolPart


# ---------------------------------------------------------------- what the model says
class CallPart(Part):
    """One call; arguments may be an object, a text as the model wrote it, or absent."""

    call_id: str
    tool_name: str
    arguments: JsonValue = None


class ApprovalPart(Part):
    """Calls for which the model itself asks."""

    calls: tuple[CallPart, ...]
    reason: str


class FinalPart(Part):
    """A final answer with a JSON value."""

    answer: str = ""
    output: JsonValue = None


class GivingUpPart(Part):
    """Why the model cannot continue."""

    code: str
    reason: str


class DecisionPart(OneOf):
    """A decision, the model's own text (`reply`), or an exception it raises (`error`)."""

    tool_calls: tuple[CallPart, ...] = ()
    final: str | FinalPart = ""
    clarification: str = ""
    cannot_continue: GivingUpPart | None = None
    request_approval: ApprovalPart | None = None
    reply: str = ""
    error: str = ""

    def decision(self) -> RawDecision:
        """Return what the model replies; `error` is no reply."""
        (kind,) = self.model_fields_set
        body: dict[str, Any]
        match getattr(self, kind):
            case str(text) if kind == "reply":
                return text
            case str(text):
                body = {"question" if kind == "clarification" else "answer": text}
            case ApprovalPart(calls=calls, reason=reason):
                body = {"calls": _plain(calls), "reason": reason}
            case FinalPart() | GivingUpPart() as part:
                body = part.given()
            case _:
                body = {"calls": _plain(self.tool_calls)}
        return {"kind": kind, **body}


def _plain(calls: tuple[CallPart, ...]) -> list[dict[str, Any]]:
    return [call.given() for call in calls]


class UsagePart(Part):
    """What the reply reports."""

    input_tokens: int = 0
    output_tokens: int = 0

    def usage(self) -> Usage:
        """Return it as the runtime knows it."""
        return Usage(self.input_tokens, self.output_tokens)


class OkPart(Part):
    """A result that is there, with this output."""

    ok: JsonValue


class RequestPart(Part):
    """What the model must have been shown."""

    notice: bool | None = None
    """Whether the runtime tells it something, such as the soft stop."""
    fault: bool | None = None
    """Whether its last turn was faulty."""
    answer: str | None = None
    """What a human answered to its last question."""
    results: Mapping[str, ResultStatus | OkPart] | None = None
    """All results of the last turn, by call id."""


# ---------------------------------------------------------------- the steps
class DecideStep(Part):
    """The model is asked, and says this."""

    decide: DecisionPart | Literal["hang"]
    usage: UsagePart | None = None
    request: RequestPart = RequestPart()


class ErrorPart(Part):
    """How a tool fails."""

    category: ErrorCategory
    message: str
    retryable: bool = False


class ReplyPart(OneOf):
    """How a tool returns."""

    ok: JsonValue = None
    error: ErrorPart | None = None


class ExecuteStep(Part):
    """The body of this call has been started, and now returns."""

    execute: str
    arguments: Mapping[str, JsonValue] | None = None
    """Exactly what it must have been given."""
    reply: ReplyPart | Literal["hang"]


class CrashStep(Part):
    """The body of this call has been started, and the process dies: only what is durable is left.

    The runtime cannot tell the two moments apart; what the downstream knows of it, a later
    `reconcile` or `execute` says.
    """

    execute: str
    arguments: Mapping[str, JsonValue] | None = None
    """Exactly what it must have been given."""
    crash: Literal["before_effect", "after_effect"]


class RecoverStep(Part):
    """A new process opens the store, takes over, and goes on."""

    recover: Literal[True] | None


class FoundPart(OneOf):
    """What became of a write: it took effect, with this receipt, or was refused, for this reason."""

    applied: JsonValue = None
    rejected: str = ""


FoundWord: TypeAlias = Literal["not_applied", "unknown"]


def finding(said: FoundPart | FoundWord) -> Reconciled:
    """Return it as the runtime knows it."""
    if said == "not_applied":
        return not_applied()
    if said == "unknown":
        return unknown()
    return rejected(said.rejected) if "rejected" in said.given() else applied(said.applied)


class ReconcileStep(Part):
    """The owner of the data is asked what became of the write of this call, and says this."""

    reconcile: str
    reply: FoundPart | FoundWord | Literal["hang"]


class SettleStep(Part):
    """A human says what became of the write of this call."""

    settle: str
    found: FoundPart | FoundWord
    by: str = "operator"
    turn: int | None = None
    """Which turn's, where turns share a call id."""


class AdvanceStep(Part):
    """Time passes, seconds."""

    advance: float = Field(ge=0)


class ApproveStep(Part):
    """A human says yes to all calls, or to some."""

    approve: Literal[True] | tuple[str, ...]
    by: str = "approver"
    edits: Mapping[str, JsonObject] = Field(default_factory=dict[str, JsonObject])
    """By call id: arguments with which it is to run instead."""


class DenyStep(Part):
    """A human says no to all calls, or to some."""

    deny: Literal[True] | tuple[str, ...]
    by: str = "approver"
    reason: str = ""


class AnswerStep(Part):
    """A human answers the model's question."""

    answer: str
    by: str = "user"


class CancelPart(Part):
    """How to cancel."""

    hard: bool = False
    reason: str = ""
    by: str = "caller"


class CancelStep(Part):
    """Somebody cancels."""

    cancel: CancelPart


class GrantStep(Part):
    """A human lets it go on, with this much more, or nothing: ``{}`` has reconcilers asked again."""

    grant: BudgetPart
    by: str = "operator"


class FailCommitStep(Part):
    """The next append to the store fails: once, or so that nobody tries again."""

    fail_commit: Literal["transient", "for_good"]


class Expectation(Part):
    """What must be durable, and how the invocation must rest; only what is named is looked at."""

    reason: Reason | None = None
    answer: str | None = None
    question: str | None = None
    steps: int | None = None
    tool_calls: int | None = None
    asks: tuple[str, ...] | None = None
    """Calls that wait for a human, in declared order."""
    results: Mapping[str, ResultStatus | tuple[ResultStatus, ...]] | None = None
    """All results of all turns, by call id; a list where turns share a call id."""
    effects: Mapping[str, EffectStatus] | None = None
    """All writes that were dispatched, by effect key."""


class ExpectStep(Part):
    """Look now."""

    expect: Expectation


VERBS: Final = (
    "decide",
    "execute",
    "reconcile",
    "recover",
    "advance",
    "approve",
    "deny",
    "answer",
    "settle",
    "cancel",
    "grant",
    "fail_commit",
    "expect",
)


def verb_of(step: object) -> str | None:
    """Name the one verb of a step; `None` if it has none, or two."""
    keys: list[str] = []
    if isinstance(step, Mapping):
        keys = [verb for verb in VERBS if verb in cast("Mapping[str, object]", step)]
    elif isinstance(step, BaseModel):
        keys = [verb for verb in VERBS if verb in type(step).model_fields]
    return keys[0] if len(keys) == 1 else None


def _tag(step: object) -> str | None:
    verb = verb_of(step)
    if isinstance(step, CrashStep) or (isinstance(step, Mapping) and "crash" in step):
        verb = "crash" if verb == "execute" else None
    # No key of a step looks like this, so it can be told from the keys in the path of an error.
    return None if verb is None else f"<{verb}>"


Step: TypeAlias = Annotated[
    Annotated[DecideStep, Tag("<decide>")]
    | Annotated[ExecuteStep, Tag("<execute>")]
    | Annotated[CrashStep, Tag("<crash>")]
    | Annotated[ReconcileStep, Tag("<reconcile>")]
    | Annotated[RecoverStep, Tag("<recover>")]
    | Annotated[AdvanceStep, Tag("<advance>")]
    | Annotated[ApproveStep, Tag("<approve>")]
    | Annotated[DenyStep, Tag("<deny>")]
    | Annotated[AnswerStep, Tag("<answer>")]
    | Annotated[SettleStep, Tag("<settle>")]
    | Annotated[CancelStep, Tag("<cancel>")]
    | Annotated[GrantStep, Tag("<grant>")]
    | Annotated[FailCommitStep, Tag("<fail_commit>")]
    | Annotated[ExpectStep, Tag("<expect>")],
    Discriminator(
        _tag,
        custom_error_type="verb",
        custom_error_message=f"a step needs exactly one of {', '.join(VERBS)}",
    ),
]


class ScriptDocument(Part):
    """A whole script."""

    agent: str
    goal: str
    budget: BudgetPart | None = None
    policy: PolicyPart | None = None
    tools: Mapping[str, ToolPart] | None = None
    """Fake tools; without them the agent is one of those handed to the player."""
    script: tuple[Step, ...]
    expect: Expectation | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed script, and where it came from."""

    name: str
    """Its file, or what its maker calls it."""
    document: ScriptDocument
    lines: tuple[int, ...] = ()
    """For a file: the line of each step, from 1."""

    def where(self, number: int) -> str:
        """Say where step `number` is, counting from 1; one more is the `expect` at the end."""
        steps = self.document.script
        place = f"step {number} ({verb_of(steps[number - 1])})" if number <= len(steps) else "end"
        line = f":{self.lines[number - 1]}" if number <= len(self.lines) else ""
        return f"{self.name}{line}: {place}"
