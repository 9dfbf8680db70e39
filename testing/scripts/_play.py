"""Playing a script against the whole runtime: the real one, on virtual time and in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, assert_never

from anyio.lowlevel import checkpoint

from loopwright.actors import Agent, Run, Runtime, ToolFailure
from loopwright.protocol import (
    Budget,
    ConfigurationError,
    LoopwrightError,
    ModelReply,
    Outcome,
    StoreError,
)

from .._clock import settle
from .._model import USAGE
from ._expectations import check_expectation, check_request
from ._file import parse_script
from ._lives import Lives
from ._messages import ScriptMismatchError
from ._patterns import Difference, differences
from ._stand_ins import Asked, Event, Questioned, Started
from ._steps import (
    AdvanceStep,
    AnswerStep,
    ApproveStep,
    CancelStep,
    CrashStep,
    DecideStep,
    DecisionPart,
    DenyStep,
    ErrorPart,
    ExecuteStep,
    Expectation,
    ExpectStep,
    FailCommitStep,
    GrantStep,
    ReconcileStep,
    RecoverStep,
    ReplyPart,
    Script,
    SettleStep,
    Step,
    finding,
)

_TICKS: Final = 1_000
"""Turns of the loop within which whatever needs no time has happened."""
_NO_GRANT: Final = Budget(max_steps=None)
_WITHOUT_PROCESS: Final = (RecoverStep, AdvanceStep, ExpectStep, FailCommitStep)
"""Steps that make sense while no process is alive."""


async def play(script: Script | Mapping[str, Any], agents: Sequence[Agent] = ()) -> Outcome | None:
    """Play a script against the real runtime; no real time passes.

    Strict both ways: every decision asked for and every tool body started must be mentioned by
    a step, and every step must find what it is about; the same holds for every question that a
    reconciler is asked. The bodies of all tools, their reconcilers and the model are the script's.

    Args:
        script: A parsed script, or Python values of the same form.
        agents: Who may be run; not looked at where the script declares its own tools.

    Returns:
        How the invocation came to rest; `None` if the script leaves it running.

    Raises:
        ScriptMismatchError: If anything is not as the script says; names the first difference.
        ConfigurationError: If the script cannot be read, or its agent cannot be made.
    """
    parsed = script if isinstance(script, Script) else parse_script(script)
    lives, document = Lives(parsed, agents), parsed.document
    budget = lives.agent.budget
    if document.budget is not None:
        try:
            budget = document.budget.over(budget, lives.clock.now().wall)
        except ConfigurationError as error:
            raise ConfigurationError(f"{parsed.name}: {error}") from None
    await lives.begin()
    try:
        run = await lives.runtime.start(lives.agent.name, document.goal, budget=budget)
        player = _Player(parsed, lives, run)
        try:
            await player.play()
        finally:
            await player.close()
        return player.outcome
    finally:
        await lives.close()


class _Player:
    """One script while it is played."""

    def __init__(self, script: Script, lives: Lives, run: Run) -> None:
        self._script = script
        self._lives = lives
        self._run = run
        self._number = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.outcome: Outcome | None = None
        self._follow(None)

    async def play(self) -> None:
        for number, step in enumerate(self._script.document.script, 1):
            self._number = number
            await self._play(step)
            await settle()
            self._look_after_tasks()
        self._number += 1
        if self._script.document.expect is not None:
            await self._expect(self._script.document.expect)
        await settle(_TICKS)
        self._look_after_tasks()
        self._nothing_more()
        if self._lives.store.failures_left:
            raise self._mismatch("an append that fails", "no append after fail_commit")

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _runtime(self) -> Runtime:
        return self._lives.runtime

    @property
    def _unmentioned(self) -> list[Event]:
        return self._lives.world.unmentioned()

    def _nothing_more(self) -> None:
        for event in self._unmentioned:
            raise self._mismatch("nothing more", str(event))

    async def _play(self, step: Step) -> None:
        if not self._lives.alive and not isinstance(step, _WITHOUT_PROCESS):
            raise self._mismatch(
                "a process that is alive", "it has crashed; write `recover:` first"
            )
        match step:
            case DecideStep():
                await self._decide(step)
            case ExecuteStep():
                await self._execute(step)
            case CrashStep():
                await self._crash(step)
            case RecoverStep():
                await self._recover()
            case ReconcileStep():
                await self._reconcile(step)
            case AdvanceStep(advance=seconds):
                await self._lives.clock.advance(seconds)
            case ApproveStep() | DenyStep():
                await self._answer_approval(step)
            case AnswerStep(answer=text, by=by):
                self._follow(self._runtime.answer(self._run.id, text, by=by))
            case SettleStep(settle=call, found=found, by=by, turn=turn):
                said = finding(found)
                self._follow(self._runtime.settle(self._run.id, call, said, by=by, turn=turn))
            case CancelStep(cancel=how):
                self._follow(
                    self._runtime.cancel(self._run.id, how.reason, by=how.by, hard=how.hard)
                )
            case GrantStep(grant=more, by=by):
                grant = more.over(_NO_GRANT, self._lives.clock.now().wall)
                self._follow(self._runtime.resume(self._run.id, grant=grant, by=by))
            case FailCommitStep(fail_commit=kind):
                transient = kind == "transient"
                error = StoreError("the script lets this append fail", transient=transient)
                self._lives.store.fail_next(error)
            case ExpectStep(expect=expected):
                await self._expect(expected)
            case _:
                assert_never(step)

    # ------------------------------------------------------------ the model and the tools
    async def _decide(self, step: DecideStep) -> None:
        def find() -> Asked | None:
            waiting = (event for event in self._unmentioned if isinstance(event, Asked))
            return next(waiting, None)

        asked = await self._find(find, "the model to be asked for a decision")
        self._report(check_request(step.request, asked.request))
        asked.mentioned = True
        said = step.decide
        if not isinstance(said, DecisionPart):
            return
        if asked.reply.done():
            raise self._mismatch("the model to be waited for", "the model call was given up")
        if "error" in said.model_fields_set:
            asked.reply.set_exception(RuntimeError(said.error))
            return
        usage = USAGE if step.usage is None else step.usage.usage()
        asked.reply.set_result(ModelReply(said.decision(), usage, model="scripted"))

    async def _execute(self, step: ExecuteStep) -> None:
        started = await self._started(step)
        if not isinstance(step.reply, ReplyPart):
            return
        if started.reply.done():
            raise self._mismatch(f"call {step.execute!r} to run", "it was interrupted")
        match step.reply.error:
            case ErrorPart(category=category, message=message, retryable=retryable):
                failure = ToolFailure(message, category=category, retryable=retryable)
                started.reply.set_exception(failure)
            case None:
                started.reply.set_result(step.reply.ok)

    async def _started(self, step: ExecuteStep | CrashStep) -> Started:
        def find() -> Started | None:
            for event in self._unmentioned:
                if isinstance(event, Started) and event.call_id == step.execute:
                    return event
            return None

        started: Started = await self._find(find, f"call {step.execute!r} to be started")
        if step.arguments is not None:
            self._report(differences(step.arguments, started.arguments, "arguments"))
        started.mentioned = True
        return started

    async def _reconcile(self, step: ReconcileStep) -> None:
        def find() -> Questioned | None:
            for event in self._unmentioned:
                if isinstance(event, Questioned) and event.call_id == step.reconcile:
                    return event
            return None

        wanted = f"what became of call {step.reconcile!r} to be asked"
        questioned: Questioned = await self._find(find, wanted)
        questioned.mentioned = True
        if step.reply == "hang":
            return
        if questioned.reply.done():
            raise self._mismatch("an answer to be waited for", "the question was given up")
        questioned.reply.set_result(finding(step.reply))

    # ------------------------------------------------------------ dying and going on
    async def _crash(self, step: CrashStep) -> None:
        if (await self._started(step)).reply.done():
            raise self._mismatch(f"call {step.execute!r} to run", "it was interrupted")
        self._nothing_more()
        # The process first, before anything else can happen in it.
        await self._lives.crash()
        await self.close()
        self.outcome = None

    async def _recover(self) -> None:
        if self._lives.alive:
            raise self._mismatch("a crash before it", self._situation())
        await self._lives.follow()
        self._run = self._runtime.get(self._run.id)
        self._follow(self._take_over())

    async def _take_over(self) -> None:
        taken = [run.id for run in await self._runtime.recover()]
        if taken != [self._run.id]:
            raise self._mismatch("the invocation to be taken over", "nothing to take over")

    async def _find(self, find: Callable[[], Any], wanted: str) -> Any:
        """Let everything happen that needs no time, until what is wanted is there."""
        for _ in range(_TICKS):
            found = find()
            if found is not None:
                return found
            await checkpoint()
        raise self._mismatch(wanted, self._situation())

    # ------------------------------------------------------------ people
    async def _answer_approval(self, step: ApproveStep | DenyStep) -> None:
        proposal = (await self._runtime.state(self._run.id)).proposal()
        if proposal is None:
            raise self._mismatch("calls that wait for an approval", self._situation())
        digest, run, by = proposal.digest, self._run.id, step.by
        chosen = step.approve if isinstance(step, ApproveStep) else step.deny
        calls = None if chosen is True else chosen
        if isinstance(step, ApproveStep):
            said = self._runtime.approve(run, digest, by=by, calls=calls, edits=step.edits)
        else:
            said = self._runtime.deny(run, digest, by=by, calls=calls, reason=step.reason)
        self._follow(said)

    def _follow(self, said: Coroutine[Any, Any, object] | None) -> None:
        """Say something, if anything, and wait in the background for the next rest.

        Nothing is awaited here: what is said may need time to become durable, or a tool's
        reply, and both are later steps of the script.
        """
        self.outcome = None
        self._tasks.append(asyncio.create_task(self._wait_for_rest(said)))

    async def _wait_for_rest(self, said: Coroutine[Any, Any, object] | None) -> None:
        if said is not None:
            await said
        self.outcome = await self._run.outcome()

    def _look_after_tasks(self) -> None:
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.remove(task)
            error = task.exception()
            if isinstance(error, LoopwrightError):
                refused = f"refused: {type(error).__name__}: {error}"
                raise self._mismatch("what was said to be accepted", refused)
            if error is not None:
                raise error

    # ------------------------------------------------------------ what must have come of it
    async def _expect(self, expected: Expectation) -> None:
        if expected.reason is not None:
            await self._find(lambda: self.outcome, f"to rest with {expected.reason}")
        state = await self._lives.durable(self._run.id)
        self._report(check_expectation(expected, self.outcome, state))

    def _report(self, found: Iterable[Difference]) -> None:
        for difference in found:
            raise self._mismatch(f"{difference.path}: {difference.expected}", difference.got)

    def _situation(self) -> str:
        """Say what is going on instead."""
        if not self._lives.alive:
            return "the process has crashed"
        waiting = [str(event) for event in self._unmentioned if not event.reply.done()]
        if waiting:
            return ", ".join(waiting)
        if self.outcome is None:
            return "nothing new; the invocation runs"
        cause = f" ({self.outcome.cause})" if self.outcome.cause else ""
        return f"the invocation rests: {self.outcome.reason}{cause}"

    def _mismatch(self, expected: str, got: str) -> ScriptMismatchError:
        where = self._script.where(self._number)
        return ScriptMismatchError(f"{where}\n  expected: {expected}\n  got:      {got}")
