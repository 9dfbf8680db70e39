"""The policy of an agent: one frozen value that says what is allowed and how much is forgiven."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, cast

from loopwright.protocol import ConfigurationError

from ._context import DEFAULT_CONTEXT, Context
from .budgets._termination import Condition, is_condition
from .permission._approval import Approver
from .permission._authorization import Access, Judgement, Predicate, Rule, in_order, judge
from .progress._progress import DEFAULT_PROGRESS, Progress
from .resilience._retry import DEFAULT_BREAKER, DEFAULT_RETRY, Breaker, Retry

_COUNTS = ("max_repairs", "max_faulty_turns", "max_denials", "max_verifications")
_KINDS = {
    "retry": Retry,
    "tool_retry": Retry,
    "breaker": Breaker,
    "progress": Progress,
    "context": Context,
}
_WORDS = {"mixed_batch": ("graph", "serial", "reject"), "soft_stop": ("notice", "restrict")}


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
    rules: Sequence[Rule] | Rule = ()
    """Asked in order; the first that does not return `None` decides. One may stand for a list."""
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
    max_denials: int = 3
    """The call that is the n-th to be denied ends it with `policy_denied`."""
    max_verifications: int = 3
    """The answer that is the n-th to fail its verifiers ends it with `verification_failed`."""
    max_unavailable_turns: int = 3
    """Turns in a row in which all calls meet a service that is down; then `tool_unavailable`."""
    mixed_batch: Literal["graph", "serial", "reject"] = "graph"
    """How a batch with writes runs: what depends on nothing else at the same time; one call
    after the other; or not at all: the model has to order it."""
    soft_stop: Literal["notice", "restrict"] = "notice"
    """What happens near the end of a budget: the model is told, once; or it may also only use
    tools marked `finishing` from then on."""
    retry: Retry = DEFAULT_RETRY
    """Of model calls, each endpoint of a chain."""
    tool_retry: Retry = DEFAULT_RETRY
    """Of reads that fail with an error that is said to be retryable."""
    breaker: Breaker = DEFAULT_BREAKER
    """Of each model endpoint and each tool, shared by all invocations of a runtime."""
    progress: Progress = DEFAULT_PROGRESS
    stop: Condition | None = None
    """When to stop, beside the budget: looked at before each model call."""
    context: Context = DEFAULT_CONTEXT
    cancel_grace: float = 5.0
    """Seconds writes in flight get to report once the invocation is to stop."""
    approval_grace: float = 0.0
    """Seconds an invocation stays in memory for an answer before it is suspended."""
    approval_expires: float | None = None
    """Seconds after which a proposal nobody has answered for is refused."""
    may_approve: Callable[[Approver], bool] | None = None
    """Whose answers for a call count; without it everybody's. Only `True` is a yes."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in (*_COUNTS, "cancel_grace", "approval_grace", "approval_expires"):
            value: object = getattr(self, name)
            if value is None and name == "approval_expires":
                continue
            kind = int if name.startswith("max_") else (int, float)
            if not isinstance(value, kind) or not 0 <= value < inf:
                msg = f"Policy.{name} is {value!r}; give a number that is not negative"
                raise ConfigurationError(msg)
        for name in ("max_attempts", "max_unavailable_turns"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                msg = f"Policy.{name} is {value!r}; give at least 1"
                raise ConfigurationError(msg)
        for name, words in _WORDS.items():
            value = getattr(self, name)
            if value not in words:
                msg = f"Policy.{name} is {value!r}; give one of: {', '.join(words)}"
                raise ConfigurationError(msg)
        for name, made_by in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, made_by):
                msg = f"Policy.{name} is {value!r}; give a {made_by.__name__}"
                raise ConfigurationError(msg)
        if self.stop is not None and not is_condition(self.stop):
            msg = f"Policy.stop is {self.stop!r}; give a condition such as MaxSteps(8), or None"
            raise ConfigurationError(msg)
        for name in ("deny", "rules", "ask"):
            object.__setattr__(self, name, in_order(getattr(self, name), f"Policy.{name}"))
        if self.may_approve is not None:
            in_order((self.may_approve,), "Policy.may_approve")

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
            rules=cast("Sequence[Rule]", self.rules),
            default_deny=self.default_deny,
        )
