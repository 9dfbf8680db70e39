"""The Validator: what is refused without asking anybody, and what a batch may do at once."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import RequestApproval, ToolCalls, tool
from loopwright.actors import AnyTool
from loopwright.policy import Access, Allow, writes
from loopwright.policy import Ask as AskHuman
from loopwright.protocol import (
    Accepted,
    BrokenCall,
    CallId,
    Faulty,
    Handoff,
    JsonObject,
    JsonValue,
    NeedsApproval,
    ProgressNote,
    ToolAccess,
    ToolCall,
    Verdict,
    call_fingerprint,
)
from services.judging import (
    FIND,
    MAIL,
    PAY,
    TOOLS,
    asked,
    call,
    fates,
    find,
    judge,
    message_of,
    plan_of,
)

ASK_WRITES: dict[str, Any] = {"ask": [writes()]}


# ---------------------------------------------------------------- denied before
def denied_before(*calls: ToolCall) -> frozenset[str]:
    """Fingerprints of calls that were denied, as they were proposed."""
    return frozenset(call_fingerprint(one.tool_name, one.arguments) for one in calls)


def test_what_was_denied_is_denied_again_without_asking() -> None:
    """B85: neither a rule nor a human is asked a second time; the model is at fault."""
    seen: list[str] = []

    def careful(access: Access) -> AskHuman:
        seen.append(access.tool)
        return AskHuman("sure?")

    verdict = judge(ToolCalls((PAY,)), rules=[careful], refused=denied_before(PAY))

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert seen == []
    assert fates(verdict.plan) == ["denied"]
    text = "it was denied before; do not propose it again"
    assert message_of(verdict.plan) == f"permission/DeniedBefore: {text}"
    assert verdict.plan.fault == f"call 'p': {text}"
    assert verdict.plan.verdicts == (Verdict(CallId("p"), "deny", "denied_before", text),)


def test_another_call_is_not_denied_for_it() -> None:
    """Other arguments are another call; the writes beside a repeated one don't start."""
    other = call("q", "pay", order="8")
    assert fates(plan_of(other, refused=denied_before(PAY))) == ["runs"]
    plan = plan_of(FIND, PAY, other, refused=denied_before(PAY))
    assert fates(plan) == ["runs", "denied", "not_started"]


@pytest.mark.parametrize("denied", [{"order": "7"}, {"order": 7, "amount": 1}])
@pytest.mark.parametrize("again", [{"order": 7}, {"order": 7, "amount": 1}, {"order": "7"}])
def test_b85_another_spelling_of_a_denied_call_is_the_same_call(
    denied: JsonObject, again: JsonObject
) -> None:
    """B85: what would run is the same; the result of the denial says what that was."""
    (first,) = plan_of(ToolCall(CallId("p"), "pay", denied), deny=[writes()]).calls
    assert first.refused is not None
    meant = first.refused.arguments
    assert meant == (None if "amount" in denied else {"order": 7, "amount": 1})
    refused = denied_before(*(ToolCall(CallId("p"), "pay", a) for a in (denied, meant or denied)))
    assert fates(plan_of(ToolCall(CallId("q"), "pay", again), refused=refused)) == ["denied"]
    other = call("q", "pay", order=7, amount=2)
    assert fates(plan_of(other, refused=refused)) == ["runs"]


def test_a_denial_by_a_human_says_what_would_have_run_as_well() -> None:
    """Where the model has written it otherwise; 1 and 1.0 are two texts."""
    cases: list[tuple[JsonObject, JsonObject | None]] = [
        ({"order": 7}, {"order": 7, "amount": 1}),
        ({"order": 7, "amount": 1.0}, {"order": 7, "amount": 1}),
        ({"order": 7, "amount": 1}, None),
    ]
    for arguments, meant in cases:
        decision = ToolCalls((ToolCall(CallId("p"), "pay", arguments),))
        digest = asked(decision, **ASK_WRITES).digest
        verdict = judge(decision, digest=digest, denied=((CallId("p"), "bo"),), **ASK_WRITES)
        assert isinstance(verdict, Accepted)
        assert verdict.plan is not None
        (one,) = verdict.plan.calls
        assert one.refused is not None
        assert one.refused.arguments == meant


