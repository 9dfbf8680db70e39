"""What each message is traced as, how much of it, how long it took, and where it is written."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from loopwright.actors import Instant, JsonLines, TraceEvent
from loopwright.actors.tracing._events import LIST_LIMIT, EventName, Fact, heard, said
from loopwright.actors.tracing._trace import Tracer
from loopwright.protocol import (
    Accepted,
    Allowance,
    AnswerApproval,
    Ask,
    Assessed,
    AttemptFailed,
    AttemptId,
    CallId,
    Cancel,
    ChildRested,
    ChildStand,
    Claim,
    CommitFailed,
    Committed,
    Compacted,
    ConfigurationError,
    Decided,
    DecideFailed,
    DecideInstead,
    Effect,
    EffectKey,
    ErrorCategory,
    Execute,
    Executed,
    Expire,
    Faulty,
    Final,
    Found,
    Grant,
    Handoff,
    HandOver,
    History,
    Input,
    InvocationId,
    JsonObject,
    Late,
    Lease,
    LeaseLost,
    ModelErrorKind,
    NeedsApproval,
    Observed,
    Output,
    Plan,
    PlannedCall,
    Principal,
    ProgressNote,
    ProposalDigest,
    Reason,
    Reconcile,
    Recover,
    ResultStatus,
    RunState,
    Stalled,
    Tick,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Usage,
    Validated,
    Verdict,
    Verified,
    Verify,
    digest,
    dumps,
    failed,
    loads,
    unknown,
)
from services.bench import INVOCATION, decide
from services.texts import SECRET, messages

A: CallId = CallId("a")
LONG = "long " * 100_000


def execute(arguments: JsonObject) -> Execute:
    return Execute(
        INVOCATION,
        1,
        A,
        AttemptId("a#1"),
        1,
        "pay",
        Effect.IDEMPOTENT,
        arguments,
        EffectKey("pay:7"),
        Principal(),
        Lease(INVOCATION, "w", 1),
    )


def result(status: ResultStatus = ResultStatus.OK, **more: Any) -> ToolResult:
    return ToolResult(A, "pay", status, **more)


def facts(*messages: Input) -> list[Fact]:
    return [fact for message in messages for fact in heard(message)]


def plan(*verdicts: Verdict, refused: ToolResult | None = None) -> Plan:
    call = PlannedCall(A, "pay", Effect.IDEMPOTENT, {"to": SECRET}, refused=refused)
    return Plan((call,), () if refused else ((0,),), verdicts)


# ---------------------------------------------------------------- names
def test_every_name_of_the_policy_is_there() -> None:
    """40-policy lists them."""
    assert set(get_args(EventName)) >= {
        *("state_transition", "llm_call_started", "llm_call_finished", "tool_call_requested"),
        *("permission_evaluated", "tool_call_finished", "context_compacted", "checkpoint_saved"),
        *("run_finished", "notice", "approval", "reconcile", "handoff", "retry", "breaker"),
        *("lease", "late"),
    }


def test_a_failed_attempt_is_a_retry_with_what_it_waits_for() -> None:
    attempt = AttemptFailed(1, 2, "big", ModelErrorKind.RATE_LIMITED, "429", Usage(3, 1), 1.5)
    assert facts(attempt) == [
        (
            "retry",
            {
                "endpoint": "big",
                "error": "429",
                "attempt": 2,
                "kind": "rate_limited",
                "retry_in": 1.5,
                "tokens": 4,
            },
        )
    ]


def test_what_is_left_alone_because_it_is_down_is_a_breaker() -> None:
    """A model that was not asked, and a tool whose service is down."""
    skipped = AttemptFailed(1, 2, "big", ModelErrorKind.UNAVAILABLE, "its breaker is open")
    down = ToolError(ErrorCategory.UNAVAILABLE, "BreakerOpen", "down since 12 s")
    names = facts(skipped, Executed(1, AttemptId("a#1"), result(ResultStatus.ERROR, error=down)))
    assert [name for name, _ in names] == ["breaker", "tool_call_finished", "breaker"]
    assert names[0][1] == {"endpoint": "big", "error": "its breaker is open"}
    assert names[2][1] == {"tool": "pay", "error": "down since 12 s"}


def test_every_verdict_is_told_with_its_rule_denials_too() -> None:
    refused = result(
        ResultStatus.DENIED, error=ToolError(ErrorCategory.PERMISSION, "Denied", "not yours")
    )
    denied = Verdict(A, "deny", "own_orders", "not yours")
    ((name, data),) = facts(Validated(1, Accepted(plan(denied, refused=refused))))
    assert name == "permission_evaluated"
    assert data == {
        "verdict": "Accepted",
        "rules": [{"call": "a", "verdict": "deny", "rule": "own_orders", "reason": "not yours"}],
        "refused": [
            {
                "call": "a",
                "tool": "pay",
                "status": "denied",
                "error": "not yours",
                "category": "permission",
            }
        ],
        "stages": [],
        "fault": None,
    }
    asks = (Ask(A, "pay", {"to": SECRET}, "over(100)"),)
    waits = NeedsApproval(plan(Verdict(A, "ask", "over(100)")), ProposalDigest("d"), asks)
    ((_, data),) = facts(Validated(1, waits))
    assert (data["verdict"], data["digest"]) == ("NeedsApproval", "d")
    assert data["asks"] == [{"call": "a", "tool": "pay", "reason": "over(100)"}]
    assert facts(Validated(1, Faulty("no calls"))) == [
        ("permission_evaluated", {"verdict": "Faulty", "problem": "no calls"})
    ]


def test_what_people_say_is_told_with_who_said_it() -> None:
    yes = AnswerApproval(ProposalDigest("d"), True, "ana", (A,), "fine", {A: {"to": SECRET}})
    names = facts(
        yes, Expire("clock"), DecideInstead(Final("done"), "bo"), Cancel("stop", "bo"), Recover()
    )
    assert [name for name, _ in names] == ["approval", "approval", "approval", "command", "lease"]
    assert names[0][1] == {
        "digest": "d",
        "approved": True,
        "calls": ["a"],
        "edited": ["a"],
        "by": "ana",
        "reason": "fine",
    }
    assert names[2][1] == {"by": "bo", "decision": "final", "text": "done"}
    assert facts(Grant(None, "bo"))[0][1] == {"command": "resume", "by": "bo", "granted": False}


def test_progress_verification_compaction_and_stores_have_events() -> None:
    stalled = Stalled("cycle", "a, b, a, b")
    told = facts(
        Assessed(1, stalled),
        Observed(1, nudge=stalled),
        Assessed(1),
        Verified(1, 0, "facts", failed("not paid"), True),
        Compacted(3, 2, "so far", Usage(5, 5), "small"),
        CommitFailed(9, "the disk is full"),
        LeaseLost("no heartbeat"),
    )
    assert [name for name, _ in told] == [
        *("progress", "progress", "verification", "context_compacted", "checkpoint_failed"),
        "lease",
    ]
    assert told[0][1] == {"verdict": "stalled", "signal": "cycle", "evidence": "a, b, a, b"}
    assert told[1][1]["verdict"] == "nudge"
    assert told[2][1] == {"verifier": "facts", "passed": False, "reason": "not paid"}
    assert (told[3][1]["summary"], told[3][1]["chars"]) == (digest("so far")[:32], 6)


def test_a_handoff_a_notice_and_a_child_have_events() -> None:
    handoff = Handoff("billing", "not mine", ProgressNote(("found it",)))
    ((_, data),) = facts(Decided(1, handoff, Usage()))
    assert (data["decision"], data["target"], data["text"]) == ("handoff", "billing", "not mine")
    assert [name for name, _ in said(decide(notice="Come to an end."))] == [
        "notice",
        "llm_call_started",
    ]
    assert list(said(HandOver("billing"))) == [("handoff", {"agent": "billing"})]
    stand = ChildStand(InvocationId("inv-2"), Reason.MAX_STEPS, 3, Usage(7, 3))
    told = facts(ChildRested(1, AttemptId("a#1"), result(child=stand)))
    assert told[1] == (
        "child",
        {"invocation": "inv-2", "reason": "max_steps", "tool_calls": 3, "tokens": 10},
    )


# ---------------------------------------------------------------- evidence
def test_arguments_and_outputs_are_told_by_digest_alone() -> None:
    arguments: JsonObject = {"to": SECRET}
    calls = ToolCalls((ToolCall(A, "pay", arguments),))
    told = [
        *facts(Decided(1, calls, Usage())),
        *facts(Validated(1, Accepted(plan()))),
        *said(execute(arguments)),
        *facts(Executed(1, AttemptId("a#1"), result(output=SECRET))),
    ]
    assert SECRET not in repr(told)
    assert told[0][1]["calls"] == [
        {"call": "a", "tool": "pay", "arguments": digest(arguments)[:32]}
    ]
    assert told[2][1]["arguments"] == digest(arguments)[:32]
    assert (told[3][1]["output"], told[3][1]["bytes"]) == (digest(SECRET)[:32], len(SECRET) + 2)


@pytest.mark.parametrize("kind", get_args(Input), ids=lambda kind: kind.__name__)
def test_any_message_is_traced_as_json(kind: Any) -> None:
    made: list[Input] = messages(kind)
    for message in made:
        for _, data in heard(message):
            assert loads(dumps(data)) == data


def huge() -> Iterator[Fact]:
    many = tuple(ToolCall(CallId(f"{n} {LONG}"), LONG, {"to": "x"}) for n in range(100))
    verdicts = tuple(Verdict(call.call_id, "deny", LONG, LONG) for call in many)
    error = ToolError(ErrorCategory.INTERNAL, "E", LONG)
    refused = [
        PlannedCall(A, "t", Effect.READ, {}, refused=result(ResultStatus.DENIED, error=error))
    ] * 100
    yield from heard(Decided(1, ToolCalls(many, LONG), Usage()))
    yield from heard(Decided(1, Final(LONG), Usage()))
    yield from heard(Validated(1, Accepted(Plan(tuple(refused), (), verdicts, LONG))))
    yield from heard(DecideFailed(1, LONG))
    yield from heard(Executed(1, AttemptId("a#1"), result(output=LONG, error=error)))
    yield from heard(Cancel(LONG, "ana"))
    yield from said(decide(notice=LONG))
    yield from said(execute({"to": LONG}))


def test_evidence_is_bounded_however_much_there_is() -> None:
    for name, data in huge():
        assert len(dumps(data)) < LIST_LIMIT * 2_000, name


# ---------------------------------------------------------------- times
def observe(*steps: tuple[float, Input, tuple[Output, ...]]) -> list[TraceEvent]:
    events: list[TraceEvent] = []
    tracer = Tracer(INVOCATION, [events.append])
    for now, message, outputs in steps:
        tracer.observe(Instant(now, 1_000 + now), message, outputs, [RunState.CREATED], 1, 1)
    return events


def test_events_say_when_they_happened_and_what_ends_how_long_it_took() -> None:
    """On the monotonic clock; the wall clock is for people."""
    done = Executed(1, AttemptId("a#1"), result())
    events = observe(
        (1.0, Tick(), (decide(),)),
        (1.25, AttemptFailed(1, 1, "m", ModelErrorKind.TRANSIENT, "503"), ()),
        (3.5, Decided(1, Final("x"), Usage()), (execute({}),)),
        (4.0, done, ()),
        (5.0, done, (Late("Executed a#1"),)),
        (6.0, Committed(3), ()),
    )
    told = [(event.name, event.at, event.seconds) for event in events]
    assert told == [
        ("llm_call_started", 1001.0, None),
        ("retry", 1001.25, None),
        ("llm_call_finished", 1003.5, 2.5),
        ("tool_call_requested", 1003.5, None),
        ("tool_call_finished", 1004.0, 0.5),
        ("late", 1005.0, None),
        ("checkpoint_saved", 1006.0, None),
    ]


def test_verifiers_and_reconcilers_are_timed_too() -> None:
    claim = Claim(INVOCATION, "desk", "g", "a", None, History([]), (), Principal(), None)
    attempt = AttemptId("a#1")
    ask = Reconcile(INVOCATION, 1, A, attempt, "pay", EffectKey("k"))
    events = observe(
        (1.0, Tick(), (Verify(INVOCATION, 1, 0, claim), ask)),
        (3.0, Verified(1, 0, "facts", failed("no"), True), ()),
        (4.0, Found(1, attempt, unknown("closed")), ()),
    )
    assert [(e.name, e.seconds) for e in events] == [
        ("reconcile", None),
        ("verification", 2.0),
        ("reconcile", 3.0),
    ]


def test_what_cannot_be_traced_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A bug here must not stop an invocation."""
    broken = Executed(1, AttemptId("a#1"), result(output=object()))
    events = observe((1.0, broken, ()), (2.0, Committed(1), ()))
    assert [event.name for event in events] == ["checkpoint_saved"]
    assert "Something cannot be traced" in caplog.text


