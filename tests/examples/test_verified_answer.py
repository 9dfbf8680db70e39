"""Three layers of verifiers, each alone, and all of them in front of a model that is too quick."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from loopwright import Claim, Final, Principal, Reason, Runtime, Verification, failed, passed
from loopwright.actors import Verifier
from loopwright.actors.kernel import ActorRef, ActorSystem, Request
from loopwright.examples.verified_answer import (
    GOAL,
    command,
    has_fields,
    make_agent,
    make_project,
    receipts_exist,
)
from loopwright.examples.verified_answer.__main__ import story
from loopwright.examples.verified_answer.project import BROKEN, MENDED
from loopwright.protocol import (
    CallId,
    EffectEntry,
    EffectKey,
    EffectStatus,
    History,
    InvocationId,
    JsonValue,
    Verified,
    Verify,
)
from loopwright.testing import Probe, ScriptedModel, VirtualClock

pytestmark = pytest.mark.anyio

RECEIPT: JsonValue = {"refund_id": "RF-0007", "amount": "0.01", "key": "refund:7"}
PAID = EffectEntry(EffectKey("refund:7"), "refund", 1, CallId("pay"), "committed", RECEIPT, 1)


def claim(output: JsonValue = None, *effects: EffectEntry) -> Claim:
    return Claim(
        InvocationId("inv-1"),
        "desk",
        "Refund order 7",
        "The refund RF-0007 is paid.",
        output,
        History([]),
        effects,
        Principal(),
        None,
    )


# ---------------------------------------------------------------- 1: the shape
@pytest.mark.parametrize(
    ("output", "missing"),
    [
        ({"id": "RF-0007", "amount": 3}, None),
        ({"id": "RF-0007"}, "amount"),
        ({"id": " ", "amount": None}, "id, amount"),
        ("RF-0007", "id, amount"),
        (None, "id, amount"),
    ],
)
def test_a_field_that_is_missing_or_blank_fails(output: JsonValue, missing: str | None) -> None:
    expected = passed() if missing is None else failed(f"the output lacks {missing}")
    assert has_fields("id", "amount")(claim(output)) == expected


# ---------------------------------------------------------------- 2: the facts
def receipts(output: JsonValue, *effects: EffectEntry) -> Verification:
    return receipts_exist("refund", "refund_id", "amount")(claim(output, *effects))


def test_a_receipt_of_a_committed_write_is_evidence() -> None:
    """Whatever else the receipt and the output say."""
    output: JsonValue = {"refund_id": "RF-0007", "amount": "0.01", "summary": "done"}
    assert receipts(output, replace(PAID, status="rejected"), PAID) == passed()


def test_a_sentence_is_no_evidence() -> None:
    """The answer says that it is paid, and so does the output; the ledger does not."""
    said = receipts({"refund_id": "RF-0007", "amount": "0.01"})
    expected = "no refund with refund_id 'RF-0007', amount '0.01' has taken place; "
    assert said == failed(expected + "do it, and name its receipt")


@pytest.mark.parametrize(
    "status", ["prepared", "dispatched", "rejected", "not_applied", "outcome_unknown"]
)
def test_only_what_is_known_to_have_happened_is_evidence(status: EffectStatus) -> None:
    said = receipts({"refund_id": "RF-0007", "amount": "0.01"}, replace(PAID, status=status))
    assert not said.passed


@pytest.mark.parametrize(
    ("output", "entry"),
    [
        ({"refund_id": "RF-0008", "amount": "0.01"}, PAID),
        ({"refund_id": "RF-0007", "amount": "100.00"}, PAID),
        ({"refund_id": "RF-0007"}, PAID),
        (None, PAID),
        ("RF-0007", PAID),
        ({"refund_id": "RF-0007", "amount": "0.01"}, replace(PAID, tool_name="mail")),
        ({"refund_id": "RF-0007", "amount": "0.01"}, replace(PAID, receipt="RF-0007")),
        ({"refund_id": "RF-0007", "amount": "0.01"}, replace(PAID, receipt=None)),
    ],
)
def test_another_receipt_is_no_evidence(output: JsonValue, entry: EffectEntry) -> None:
    """Of another number, sum or tool."""
    assert not receipts(output, entry).passed


# ---------------------------------------------------------------- 3: a real command
@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_project(tmp_path)
    return tmp_path


def suite_of(folder: Path) -> command:
    return command(sys.executable, "-B", "-m", "unittest", "-q", cwd=folder)


async def test_exit_code_0_lets_it_pass(project: Path) -> None:
    (project / "pricing.py").write_text(MENDED)
    assert await suite_of(project)(claim()) == passed()


async def test_another_exit_code_fails_with_the_end_of_the_output(project: Path) -> None:
    """The model is shown what it has to mend."""
    said = await suite_of(project)(claim())
    assert not said.passed
    assert said.reason.splitlines()[0].endswith("-B -m unittest -q ended with exit code 1:")
    assert "AssertionError: 896 != 895" in said.reason
    assert said.reason.endswith("FAILED (failures=1)")

    loud = command(sys.executable, "-c", "print('x' * 9_999 + 'end'); exit(3)", cwd=project)
    said = await loud(claim())
    assert said.reason.endswith("xend")
    assert len(said.reason) < 1_200


async def test_a_command_that_cannot_be_started_lets_nothing_pass(tmp_path: Path) -> None:
    """It raises, and the Verifier makes a verdict of that."""
    missing = command(str(tmp_path / "missing"), cwd=tmp_path)
    async with ActorSystem() as system:
        asker = Probe(system)
        ref: ActorRef[Verifier] = system.start(Verifier, (missing,), VirtualClock())
        ref.tell(Request(Verify(InvocationId("inv-1"), 1, 0, claim()), asker.ref))
        (said,) = await asker.received()
    assert isinstance(said, Verified)
    assert said.verification.reason.startswith(
        "verifier 'command missing' failed with FileNotFoundError: "
    )


_HANGS = """
import subprocess, sys, time
alive = open("alive", "w")
sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
subprocess.Popen(sleep, stdout=alive)
print("begun", file=alive, flush=True)
time.sleep(60)
"""


async def test_a_command_that_is_cancelled_is_killed_with_all_it_has_started(
    tmp_path: Path,
) -> None:
    """As the runtime does when its time is over, or the invocation is cancelled."""
    os.mkfifo(tmp_path / "alive")
    hangs = asyncio.create_task(command(sys.executable, "-c", _HANGS, cwd=tmp_path)(claim()))
    async with await anyio.open_file(tmp_path / "alive") as alive:
        assert await alive.readline() == "begun\n"
        hangs.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hangs
        # The end of the file: nobody who could write to it lives.
        assert await alive.read() == ""


# ---------------------------------------------------------------- all three
async def test_a_claim_is_believed_once_it_is_true(project: Path) -> None:
    """It is told that nothing was paid, pays; that nothing is mended, mends; and only then is done."""
    agent = make_agent(project)
    async with Runtime([agent]) as runtime:
        outcome = await runtime.run(agent.name, GOAL)

    assert outcome.reason is Reason.COMPLETED
    assert isinstance(outcome.output, dict)
    assert outcome.output["refund_id"] == "RF-0007"
    assert (project / "pricing.py").read_text() == MENDED
    kinds = [turn.proposal.decision.kind for turn in outcome.history]
    assert kinds == ["final", "tool_calls", "final", "tool_calls", "final"]
    faults = [turn.fault for turn in outcome.history]
    assert [fault is not None for fault in faults] == [True, False, True, False, False]
    assert [fault.level for fault in faults if fault is not None] == ["answer", "answer"]
    assert "no refund with refund_id 'RF-9999'" in str(faults[0])
    assert "ended with exit code 1" in str(faults[2])
    told = story(outcome)
    assert told[0] == f"goal: {GOAL}"
    assert told[-1] == f"completed: {outcome.answer}"


async def test_a_model_that_only_talks_fails(project: Path) -> None:
    """After three claims, whatever they say; nothing was paid, and nothing mended."""
    claims = Final("It is all done.", {"refund_id": "RF-0007", "amount": "0.01", "summary": "done"})
    agent = make_agent(project, ScriptedModel([claims] * 3))
    async with Runtime([agent]) as runtime:
        outcome = await runtime.run(agent.name, GOAL)

    assert outcome.reason is Reason.VERIFICATION_FAILED
    assert outcome.steps == 3
    assert outcome.effects == ()
    assert "no refund with" in str(outcome.cause)
    assert (project / "pricing.py").read_text() == BROKEN
