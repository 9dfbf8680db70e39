"""A script of one invocation: what a `*.script.yaml` file may say, as frozen types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from loopwright.policy import Policy, Progress, tool_named
from loopwright.protocol import (
    Budget,
    Effect,
    EffectStatus,
    ErrorCategory,
    JsonValue,
    RawDecision,
    Reason,
    ResultStatus,
    Usage,
)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def given(self) -> dict[str, Any]:
        """Return the fields that the script names."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class _OneOf(_Part):
    """A part that says exactly one of its fields."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"needs exactly one of {', '.join(type(self).model_fields)}")
        return self


# ---------------------------------------------------------------- who runs, and within what
class BudgetPart(_Part):
    """Limits; a deadline is given in seconds from the beginning of the script."""

    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_active_seconds: float | None = None
    soft_ratio: float = 0.8
    deadline: float | None = None

    def over(self, base: Budget, began: float) -> Budget:
        """Return `base` with what is named here; `began` is the wall clock at the beginning."""
        given = self.given()
        if self.deadline is not None:
            given["deadline"] = datetime.fromtimestamp(began + self.deadline, UTC)
        return replaced(base, **given)


class PolicyPart(_Part):
    """A policy; what is not named is as the agent has it."""

    strict: bool = False
    """Begin with `Policy.strict()`."""
    ask: tuple[str, ...] = ()
    """Tools whose calls wait for a human."""
    deny: tuple[str, ...] = ()
    """Tools whose calls are denied."""
    max_repairs: int = 0
    max_faulty_turns: int = 0
    max_repeats: int = 0
    results_must_repeat: bool = True
    cancel_grace: float = 0
    approval_grace: float = 0

    def over(self, base: Policy) -> Policy:
        """Return `base`, or the strict policy, with what is named here."""
        given = self.given()
        if given.pop("strict", False):
            base = Policy.strict()
        for rule in ("ask", "deny"):
            if rule in given:
                given[rule] = [tool_named(*given[rule])]
        progress = Progress(
            given.pop("max_repeats", base.progress.max_repeats),
            given.pop("results_must_repeat", base.progress.results_must_repeat),
        )
        return replaced(base, progress=progress, **given)


ParameterType: TypeAlias = Literal[
    "string", "integer", "number", "boolean", "object", "array", "any"
]


class ToolPart(_Part):
    """A fake tool: its body is what the script says at `execute`."""

    effect: Effect
    parameters: Mapping[str, ParameterType] = Field(default_factory=dict[str, ParameterType])
    timeout: float | None = None
    effect_key: str | None = None
    """For writes: a text with `{parameter}` in it, such as ``refund:{order}``."""


# ---------------------------------------------------------------- what the model says
class CallPart(_Part):
    """One call; arguments may be an object, a text as the model wrote it, or absent."""

    call_id: str
    tool_name: str
    arguments: JsonValue = None


class ApprovalPart(_Part):
    """Calls for which the model itself asks."""

    calls: tuple[CallPart, ...]
    reason: str


class FinalPart(_Part):
    """A final answer with a JSON value."""

    answer: str = ""
    output: JsonValue = None


class GivingUpPart(_Part):
    """Why the model cannot continue."""

    code: str
    reason: str


class DecisionPart(_OneOf):
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


class UsagePart(_Part):
    """What the reply reports."""

    input_tokens: int = 0
    output_tokens: int = 0

    def usage(self) -> Usage:
        """Return it as the runtime knows it."""
        return Usage(self.input_tokens, self.output_tokens)


class OkPart(_Part):
    """A result that is there, with this output."""

    ok: JsonValue


class RequestPart(_Part):
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
class DecideStep(_Part):
    """The model is asked, and says this."""

    decide: DecisionPart | Literal["hang"]
    usage: UsagePart | None = None
    request: RequestPart = RequestPart()


class ErrorPart(_Part):
    """How a tool fails."""

    category: ErrorCategory
    message: str
    retryable: bool = False


class ReplyPart(_OneOf):
    """How a tool returns."""

    ok: JsonValue = None
    error: ErrorPart | None = None


class ExecuteStep(_Part):
    """The body of this call has been started, and now returns."""

    execute: str
    arguments: Mapping[str, JsonValue] | None = None
    """Exactly what it must have been given."""
    reply: ReplyPart | Literal["hang"]


class AdvanceStep(_Part):
    """Time passes, seconds."""

    advance: float = Field(ge=0)


class ApproveStep(_Part):
    """A human says yes to all calls, or to some."""

    approve: Literal[True] | tuple[str, ...]
    by: str = "approver"


class DenyStep(_Part):
    """A human says no to all calls, or to some."""

    deny: Literal[True] | tuple[str, ...]
    by: str = "approver"
    reason: str = ""


class AnswerStep(_Part):
    """A human answers the model's question."""

    answer: str
    by: str = "user"


class CancelPart(_Part):
    """How to cancel."""

    hard: bool = False
    reason: str = ""
    by: str = "caller"


class CancelStep(_Part):
    """Somebody cancels."""

    cancel: CancelPart


class GrantStep(_Part):
    """A human lets a failed invocation go on, with this much more."""

    grant: BudgetPart
    by: str = "operator"


class FailCommitStep(_Part):
    """The next append to the store fails: once, or so that nobody tries again."""

    fail_commit: Literal["transient", "for_good"]


class Expectation(_Part):
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


class ExpectStep(_Part):
    """Look now."""

    expect: Expectation


VERBS: Final = (
    "decide",
    "execute",
    "advance",
    "approve",
    "deny",
    "answer",
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
    # No key of a step looks like this, so it can be told from the keys in the path of an error.
    return None if verb is None else f"<{verb}>"


Step: TypeAlias = Annotated[
    Annotated[DecideStep, Tag("<decide>")]
    | Annotated[ExecuteStep, Tag("<execute>")]
    | Annotated[AdvanceStep, Tag("<advance>")]
    | Annotated[ApproveStep, Tag("<approve>")]
    | Annotated[DenyStep, Tag("<deny>")]
    | Annotated[AnswerStep, Tag("<answer>")]
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


class ScriptDocument(_Part):
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