def test_what_nobody_has_answered_for_is_asked_about_again() -> None:
    """B81: an expiry is no denial, so it is not among those; a human is asked as if it were new."""
    digest = asked(ToolCalls((PAY,)), **ASK_WRITES).digest
    expired = judge(
        ToolCalls((PAY,)), digest=digest, expired=frozenset({PAY.call_id}), **ASK_WRITES
    )
    assert isinstance(expired, Accepted)
    assert expired.plan is not None
    (one,) = expired.plan.calls
    assert one.refused is not None
    assert (one.refused.status, one.refused.denied) == ("denied", False)
    assert [ask.call_id for ask in asked(ToolCalls((PAY,)), **ASK_WRITES).asks] == ["p"]


def test_a_human_may_approve_an_edit_that_a_model_was_denied() -> None:
    """It is not the model's proposal; today's policy is asked all the same."""
    digest = asked(ToolCalls((PAY,)), **ASK_WRITES).digest
    given: dict[str, Any] = {
        "digest": digest,
        "approved": (CallId("p"),),
        "edits": {"p": {"order": 8}},
        "refused": denied_before(call("p", "pay", order=8)),
        **ASK_WRITES,
    }
    verdict = judge(ToolCalls((PAY,)), **given)
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["runs"]


# ---------------------------------------------------------------- towards the end of a budget
@tool(effect="idempotent", finishing=True)
def submit(answer: str) -> None: ...


SUBMIT = call("s", "submit", answer="42")


def with_submit(*calls: ToolCall | BrokenCall, use: ToolAccess, **options: Any) -> Any:
    """Judge a batch of an agent that has a finishing tool."""
    return judge(ToolCalls(calls), tools=(*TOOLS, submit), use=use, **options)


def test_near_the_end_only_finishing_tools_are_used() -> None:
    """The others are not started; that is no fault, and nobody is asked about them."""
    verdict = with_submit(FIND, PAY, SUBMIT, use="finishing", ask=[writes()])

    assert isinstance(verdict, NeedsApproval)
    assert [ask.call_id for ask in verdict.asks] == ["s"]
    assert fates(verdict.plan) == ["not_started", "not_started", "runs"]
    assert verdict.plan.fault is None
    assert message_of(verdict.plan) == (
        "permission/SoftStop: not started: the budget is nearly used up, and only these tools "
        "may still be used: submit; come to an end"
    )


def test_near_the_end_there_may_be_no_finishing_tool() -> None:
    """The model is told so."""
    plan = plan_of(FIND, use="finishing")
    assert fates(plan) == ["not_started"]
    assert message_of(plan).endswith("and no tool may be used; come to an end")


def test_in_the_last_step_no_tool_is_used() -> None:
    """Also none that finishes, that does not exist, or that was called wrongly."""
    broken = BrokenCall(CallId("b"), "find", "arguments: not valid JSON", "{")
    verdict = with_submit(FIND, PAY, SUBMIT, call("x", "fnid"), broken, use="none", **ASK_WRITES)

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert set(fates(verdict.plan)) == {"not_started"}
    assert verdict.plan.fault is None
    assert verdict.plan.stages == ()
    assert message_of(verdict.plan) == (
        "permission/SoftStop: not started: no tool may be used any more; give the final answer now"
    )


def test_a_restriction_does_not_hide_a_fault() -> None:
    """A tool that does not exist is still the model's mistake, and writes wait for its repair."""
    verdict = with_submit(FIND, call("x", "fnid"), SUBMIT, use="finishing")
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["not_started", "unknown_tool", "not_started"]
    assert verdict.plan.fault is not None


# ---------------------------------------------------------------- nobody has answered
BOTH = ToolCalls((PAY, MAIL))


