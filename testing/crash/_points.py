"""Where a process can die: the durable boundaries of an invocation, by name."""

from __future__ import annotations

from enum import StrEnum


class CrashPoint(StrEnum):
    """A moment at which a life can be killed.

    K is for the crash matrix, in the order in which an invocation passes its points; R is for
    reconciling a write whose outcome is unknown. One append can pass several points at once: a
    fast turn, for one, is committed whole.
    """

    K0 = "K0"
    """Before `InvocationStarted` is appended: there is nothing yet."""
    K1 = "K1"
    """`InvocationStarted` is durable; the model has not been asked."""
    K2 = "K2"
    """The model has replied, and nothing of its turn is durable."""
    K3 = "K3"
    """`TurnProposed` is durable; no write of the turn has begun.

    Where the turn begins with a write, its `CallDispatched` is in the same append.
    """
    K4 = "K4"
    """The body of a read has returned, and nobody has heard of it."""
    K5 = "K5"
    """A write is dispatched, durably; its body has not begun."""
    K6 = "K6"
    """The body of a write has returned, and nothing of that is durable."""
    K7 = "K7"
    """`CallCompleted` is durable, `TurnCommitted` is not."""
    K8 = "K8"
    """`TurnCommitted` is durable, and the invocation goes on or is suspended."""
    K9 = "K9"
    """`ApprovalRequested` is durable: a person is waited for."""
    K10 = "K10"
    """`ApprovalDecided` is durable; nothing it allows has been dispatched because of it."""
    K11 = "K11"
    """A verifier has looked at the answer, which is durable; nothing of its verdict is."""
    K12 = "K12"
    """`CancelRequested` is durable, and the invocation is not over."""
    K13 = "K13"
    """`InvocationEnded` is durable; nobody has heard of it."""
    R0 = "R0"
    """A reconciler is about to be asked."""
    R1 = "R1"
    """A reconciler has answered, and nothing of that is durable."""
    R2 = "R2"
    """What a reconciler has found is durable."""
    R3 = "R3"
    """The suspension with `reconciliation_required` is durable: a person is waited for."""
    R4 = "R4"
    """What a person has said became of a write is durable."""

    @property
    def about_unknown(self) -> bool:
        """Whether there must be a write of unknown outcome for it to be reached."""
        return self.value.startswith("R")
