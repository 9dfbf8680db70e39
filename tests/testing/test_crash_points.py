"""The crash kit itself: it finds what is wrong, and says so in one sentence."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopwright import Agent, Final, ModelRequest, Policy, ToolContext, tool
from loopwright.policy import tool_named
from loopwright.protocol import (
    Budget,
    CallId,
    Claim,
    Clarification,
    ConfigurationError,
    JsonObject,
    Principal,
    Reason,
    Reconciled,
    ToolCall,
    ToolCalls,
    Verification,
    applied,
    failed,
    not_applied,
    passed,
)
from loopwright.testing import CrashPoint, CrashPoints, ScriptedModel, Step

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks, and sends SIGKILL")
HERE = "test_crash_points"
"""This file, as the host of the kit imports it."""


# ------------------------------------------------------------ agents, made in the killed processes
def pays(folder: Path, *, lies: bool = False) -> Agent:
    """One reconcilable payment, whose downstream is a folder of receipts."""

    @tool(effect="reconcilable", effect_key=lambda a: f"pay:{a.order}")
    async def pay(order: int, ctx: ToolContext) -> str:
        receipt = folder / f"receipt-{uuid.uuid4()}"
        receipt.write_text(str(ctx.effect_key))
        return receipt.name

    @pay.reconcile
    def _(effect_key: str) -> Reconciled:
        found = [path.name for path in folder.glob("receipt-*") if path.read_text() == effect_key]
        return applied(found[0]) if found and not lies else not_applied()

    return Agent(
        "desk", model=calls("pay", {"order": 7}), tools=[pay], verifiers=[Receipts(folder)]
    )


class Receipts:
    """A verifier that blocks, keeps state, and may take a second: all of that stays so."""

    timeout = 1

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, claim: Claim) -> Verification:
        """See that there is a receipt, and write down that it was looked for."""
        with (self._folder / "looked").open("a") as looked:
            looked.write("x")
        return passed() if [*self._folder.glob("receipt-*")] else failed("there is no receipt")


def pays_by_a_liar(folder: Path) -> Agent:
    """Its reconciler has never heard of anything."""
    return pays(folder, lies=True)


def sends(folder: Path, *, own_keys: bool = False) -> list[Agent]:
    """One idempotent write in a thread, which has to be approved."""

    @tool(effect="idempotent", effect_key=lambda a: f"send:{a.to}")
    def send(to: str, ctx: ToolContext) -> str:
        key = str(uuid.uuid4()) if own_keys else str(ctx.effect_key)
        (folder / f"sent-{key}").touch()
        return "sent"

    policy = Policy(ask=[tool_named("send")])
    return [Agent("desk", model=calls("send", {"to": "ana"}), tools=[send], policy=policy)]


def mails(folder: Path) -> Agent:
    """One idempotent write that goes through the outbox."""

    @tool(effect="idempotent", effect_key=lambda a: f"mail:{a.to}", dispatch="outbox")
    async def mail(to: str, ctx: ToolContext) -> None:
        (folder / f"sent-{ctx.effect_key}").touch()

    return Agent("desk", model=calls("mail", {"to": "ana"}), tools=[mail])


def sends_under_other_keys(folder: Path) -> list[Agent]:
    """It says that its downstream deduplicates, and gives it a new key each time."""
    return sends(folder, own_keys=True)


def calls(name: str, arguments: JsonObject) -> ScriptedModel:
    """One turn, then the end: made anew in each life, it tells them apart by the request."""

    def say(request: ModelRequest) -> Step:
        call = ToolCall(CallId("a"), name, arguments)
        return ToolCalls((call,)) if request.turn == 1 else Final("done")

    return ScriptedModel([say, say])


def dies(folder: Path) -> Agent:
    """Its process ends in the middle of a call."""

    @tool(effect="read")
    async def look() -> None:
        os._exit(3)

    return Agent("desk", model=calls("look", {}), tools=[look])


def asks(folder: Path) -> Agent:
    """It has a question, and repeats the answer."""

    def say(request: ModelRequest) -> Step:
        if request.turn == 1:
            return Clarification("Which one?")
        return Final(str(request.history[-1].answer))

    return Agent("desk", model=ScriptedModel([say, say]))


def hangs(folder: Path) -> Agent:
    """It never comes to rest, and does not let its loop run."""

    @tool(effect="read")
    async def look() -> None:
        while True:
            pass

    return Agent("desk", model=calls("look", {}), tools=[look])


def fails(folder: Path) -> Agent:
    """It cannot be made."""
    raise RuntimeError("no password")


def nothing(folder: Path) -> None:
    """Forget to return the agent."""


class Kits:
    """One kit per factory for all tests: it is the start of its host that takes time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, CrashPoints] = {}

    def __call__(self, factory: str) -> CrashPoints:
        """Start the kit of a factory of this file, once."""
        if factory not in self._made:
            self._made[factory] = CrashPoints(f"{HERE}:{factory}", self._folder / factory)
        return self._made[factory]

    def close(self) -> None:
        """End all hosts."""
        for kit in self._made.values():
            kit.close()


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """The kit imports what it is told the name of from where this process would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
        yield


@pytest.fixture(scope="module")
def kits(importable: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kits]:
    made = Kits(tmp_path_factory.mktemp("crash"))
    yield made
    made.close()


# ------------------------------------------------------------ what it finds
@pytest.mark.parametrize("point", CrashPoint)
def test_a_sound_agent_passes_whatever_the_point(kits: Kits, point: CrashPoint) -> None:
    """As the documentation shows it; some points are never reached by this agent."""
    case = kits("pays").case("desk", "Pay order 7")
    reached = case.kill_at(point)
    case.check()
    outcome = case.finish()
    case.check({"pay:7": len([*case.folder.glob("receipt-*")])} if outcome.completed else {})
    never = {CrashPoint.K4, CrashPoint.K7, CrashPoint.K9, CrashPoint.K10}
    assert reached is (point not in never | {CrashPoint.R3, CrashPoint.R4})
    ended = Reason.CANCELLED if point is CrashPoint.K12 else Reason.COMPLETED
    assert outcome.reason is ended
    if outcome.completed:
        looked = len((case.folder / "looked").read_text())
        assert looked == (2 if point is CrashPoint.K11 else 1)


def test_a_reconciler_that_lies_is_named(kits: Kits) -> None:
    case = kits("pays_by_a_liar").case("desk", "Pay order 7")
    assert case.kill_at(CrashPoint.K6)
    case.check()
    assert case.finish().completed
    with pytest.raises(AssertionError) as failure:
        case.check()
    assert str(failure.value) == (
        "duplicate: the effect pay:7 of tool 'pay' has taken place in life 1 and again in life 2; "
        "reconciler had said that it was not applied"
    )


def test_a_downstream_that_saw_other_keys_is_no_idempotent_one(kits: Kits) -> None:
    """The runtime keeps to one key; what the tool makes of it, only the downstream can tell."""
    case = kits("sends_under_other_keys").case("desk", "Send it")
    assert case.kill_at(CrashPoint.K6)
    assert case.finish().completed
    case.check()
    sent = [path.name.removeprefix("sent-") for path in case.folder.glob("sent-*")]
    assert len(sent) == 2
    with pytest.raises(AssertionError, match="no dispatch has announced this key"):
        case.check(dict.fromkeys(sent, 1))


def test_effects_that_took_place_twice_or_never_are_named(kits: Kits) -> None:
    case = kits("sends").case("desk", "Send it")
    assert case.finish().completed
    case.check({"send:ana": 1})
    with pytest.raises(AssertionError, match="send:ana has taken place 2 times"):
        case.check({"send:ana": 2})
    with pytest.raises(AssertionError, match="counts as committed, and has not taken place"):
        case.check({})


def test_a_journal_that_was_cut_is_a_lost_commit(kits: Kits) -> None:
    """What a process was told is durable has to be there."""
    case = kits("sends").case("desk", "Send it")
    assert case.kill_at(CrashPoint.K10)
    case.check()
    for path in case.folder.glob("store.db*"):
        path.unlink()
    with pytest.raises(AssertionError, match=r"lost: invocation .* was durable in life 1"):
        case.check()


# ------------------------------------------------------------ what people say, and where
def test_a_point_that_is_never_reached_lets_it_come_to_rest(kits: Kits) -> None:
    case = kits("sends").case("desk", "Send it")
    assert not case.kill_at(CrashPoint.K6, occurrence=2)
    assert case.kills == 0
    assert case.finish().completed


def test_a_person_may_say_no(kits: Kits) -> None:
    case = kits("sends").case("desk", "Send it", approve=False)
    assert case.kill_at(CrashPoint.K10)
    outcome = case.finish()
    case.check({})
    (result,) = outcome.history[0].results
    assert result.status == "denied"


def test_a_question_is_answered(kits: Kits) -> None:
    case = kits("asks").case("desk", "Take one", answer="the blue one")
    assert case.kill_at(CrashPoint.K8)
    assert case.finish().answer == "the blue one"
    case.check()


def test_a_cancel_meets_a_write_in_a_thread(kits: Kits) -> None:
    """The body waits until the cancel is durable, and then has its effect: nobody calls it undone."""
    case = kits("sends").case("desk", "Send it")
    outcome = case.finish(cancel_at=CrashPoint.K5)
    case.check({"send:ana": 1})
    assert outcome.reason is Reason.CANCELLED
    assert [effect.status for effect in outcome.effects] == ["committed"]


@pytest.mark.parametrize("point", [CrashPoint.K5, CrashPoint.K6, CrashPoint.K8, CrashPoint.K13])
def test_what_is_in_the_outbox_is_delivered(kits: Kits, point: CrashPoint) -> None:
    """A delivery begins without a dispatch in the journal, and ends in the ledger."""
    case = kits("mails").case("desk", "Mail it")
    assert case.kill_at(point)
    assert case.finish().completed
    assert (case.folder / "sent-mail:ana").exists()
    case.check({"mail:ana": 1})


def test_it_is_started_as_the_case_says(kits: Kits) -> None:
    case = kits("pays").case(
        "desk", "Pay order 7", principal=Principal("ana"), budget=Budget(max_steps=1)
    )
    assert case.kill_at(CrashPoint.K8)
    outcome = case.finish()
    assert outcome.reason is Reason.MAX_STEPS
    assert outcome.budget.max_steps == 1


def test_deaths_follow_one_another(kits: Kits) -> None:
    """Each life goes on where the last one has left it, with the store of the case."""
    case = kits("pays").case("desk", "Pay order 7")
    points = (CrashPoint.K1, CrashPoint.K5, CrashPoint.R2, CrashPoint.K6, CrashPoint.R1)
    assert [case.kill_at(point) for point in points] == [True] * 5
    assert case.finish().completed
    case.check({"pay:7": 1})
    assert case.kills == 5


def test_two_workers_side_by_side(kits: Kits) -> None:
    """One is killed, and the other takes over once its lease is over."""
    case = kits("pays").case("desk", "Pay order 7")
    first = case.begin(CrashPoint.K1, lease_ttl=0.3)
    second = case.begin(lease_ttl=0.3)
    first.wait()
    assert not second.wait()
    assert case.finish().completed
    case.check({"pay:7": 1})


# ------------------------------------------------------------ what goes wrong by itself
@pytest.mark.parametrize("factory", ["no_such_module:make", f"{HERE}:no_such_factory"])
def test_a_factory_that_cannot_be_imported_is_one_sentence(tmp_path: Path, factory: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        CrashPoints(factory, tmp_path)
    assert str(error.value).startswith(f"factory = {factory!r} cannot be imported (")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("factory", "agent", "says"),
    [
        ("fails", "desk", "the factory failed with RuntimeError: no password"),
        ("nothing", "desk", "the factory returned None; return an Agent, or a list of them"),
        ("asks", "office", "this runtime has no agent named 'office'; it has: desk"),
    ],
)
def test_agents_that_cannot_be_made_are_one_sentence(
    kits: Kits, factory: str, agent: str, says: str
) -> None:
    case = kits(factory).case(agent, "go")
    with pytest.raises(ConfigurationError) as error:
        case.finish()
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("life", "says"),
    [
        ({"occurrence": 0}, "occurrence=0: Input should be greater than"),
        ({"cancel_at": "K99"}, "cancel_at='K99': Input should be 'K0', "),
        ({"settle": 5}, "settle=5: Input should be "),
    ],
)
def test_a_life_that_cannot_be_meant_so_is_one_sentence_and_the_kit_goes_on(
    kits: Kits, life: dict[str, Any], says: str
) -> None:
    case = kits("pays").case("desk", "go")
    with pytest.raises(ConfigurationError) as error:
        case.begin(**life)
    assert str(error.value).startswith(f"a life cannot begin so: {says}")
    assert case.finish().completed


def test_a_process_that_ends_by_itself_was_not_killed_by_the_kit(kits: Kits) -> None:
    case = kits("dies").case("desk", "go")
    with pytest.raises(AssertionError, match="has failed by itself: exit code 3"):
        case.kill_at(CrashPoint.K13)


def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    with CrashPoints(f"{HERE}:hangs", tmp_path, limit=0.2) as crash:
        case = crash.case("desk", "go")
        with pytest.raises(AssertionError, match="has failed by itself: exit code -9"):
            case.finish()


def test_it_is_told_where_there_is_no_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(ConfigurationError, match="run these tests on Linux or macOS"):
        CrashPoints(f"{HERE}:pays", tmp_path)
