"""Reflexion: feedback has its source, nobody's opinion of themselves is any, and it is bounded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loopwright import (
    Agent,
    Claim,
    ConfigurationError,
    Final,
    ModelReply,
    ModelRequest,
    Outcome,
    Reason,
    Runtime,
    ToolCall,
    ToolCalls,
    ToolFailure,
    Verification,
    failed,
    passed,
    tool,
)
from loopwright.examples.patterns import Attempt, Feedback, Reflexion, Trial, reflexion_agent
from loopwright.examples.patterns.stories import REFLEXION_GOAL, is_exact, mend, regex_agent
from loopwright.protocol import CallId, Decision

pytestmark = pytest.mark.anyio

REJECTED = "the answer does not stand up to"


@tool(effect="read")
async def measure(text: str) -> int:
    if text == "endless":
        raise ToolFailure("it has no end")
    return len(text)


@tool(effect="read")
async def gossip() -> str:
    return "everybody says it is fine"


class Scripted:
    """Tries what it is told, in turn, and keeps each trial."""

    def __init__(self, *decisions: Decision) -> None:
        self._decisions = iter(decisions)
        self.trials: list[Trial] = []

    async def __call__(self, trial: Trial) -> Decision:
        self.trials.append(trial)
        return next(self._decisions)


class Judge:
    """Lets one answer pass, and counts what it has looked at."""

    def __init__(self, wanted: str) -> None:
        self.__name__ = "judge"
        self._wanted = wanted
        self.claims: list[str] = []

    async def __call__(self, claim: Claim) -> Verification:
        self.claims.append(claim.answer)
        if claim.answer == self._wanted:
            return passed()
        return failed(f"{claim.answer}: wrong\nby far")


def calls(tool_name: str, commentary: str = "", **arguments: str) -> ToolCalls:
    return ToolCalls((ToolCall(CallId("c"), tool_name, {**arguments}),), commentary)


async def run(attempt: Attempt, judge: Judge, attempts: int = 3) -> Outcome:
    agent = reflexion_agent(
        "reflexion",
        attempt,
        verifiers=[judge],
        attempts=attempts,
        tools=[measure, gossip],
        evaluators=["measure"],
    )
    async with Runtime([agent]) as runtime:
        return await runtime.run(agent.name, "go")


async def test_feedback_says_who_said_what_of_what() -> None:
    attempt = Scripted(
        Final("one"), calls("measure", text="two"), calls("measure", text="endless"), Final("two")
    )
    outcome = await run(attempt, Judge("two"))
    assert outcome.completed
    assert attempt.trials[-1].feedback == (
        Feedback(1, "judge", "one", f"{REJECTED} judge: one: wrong\nby far"),
        Feedback(2, "measure", {"text": "two"}, "3"),
        Feedback(3, "measure", {"text": "endless"}, "it has no end"),
    )
    assert [trial.number for trial in attempt.trials] == [1, 2, 2, 2]


async def test_what_a_model_thinks_of_itself_is_no_feedback() -> None:
    """Nor is what a tool says that is no evaluator; and neither makes an answer count."""
    attempt = Scripted(
        Final("one"), calls("gossip", "It is much better now."), Final("better"), Final("two")
    )
    outcome = await run(attempt, Judge("two"))
    assert outcome.completed
    assert [each.source for each in attempt.trials[-1].feedback] == ["judge", "judge"]


@pytest.mark.parametrize("attempts", [1, 2])
async def test_attempts_are_bounded(attempts: int) -> None:
    judge = Judge("never")
    outcome = await run(Scripted(Final("1"), Final("2"), Final("3")), judge, attempts)
    assert outcome.reason is Reason.VERIFICATION_FAILED
    assert judge.claims == ["1", "2"][:attempts]


async def test_the_same_claim_again_is_refused_before_anybody_looks_at_it() -> None:
    """Once, it may be repaired; then the decision is invalid. It is no attempt."""
    judge = Judge("two")
    assert (await run(Scripted(Final("one"), Final("one"), Final("two")), judge)).completed
    assert judge.claims == ["one", "two"]

    judge, attempt = Judge("two"), Scripted(*[Final("one")] * 3)
    outcome = await run(attempt, judge)
    assert outcome.reason is Reason.INVALID_DECISION
    assert "it is the answer of turn 1, which was rejected" in str(outcome.cause)
    assert judge.claims == ["one"]
    assert [trial.number for trial in attempt.trials] == [1, 2, 2]


async def test_the_same_claim_counts_again_once_something_was_done() -> None:
    """What it is about may be another thing by then."""
    judge = Judge("never")
    again = Scripted(Final("one"), calls("measure", text="one"), Final("one"))
    assert (await run(again, judge, attempts=2)).reason is Reason.VERIFICATION_FAILED
    assert judge.claims == ["one", "one"]


async def test_everything_it_knows_is_committed() -> None:
    """A decider made anew for each decision tells the same story."""

    class Anew:
        async def decide(self, request: ModelRequest) -> ModelReply:
            return await Reflexion(mend, evaluators=["matches"]).decide(request)

    kept, anew = regex_agent(), regex_agent()
    anew.model = Anew()
    outcomes: list[Outcome] = []
    for agent in (kept, anew):
        async with Runtime([agent]) as runtime:
            outcomes.append(await runtime.run(agent.name, REFLEXION_GOAL))
    one, other = ([turn.proposal.decision for turn in outcome.history] for outcome in outcomes)
    assert outcomes[0].completed
    assert one == other


async def test_the_story_gets_it_right_at_the_third_attempt_and_not_before() -> None:
    async with Runtime([regex_agent(attempts=2)]) as runtime:
        outcome = await runtime.run("reflexion", REFLEXION_GOAL)
    assert outcome.reason is Reason.VERIFICATION_FAILED
    assert outcome.cause == "the answer does not stand up to is_exact: '29:00' must not match"


@pytest.mark.parametrize(
    ("verifiers", "attempts", "evaluators", "problem"),
    [
        ([], 3, [], "has nobody to tell it what was wrong; give it verifiers="),
        ([is_exact], 0, [], "has attempts=0; give at least 1"),
        ([is_exact], 3, ["gossip"], "has no tool 'gossip' to evaluate with; add it to tools="),
    ],
)
def test_what_cannot_learn_is_refused(
    verifiers: Sequence[Judge], attempts: int, evaluators: Sequence[str], problem: str
) -> None:
    def make() -> Agent:
        return reflexion_agent(
            "reflexion",
            mend,
            verifiers=verifiers,
            attempts=attempts,
            tools=[measure],
            evaluators=evaluators,
        )

    with pytest.raises(ConfigurationError, match="agent 'reflexion'") as refused:
        make()
    assert problem in str(refused.value)
