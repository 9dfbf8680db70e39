"""Why an invocation stopped: a closed list, each member with what it means for the caller."""

from __future__ import annotations

from enum import Enum
from typing import Self

from ._words import Word


class Ending(Word):
    """The four ways an invocation can be at rest."""

    FINISHED = "finished"
    SUSPENDED = "suspended"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(Enum):
    """Why an invocation stopped or is waiting.

    The value is the stable name that is stored and shown.
    """

    outcome: Ending
    """Which of the four kinds of rest this is."""
    resumable: bool
    """Whether the same invocation can go on: after an answer, a grant or a repair."""
    advice: str
    """What a caller usually does next, one sentence."""

    def __new__(cls, value: str, outcome: Ending, resumable: bool, advice: str) -> Self:
        """Make a member whose value is its name alone."""
        member = object.__new__(cls)
        member._value_ = value
        member.outcome = outcome
        member.resumable = resumable
        member.advice = advice
        return member

    def __str__(self) -> str:
        """Return the stable name."""
        return str(self.value)

    COMPLETED = ("completed", Ending.FINISHED, False, "Use the answer.")
    APPROVAL_REQUIRED = (
        "approval_required",
        Ending.SUSPENDED,
        True,
        "Show the exact proposal to a human, then approve or deny its digest.",
    )
    CLARIFICATION_REQUIRED = (
        "clarification_required",
        Ending.SUSPENDED,
        True,
        "Put the question to the user and hand the answer in.",
    )
    RECONCILIATION_REQUIRED = (
        "reconciliation_required",
        Ending.SUSPENDED,
        True,
        "Find out whether the unresolved effects took place, then settle each of their calls.",
    )
    CANCELLED = (
        "cancelled",
        Ending.CANCELLED,
        False,
        "Nothing more will start; look at the effects that stand.",
    )
    DEADLINE_EXCEEDED = (
        "deadline_exceeded",
        Ending.FAILED,
        False,
        "Start again with a later deadline if the result is still wanted.",
    )
    MAX_STEPS = (
        "max_steps",
        Ending.FAILED,
        True,
        "Look at the trace; narrow the goal, or resume with a grant of steps.",
    )
    TOOL_BUDGET_EXHAUSTED = (
        "tool_budget_exhausted",
        Ending.FAILED,
        True,
        "Resume with a grant of tool calls if the trace shows they are needed.",
    )
    TOKEN_BUDGET_EXHAUSTED = (
        "token_budget_exhausted",
        Ending.FAILED,
        True,
        "Resume with a grant of tokens, or shorten the context.",
    )
    COST_BUDGET_EXHAUSTED = (
        "cost_budget_exhausted",
        Ending.FAILED,
        True,
        "Resume with a grant of cost, or let a cheaper model finish.",
    )
    TOOL_FAILURES_EXHAUSTED = (
        "tool_failures_exhausted",
        Ending.FAILED,
        True,
        "Look at what fails; repair it, then resume with a grant of failures.",
    )
    TOOL_UNAVAILABLE = (
        "tool_unavailable",
        Ending.FAILED,
        True,
        "Resume once the service behind the tool works again.",
    )
    TIME_BUDGET_EXHAUSTED = (
        "time_budget_exhausted",
        Ending.FAILED,
        True,
        "Resume with a grant of active seconds.",
    )
    NO_PROGRESS = (
        "no_progress",
        Ending.FAILED,
        False,
        "Replan or escalate: the same plan keeps giving the same results.",
    )
    POLICY_DENIED = (
        "policy_denied",
        Ending.FAILED,
        False,
        "The model keeps proposing what it may not do; narrow the goal, or change the policy.",
    )
    VERIFICATION_FAILED = (
        "verification_failed",
        Ending.FAILED,
        False,
        "The answers did not stand up to the verifiers; their verdicts say why.",
    )
    HANDOFF_LIMIT = (
        "handoff_limit",
        Ending.FAILED,
        False,
        "Agents keep handing it on; look at their progress notes, or give an escape agent.",
    )
    TERMINATED = (
        "terminated",
        Ending.FAILED,
        True,
        "A stop condition of the policy held: use what was done so far, or resume under another.",
    )
    INVALID_DECISION = (
        "invalid_decision",
        Ending.FAILED,
        False,
        "Read the faults in the trace; fix the prompt, the tool schemas or the adapter.",
    )
    CANNOT_CONTINUE = (
        "cannot_continue",
        Ending.FAILED,
        False,
        "The model gave up; its code and reason are the cause.",
    )
    MODEL_REFUSED = (
        "model_refused",
        Ending.FAILED,
        False,
        "The provider refuses this content; nothing of it is tried again.",
    )
    MODEL_ERROR = (
        "model_error",
        Ending.FAILED,
        True,
        "Read the cause, and resume once it is put right or the provider works again.",
    )
    CHECKPOINT_FAILED = (
        "checkpoint_failed",
        Ending.FAILED,
        True,
        "Repair the store, check what was dispatched, then resume.",
    )
    LEASE_LOST = (
        "lease_lost",
        Ending.FAILED,
        True,
        "Another worker has taken over and goes on; watch the invocation there.",
    )
    INTERNAL_ERROR = (
        "internal_error",
        Ending.FAILED,
        True,
        "Report the cause; resume goes on from the last commit.",
    )
