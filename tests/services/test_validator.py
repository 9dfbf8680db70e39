"""The Validator: what of a proposal is usable, and what was wrong with the rest."""

from __future__ import annotations

from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel, BeforeValidator

from loopwright import (
    Agent,
    CannotContinue,
    Clarification,
    Final,
    Principal,
    RequestApproval,
    ToolCalls,
)
from loopwright.actors import Validator
from loopwright.actors.kernel import ActorSystem, ChildSpec, Request
from loopwright.actors.roles._judge import Judge
from loopwright.policy import Access, writes
from loopwright.protocol import (
    Accepted,
    BrokenCall,
    CallId,
    Decision,
    Faulty,
    JsonValue,
    ServiceFailed,
    ToolCall,
    Validate,
    Validated,
    derived_effect_key,
)
from loopwright.testing import Probe, ScriptedModel
from services.bench import INVOCATION
from services.judging import FIND, MAIL, PAY, call, fates, find, judge, message_of, plan_of


@pytest.mark.parametrize(
    ("decision", "problem"),
    [
        (Clarification("  "), "the question is blank; ask one, or decide"),
        (Final(" \n"), "the final answer is blank; answer, or go on with calls"),
        (ToolCalls(()), "the batch is empty; name at least one call, or give the final answer"),
        (
            RequestApproval((), "please"),
            "the batch is empty; name at least one call, or give the final answer",
        ),
        (ToolCalls((FIND, call(" ", "find"))), "a call has no call id; give each its own"),
        (
            ToolCalls((FIND, PAY, FIND)),
            "the call id 'f' is used twice; give each call its own",
        ),
    ],
)
def test_a_decision_that_is_unusable_as_a_whole(decision: Decision, problem: str) -> None:
    """Nothing of it runs, and the model is told why."""
    assert judge(decision) == Faulty(problem)


@pytest.mark.parametrize(
    ("decision", "output"),
    [
        (Clarification("which?"), None),
        (CannotContinue("lost", ""), None),
        (Final("done"), None),
        (Final("", {"x": 1}), {"x": 1}),
    ],
)
def test_a_decision_without_calls_goes_on(decision: Decision, output: JsonValue) -> None:
    """An output without a type is taken as it is."""
    assert judge(decision) == Accepted(output=output)


class Total(BaseModel):
    amount: int
    note: str = "none"


def _broken(value: object) -> object:
    raise KeyError(value)


def test_a_typed_output_is_checked_and_completed() -> None:
    """What is stored is the value after coercion and defaults; a text is no value."""
    assert judge(Final(output={"amount": "3"}), output=Total) == Accepted(
        output={"amount": 3, "note": "none"}
    )


@pytest.mark.parametrize(
    ("decision", "output", "problem"),
    [
        (Final("3"), int, "output: Input should be a valid integer"),
        (Final(output={"amount": "many"}), Total, "output.amount: "),
        (Final(output="nan"), float, "output: nan is not a JSON number"),
        (Final(output=5), Annotated[int, BeforeValidator(_broken)], "KeyError: 5"),
    ],
)
def test_an_output_that_does_not_fit(decision: Final, output: Any, problem: str) -> None:
    """It can be repaired; also where the type's own validator crashes, or JSON cannot hold it."""
    verdict = judge(decision, output=output)

    assert isinstance(verdict, Faulty)
    assert verdict.problem.startswith("the final output does not fit: ")
    assert problem in verdict.problem
    assert len(verdict.problem) < 2_100


def test_a_batch_is_planned_as_it_will_run() -> None:
    """Arguments after coercion and defaults, a key for each write, stages in declared order."""
    second = call("f2", "find", sku="b", limit=1)
    plan = plan_of(FIND, second, PAY, MAIL)

    assert [c.arguments for c in plan.calls] == [
        {"sku": "a", "limit": 5},
        {"sku": "b", "limit": 1},
        {"order": 7, "amount": 1},
        {"to": "ann"},
    ]
    derived = derived_effect_key(INVOCATION, 1, CallId("m"))
    assert [c.effect_key for c in plan.calls] == [None, None, "order:7", derived]
    assert plan.stages == ((0, 1), (2,), (3,))
    assert (plan.verdicts, plan.fault) == ((), None)


