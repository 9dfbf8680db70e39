"""The policy of an agent: one frozen value that says what is allowed and how much is forgiven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from loopwright.protocol import ConfigurationError

from ._authorization import Access, Judgement, Predicate, Rule, judge
from ._progress import DEFAULT_PROGRESS, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What an agent may do, and how much is forgiven before an invocation ends.

    Raises:
        ConfigurationError: For a number that cannot be meant.
    """

    version: str = "1"
    """Part of every proposal digest: an approval does not outlive the policy it was given under."""
    deny: Sequence[Predicate] = ()
    """A call for which any of these holds is denied."""
    rules: Sequence[Rule] = ()
    """Asked in order; the first that does not return `None` decides."""
    ask: Sequence[Predicate] = ()
    """A call for which any of these holds waits for a human."""
    default_deny: bool = False
    """Deny what no rule allows."""
    max_repairs: int = 1
    """Unusable decisions in a row that the model may repair."""
    max_faulty_turns: int = 3
    """Turns in a row with any fault, after which the decision counts as invalid; 0 forgives none
    and runs nothing of a faulty batch."""
    max_attempts: int = 5
    """How often one write may be dispatched in all without a person's word: again under the same
    effect key where the downstream deduplicates, or once it has said that nothing was applied."""
    progress: Progress = DEFAULT_PROGRESS
    cancel_grace: float = 5.0
    """Seconds writes in flight get to report once the invocation is to stop."""
    approval_grace: float = 0.0
    """Seconds an invocation stays in memory for an answer before it is suspended."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("max_repairs", "max_faulty_turns", "cancel_grace", "approval_grace"):
            value: object = getattr(self, name)
            kind = int if name.startswith("max_") else (int, float)
            if not isinstance(value, kind) or not 0 <= value < inf:
                msg = f"Policy.{name} is {value!r}; give a number that is not negative"
                raise ConfigurationError(msg)
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            msg = f"Policy.max_attempts is {self.max_attempts!r}; give at least 1"
            raise ConfigurationError(msg)
        for name in ("deny", "rules", "ask"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @classmethod
    def strict(cls) -> Policy:
        """Forgive nothing: the behaviour of the reference controller in the seed documents."""
        return cls(max_repairs=0, max_faulty_turns=0, progress=Progress.exact(1))

    @property
    def allows_everything(self) -> bool:
        """Whether there is nothing to ask: no rule, and no denial by default."""
        return not (self.deny or self.rules or self.ask or self.default_deny)

    def judge(self, access: Access) -> Judgement:
        """Decide on one call."""
        return judge(
            access,
            deny=self.deny,
            ask=self.ask,
            rules=self.rules,
            default_deny=self.default_deny,
        )
