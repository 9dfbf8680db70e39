"""What a caller gets when an invocation is at rest."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ._budget import Budget, Spent, Usage
from ._effects import EffectEntry
from ._evidence import Ask
from ._history import History
from ._ids import CallId, InvocationId, ProposalDigest
from ._json import JsonValue
from ._reasons import Reason


@dataclass(frozen=True, slots=True)
class ApprovalProposal:
    """What a human has to decide: these calls, exactly so, under this digest."""

    digest: ProposalDigest
    asks: tuple[Ask, ...]
    answered: tuple[CallId, ...] = ()
    """Calls that already have an answer."""
    expires_at: float | None = None
    """Wall clock, seconds since the epoch; an answer after that comes too late."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call of the unfinished turn that has no result."""

    call_id: CallId
    tool_name: str
    dispatched: bool


@dataclass(frozen=True, slots=True)
class Partial:
    """What an invocation that did not complete leaves behind."""

    turns: int
    """Committed turns."""
    commentary: str
    """The last text the model wrote beside its calls."""
    open_calls: tuple[OpenCall, ...]
    effects: tuple[EffectEntry, ...]
    """Every write that was dispatched, and what is known of it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an invocation came to rest."""

    invocation_id: InvocationId
    reason: Reason
    answer: str
    output: JsonValue
    partial: Partial | None
    """Filled for every reason but `completed`."""
    spent: Spent
    budget: Budget
    """The limits in force, grants included."""
    proposal: ApprovalProposal | None
    question: str
    cause: str | None
    """What went wrong, one sentence."""
    effects: tuple[EffectEntry, ...]
    """Every write that was dispatched, and what is known of it."""
    history: History
    state_version: int
    """Seq of the last durable record."""
    agent: str = ""
    """Whose turn it is, or was: the last one it was handed to."""
    waits_for: tuple[InvocationId, ...] = ()
    """Children that wait for somebody, where it is suspended only because of them."""

    @property
    def steps(self) -> int:
        """Decisions the model made."""
        return self.spent.steps

    @property
    def tool_calls(self) -> int:
        """Calls that were dispatched."""
        return self.spent.tool_calls

    @property
    def usage(self) -> Usage:
        """Tokens used."""
        return self.spent.usage

    @property
    def cost(self) -> Decimal:
        """US dollars spent, at the prices the journal holds."""
        return self.spent.cost

    @property
    def unresolved_effects(self) -> tuple[EffectEntry, ...]:
        """Dispatched writes of which it is not known whether they took effect.

        What was put into the outbox is the relay's: the store's ledger says what became of it.
        """
        return tuple(e for e in self.effects if e.status in ("dispatched", "outcome_unknown"))

    @property
    def completed(self) -> bool:
        """Whether there is an answer."""
        return self.reason is Reason.COMPLETED