def test_what_nobody_has_answered_for_in_time_does_not_run() -> None:
    """B81: it is denied, and its result says that it was no human's no."""
    digest = asked(BOTH, **ASK_WRITES).digest
    given: dict[str, Any] = {
        "digest": digest,
        "approved": (CallId("p"),),
        "expired": frozenset({CallId("m")}),
    }
    verdict = judge(BOTH, **given, **ASK_WRITES)

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["runs", "denied"]
    assert message_of(verdict.plan, 1) == (
        "permission/ApprovalExpired: nobody has answered for it in time, so it did not run; "
        "that is no human's no"
    )
    assert verdict.plan.fault is None


def test_an_answer_in_time_stands() -> None:
    """Expiry is for those without an answer; who was denied was."""
    digest = asked(BOTH, **ASK_WRITES).digest
    verdict = judge(
        BOTH,
        digest=digest,
        approved=(CallId("p"),),
        denied=((CallId("m"), "bo"),),
        expired=frozenset({CallId("m")}),
        **ASK_WRITES,
    )
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["runs", "denied"]
    assert message_of(verdict.plan, 1) == "permission/DeniedByHuman: denied by bo"


# ---------------------------------------------------------------- what a rule sees
def _of_order(a: Any) -> set[str]:
    return {f"acme/order:{a.order}"}


@tool(effect="idempotent", operation="refund", writes=_of_order, resources=lambda _: ["acme/rates"])
def give_back(order: int) -> None: ...


def test_a_rule_sees_operation_objects_and_metadata() -> None:
    """Principal, tool, operation and object, and what the invocation was started with."""
    seen: list[Access] = []

    def look(access: Access) -> Allow:
        seen.append(access)
        return Allow()

    metadata: JsonValue = {"ticket": 7}
    calls = ToolCalls((call("g", "give_back", order="7"), FIND))
    judge(calls, tools=[give_back, find], rules=[look], metadata=metadata)

    assert (seen[0].operation, seen[0].tool) == ("refund", "give_back")
    assert (seen[0].reads, seen[0].writes) == (("acme/rates",), ("acme/order:7",))
    assert seen[0].objects == ("acme/rates", "acme/order:7")
    assert (seen[1].operation, seen[1].objects) == ("find", ())
    assert [a.metadata for a in seen] == [metadata, metadata]


# ---------------------------------------------------------------- what a batch may do at once
@tool(effect="read", resources=_of_order)
def status(order: int) -> None: ...


@tool(effect="idempotent", effect_key=lambda a: f"tip:{a.to}", writes=lambda a: [f"purse:{a.to}"])
def tip(to: str, amount: int = 1) -> None: ...


PLANNED: tuple[AnyTool, ...] = (give_back, status, tip)


def _asked(_key: str) -> None: ...


def back(order: int) -> ToolCall:
    return call(f"b{order}", "give_back", order=order)


@pytest.mark.parametrize(
    ("mode", "planned"),
    [("graph", ((0, 1, 3), (2,))), ("serial", ((0,), (1,), (2,), (3,)))],
)
def test_a_batch_is_planned_by_what_its_calls_touch(
    mode: str, planned: tuple[tuple[int, ...], ...]
) -> None:
    """Two orders at once, the status of one after its refund; or one after the other."""
    calls = (back(7), back(8), call("s", "status", order=7), call("t", "tip", to="ann"))
    assert plan_of(*calls, tools=PLANNED, mixed_batch=mode).stages == planned


def test_one_mutation_is_not_tried_twice_at_once() -> None:
    """The same declared key, or the same tool and arguments without one."""

    @tool(effect="idempotent", effect_key=lambda _: "k", writes=lambda a: [str(a.x)])
    def keyed(x: int) -> None: ...

    @tool(effect="reconcilable", writes=lambda _: ())
    def child(goal: str) -> None: ...

    child.reconcile(_asked)
    calls = (
        call("a", "keyed", x=1),
        call("b", "keyed", x=2),
        call("c", "child", goal="g"),
        call("d", "child", goal="g"),
        call("e", "child", goal="h"),
    )
    assert plan_of(*calls, tools=[keyed, child]).stages == ((0, 2, 4), (1, 3))


