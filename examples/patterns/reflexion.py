"""Reflexion: try, be told what was wrong by somebody who can tell, and try again; a few times.

Feedback comes from verifiers and from tools that are named as evaluators, and from nothing else.
Each piece has its source, and says what it is about. That a model thinks its answer to be better
now is not among them: an answer counts once the verifiers have let it pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from loopwright import Agent, Budget, ConfigurationError, Final, ModelReply, ModelRequest, Policy
from loopwright.actors import AnyTool, AnyVerifier
from loopwright.protocol import (
    Decision,
    History,
    JsonValue,
    Malformed,
    ToolCall,
    Turn,
    calls_of,
    dumps,
    raw_text,
)


@dataclass(frozen=True, slots=True)
class Feedback:
    """What somebody who can tell has said of an attempt."""

    turn: int
    source: str
    """The verifier or the tool, by its name."""
    about: JsonValue
    """What it has judged: the claim, or the arguments of the call."""
    said: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt, with everything that was said of those before it."""

    request: ModelRequest
    number: int
    """From 1; the next one begins when an answer is rejected."""
    feedback: tuple[Feedback, ...]
    """In the order in which it was given."""


Attempt: TypeAlias = Callable[[Trial], Awaitable[Decision]]
"""What may ask a language model. It keeps nothing between two calls."""


class Reflexion:
    """Hands each attempt the feedback that is committed, and refuses to claim the same again.

    Args:
        attempt: Decides what to try.
        evaluators: Names of the tools whose results are feedback.
    """

    def __init__(self, attempt: Attempt, *, evaluators: Sequence[str] = ()) -> None:
        self._attempt = attempt
        self._evaluators = frozenset(evaluators)

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Try, or try again."""
        rejected = sum(_is_rejected(turn) for turn in request.history)
        feedback = tuple(feedback_of(request.history, self._evaluators))
        decision = await self._attempt(Trial(request, rejected + 1, feedback))
        return ModelReply(_unless_repeated(decision, request.history))


def reflexion_agent(
    name: str,
    attempt: Attempt,
    *,
    verifiers: Sequence[AnyVerifier],
    attempts: int = 3,
    tools: Sequence[AnyTool] = (),
    evaluators: Sequence[str] = (),
    policy: Policy | None = None,
    budget: Budget | None = None,
) -> Agent:
    """Make an agent that may give so many answers; the runtime does the counting.

    Raises:
        ConfigurationError: If nobody can tell a good answer from a bad one, there is no attempt, or
            an evaluator is no tool of it.
    """
    if not verifiers:
        msg = f"agent {name!r} has nobody to tell it what was wrong; give it verifiers="
        raise ConfigurationError(msg)
    if attempts < 1:
        msg = f"agent {name!r} has attempts={attempts}; give at least 1"
        raise ConfigurationError(msg)
    missing = sorted(set(evaluators) - {each.name for each in tools})
    if missing:
        msg = f"agent {name!r} has no tool {missing[0]!r} to evaluate with; add it to tools="
        raise ConfigurationError(msg)
    return Agent(
        name,
        model=Reflexion(attempt, evaluators=evaluators),
        tools=tools,
        verifiers=verifiers,
        policy=replace(policy or Policy(), max_verifications=attempts),
        budget=budget,
    )


def feedback_of(history: History, evaluators: frozenset[str]) -> Iterator[Feedback]:
    """Read from committed turns what was said of attempts, and by whom."""
    for turn in history:
        record = turn.record
        decision, fault = record.proposal.decision, record.fault
        if fault is not None and fault.level == "answer" and isinstance(decision, Final):
            yield Feedback(turn.number, fault.source, _claimed(decision), fault.problem)
        for call, result in zip(calls_of(decision), turn.results, strict=True):
            if call.tool_name in evaluators and isinstance(call, ToolCall):
                said = _text(result.output) if result.error is None else result.error.message
                yield Feedback(turn.number, call.tool_name, call.arguments, said)


def _unless_repeated(decision: Decision, history: History) -> Decision | Malformed:
    """Refuse a claim that was rejected and has had no work since: its verifiers have spoken."""
    last = next((t for t in reversed(history) if not isinstance(_decided(t), Malformed)), None)
    if last is None or not _is_rejected(last) or _decided(last) != decision:
        return decision
    problem = f"it is the answer of turn {last.number}, which was rejected; change it, or what it is about"
    return Malformed(problem, raw_text(repr(decision)))


def _decided(turn: Turn) -> Decision | Malformed:
    return turn.proposal.decision


def _is_rejected(turn: Turn) -> bool:
    fault = turn.fault
    return fault is not None and fault.level == "answer"


def _claimed(final: Final) -> JsonValue:
    return final.answer if final.output is None else final.output


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else dumps(value).decode()