@pytest.mark.parametrize(
    ("broken", "status", "message"),
    [
        (
            call("x", "fnid", sku="a"),
            "unknown_tool",
            "invalid_input/UnknownTool: there is no tool 'fnid'; available: find, pay, mail, ",
        ),
        (
            BrokenCall(CallId("x"), "find", "arguments: not valid JSON", "{"),
            "invalid_arguments",
            "invalid_input/InvalidArguments: arguments: not valid JSON",
        ),
        (
            call("x", "find"),
            "invalid_arguments",
            "invalid_input/InvalidArguments: sku: Field required",
        ),
        (
            call("x", "keyless", order=7),
            "invalid_arguments",
            "invalid_input/InvalidArguments: the effect key of tool 'keyless' is 7; ",
        ),
        (
            call("x", "mail", to="forbidden"),
            "denied",
            "permission/Denied: denied by forbidden",
        ),
    ],
)
def test_one_broken_call_withholds_the_writes_beside_it(
    broken: ToolCall | BrokenCall, status: str, message: str
) -> None:
    """The model did not mean what it said: reads run, no write does, and each call has its result."""

    def forbidden(access: Access) -> bool:
        return access.arguments.get("to") == "forbidden"

    plan = plan_of(FIND, broken, PAY, deny=[forbidden])

    assert fates(plan) == ["runs", status, "not_started"]
    assert plan.stages == ((0,),)
    assert message_of(plan, 1).startswith(message)
    assert message_of(plan, 2).startswith("invalid_input/BrokenBatch: not started, because another")
    assert plan.fault is not None
    assert plan.fault.startswith("call 'x': ")
    assert plan.calls[2].effect_key is None


def test_without_tools_none_are_available() -> None:
    """The model is told so; a name of any length is echoed bounded."""
    agent = Agent("desk", model=ScriptedModel([]))
    order = Validate(INVOCATION, 1, ToolCalls((call("x", "y" * 500),)), Principal())
    verdict = Judge(agent).judge(order)

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert message_of(verdict.plan).endswith("… (500 characters)'; available: none")
    assert len(verdict.plan.calls[0].tool_name) < 200


def test_a_policy_that_forgives_nothing_runs_nothing() -> None:
    """Of a faulty batch nothing runs then; all that was wrong is said."""
    verdict = judge(ToolCalls((FIND, call("x", "fnid"), call("y", "find"))), max_faulty_turns=0)

    assert isinstance(verdict, Faulty)
    assert verdict.problem.startswith("call 'x': there is no tool 'fnid'; ")
    assert verdict.problem.endswith("; call 'y': sku: Field required")


def test_a_broken_batch_asks_nobody() -> None:
    """A human is not asked about a write that is withheld anyway."""
    verdict = judge(ToolCalls((PAY, call("x", "fnid"))), ask=[writes()])

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["not_started", "unknown_tool"]


@pytest.mark.anyio
async def test_the_asker_is_told() -> None:
    """The verdict, under the turn it was asked for."""
    agent = Agent("desk", model=ScriptedModel([]), tools=[find])
    async with ActorSystem() as system:
        asker = Probe(system)
        ref = system.start(Validator, agent)
        ref.tell(Request(Validate(INVOCATION, 4, Final("done"), Principal()), asker.ref))
        assert await asker.received() == [Validated(4, Accepted())]


@pytest.mark.anyio
async def test_of_a_crash_the_asker_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A service that crashes over a request answers it, and serves the next one."""
    agent = Agent("desk", model=ScriptedModel([]), tools=[find])
    async with ActorSystem() as system:
        asker = Probe(system)
        ref = system.start(Validator, agent, spec=ChildSpec(restart="permanent"))
        nonsense = ToolCalls(cast("tuple[ToolCall]", (7,)))
        for decision in (nonsense, Final("done")):
            ref.tell(Request(Validate(INVOCATION, 4, decision, Principal()), asker.ref))
        told = await asker.received(2)

    assert isinstance(told[0], ServiceFailed)
    assert (told[0].service, told[0].error.split(":")[0]) == ("Validator", "AttributeError")
    assert told[1] == Validated(4, Accepted())
    assert "Unhandled exception in Validator" in caplog.text