def test_the_model_may_be_told_of_what_is_left() -> None:
    ((_, data),) = said(decide()._replace(allowance=Allowance(tools="none", finish=True)))
    assert (data["tools"], data["finish"]) == ("none", True)


# ---------------------------------------------------------------- JSON lines
EVENT = TraceEvent("notice", INVOCATION, 2, {"text": "é\n"}, 1000.5, 0.25)
PLAIN = {
    "at": 1000.5,
    "event": "notice",
    "invocation_id": INVOCATION,
    "turn": 2,
    "data": {"text": "é\n"},
    "seconds": 0.25,
}


def test_each_event_is_a_line_that_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with JsonLines(path) as lines:
        lines(EVENT)
        assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [
            PLAIN
        ]
    lines.close()
    with JsonLines(str(path)) as lines:
        lines(EVENT)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_a_stream_that_was_given_stays_open() -> None:
    stream = io.StringIO()
    with JsonLines(stream) as lines:
        lines(EVENT)
    assert json.loads(stream.getvalue()) == PLAIN


def test_lines_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with JsonLines(path) as lines:

        def write() -> None:
            for _ in range(50):
                lines(EVENT)

        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [PLAIN] * 400


def test_a_line_that_cannot_be_written_is_counted_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A full disk must not stop an invocation, nor fill the log."""

    class Full(io.StringIO):
        full = True

        def flush(self) -> None:
            if self.full:
                raise OSError(28, "No space left on device")

    stream = Full()
    lines = JsonLines(stream)
    lines(EVENT)
    lines(EVENT)
    assert (lines.lost, caplog.text.count("The trace cannot be written:")) == (2, 1)
    stream.full = False
    lines(EVENT)
    stream.full = True
    lines(EVENT)
    assert (lines.lost, caplog.text.count("The trace cannot be written:")) == (3, 2)


def test_a_file_that_cannot_be_opened_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written"):
        JsonLines(tmp_path / "missing" / "trace.jsonl")