def test_a_mixed_batch_may_be_refused() -> None:
    """`reject`: no write of it starts, its reads run, and the model has to order it."""
    plan = plan_of(FIND, PAY, mixed_batch="reject")
    assert fates(plan) == ["runs", "not_started"]
    assert message_of(plan, 1).startswith("invalid_input/MixedBatch: not started, because it ")
    assert plan.fault == "a call that changes something is not alone in its batch"
    assert fates(plan_of(PAY, MAIL, mixed_batch="reject")) == ["not_started", "not_started"]
    verdict = judge(ToolCalls((FIND, PAY)), mixed_batch="reject", max_faulty_turns=0)
    assert isinstance(verdict, Faulty)


@pytest.mark.parametrize("calls", [(PAY,), (FIND, call("g", "find", sku="b"))])
def test_a_batch_that_is_not_mixed_is_not_refused(calls: tuple[ToolCall, ...]) -> None:
    """A write by itself, and reads in any number."""
    plan = plan_of(*calls, mixed_batch="reject")
    assert set(fates(plan)) == {"runs"}
    assert plan.fault is None


def test_nobody_is_asked_about_a_mixed_batch_that_is_refused() -> None:
    """Its writes could not run."""
    assert isinstance(judge(ToolCalls((FIND, PAY)), mixed_batch="reject", **ASK_WRITES), Accepted)
    decision = RequestApproval((FIND, PAY), "sure?")
    needed = asked(decision, mixed_batch="reject")
    assert [ask.call_id for ask in needed.asks] == ["f"]


# ---------------------------------------------------------------- handoffs
NOTE = ProgressNote(done=("looked",))


@pytest.mark.parametrize(
    ("handoff", "problem"),
    [
        (Handoff("boss", "above me", NOTE), "it cannot be handed to 'boss'; possible: bill, cy"),
        (Handoff("desk", "again", NOTE), "it cannot be handed to 'desk'; possible: bill, cy"),
        (Handoff("bill", " ", NOTE), "the handoff has no reason; say why another agent has to go "),
        (Handoff("bill", "money", ProgressNote()), "the progress note is empty; say what is done"),
        (
            Handoff("bill", "money", ProgressNote((" ",), ("",), (CallId("c1"),))),
            "the progress note is empty; say what is done",
        ),
        (Handoff("bill", "money", NOTE, (FIND, FIND)), "the call id 'f' is used twice"),
    ],
)
def test_a_handoff_that_is_unusable(handoff: Handoff, problem: str) -> None:
    """Nothing of it runs, and the model is told what is possible."""
    verdict = judge(handoff, handoffs=["bill", "cy"])
    assert isinstance(verdict, Faulty)
    assert verdict.problem.startswith(problem)


def test_an_agent_without_handoffs_hands_to_nobody() -> None:
    """A long name is echoed bounded."""
    verdict = judge(Handoff("x" * 500, "r", NOTE))
    assert isinstance(verdict, Faulty)
    assert verdict.problem.endswith("… (500 characters)'; possible: nobody")


def test_a_handoff_goes_on_with_its_calls() -> None:
    """Without calls there is nothing to plan; with some they are judged like any batch."""
    assert judge(Handoff("bill", "money", NOTE), handoffs=["bill"]) == Accepted()
    verdict = judge(Handoff("bill", "money", NOTE, (FIND, PAY)), handoffs=["bill"])
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert verdict.plan.stages == ((0,), (1,))
    needed = judge(Handoff("bill", "money", NOTE, (PAY,)), handoffs=["bill"], ask=[writes()])
    assert isinstance(needed, NeedsApproval)
    open_note = ProgressNote(open=("pay",))
    assert judge(Handoff("bill", "money", open_note), handoffs=["bill"]) == Accepted()
