"""The ToolExecutor: whatever a body does, its attempt gets one true answer."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from loopwright import ToolContext, ToolFailure, tool
from loopwright.actors import AnyTool, ToolExecutor
from loopwright.actors.kernel import ActorSystem, Request
from loopwright.protocol import Executed, ToolError
from loopwright.testing import Probe, VirtualClock, settle
from services.bench import error_type, escaping, execute, executor, held, unheard

pytestmark = pytest.mark.anyio


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddError(BaseException):
    """Neither an Exception nor anything Python knows."""


def raising(error: BaseException, *, write: bool = False, sync: bool = False) -> AnyTool:
    """Make a tool whose body raises."""
    register = tool(effect="manual" if write else "read", name="t")

    async def body() -> None:
        raise error

    def sync_body() -> None:
        raise error

    return register(sync_body) if sync else register(body)


def described(error: ToolError | None) -> tuple[str, str, str, bool]:
    assert error is not None
    return error.category.value, error.type, error.message, error.retryable


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ToolFailure("full", category="rate_limited"), ("rate_limited", "ToolFailure", "full")),
        (PermissionError("no"), ("permission", "PermissionError", "no")),
        (ZeroDivisionError("0"), ("internal", "ZeroDivisionError", "0")),
        (MuteError(), ("internal", "MuteError", "<its text cannot be read>")),
        (OddError("odd"), ("internal", "OddError", "odd")),
        (SystemExit(3), ("internal", "SystemExit", "3")),
        (asyncio.CancelledError("own"), ("internal", "CancelledError", "own")),
        (GeneratorExit("own"), ("internal", "GeneratorExit", "own")),
        (
            ExceptionGroup("g", [ExceptionGroup("h", [PermissionError("deep")]), ValueError()]),
            ("permission", "PermissionError", "deep"),
        ),
        (BaseExceptionGroup("g", [SystemExit(4)]), ("internal", "SystemExit", "4")),
        (ValueError("x" * 3_000), ("internal", "ValueError", "x" * 2_000 + "… (3000 characters)")),
        (ValueError("a\x1bb\nc"), ("internal", "ValueError", "a\\x1bb\\x0ac")),
    ],
)
async def test_what_a_body_raises_is_an_error_by_category(
    error: BaseException, expected: tuple[str, str, str], sync: bool
) -> None:
    """B90 and more: nothing a body raises escapes, and nothing of it is an answer of the runtime."""
    async with executor(raising(error, sync=sync)) as bench:
        result = await bench.run()

    assert result.status == "error"
    assert described(result.error) == (*expected, False)


@pytest.mark.parametrize("error", [TimeoutError("late"), ConnectionResetError("gone")])
async def test_a_bodys_own_timeout_is_no_timeout(error: Exception) -> None:
    """B89: it is a transient error, and may be tried again."""
    async with executor(raising(error)) as bench:
        result = await bench.run()

    assert result.status == "error"
    assert described(result.error) == ("transient", type(error).__name__, str(error), True)


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
@pytest.mark.parametrize("sync", [False, True])
async def test_a_write_that_was_torn_off_has_an_unknown_outcome(
    error: BaseException, sync: bool
) -> None:
    """No exit, and no cancellation, says that nothing has happened."""
    async with executor(raising(error, write=True, sync=sync)) as bench:
        result = await bench.run()

    assert result.status == "outcome_unknown"
    assert error_type(result) == type(error).__name__


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        PermissionError("no"),
        ToolFailure("busy", category="transient", retryable=True),
        OSError("disk"),
    ],
    ids=repr,
)
async def test_a_write_that_raises_has_failed(error: Exception, sync: bool) -> None:
    """An exception is the body's word that it failed, unless it says that it cannot know."""
    async with executor(raising(error, write=True, sync=sync)) as bench:
        assert (await bench.run()).status == "error"


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("no answer"),
        ConnectionResetError("gone"),
        BrokenPipeError("gone"),
        ConnectionError("gone"),
        ExceptionGroup("g", [TimeoutError("no answer")]),
    ],
    ids=repr,
)
async def test_a_write_whose_line_went_dead_has_an_unknown_outcome(
    error: Exception, sync: bool
) -> None:
    """The request may have arrived: only its answer has not."""
    async with executor(raising(error, write=True, sync=sync)) as bench:
        result = await bench.run()

    assert result.status == "outcome_unknown"
    assert result.error is not None
    assert result.error.category == "transient"
    assert result.attempts == 1


async def test_a_tool_that_knows_better_says_so() -> None:
    """It was refused before it was sent, say: a `ToolFailure` is its word that it failed."""

    @tool(effect="manual")
    async def pay() -> None:
        try:
            raise ConnectionRefusedError("nobody listens")
        except ConnectionError as error:
            raise ToolFailure("not sent", category="unavailable", retryable=True) from error

    async with executor(pay) as bench:
        result = await bench.run()

    assert result.status == "error"
    assert described(result.error) == ("unavailable", "ToolFailure", "not sent", True)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_keyboard_interrupt_reaches_the_loops_caller(sync: bool, grouped: bool) -> None:
    """B90: it is meant for the process, not for the model, also inside a group."""
    error: BaseException = KeyboardInterrupt("stop")
    if grouped:
        error = BaseExceptionGroup("g", [error])
    asked: list[Any] = []

    async def main() -> None:
        async with ActorSystem() as system:
            asker = Probe(system)
            asked.append(asker)
            made = raising(error, sync=sync)
            ref = system.start(ToolExecutor, made, VirtualClock(), held, unheard)
            ref.tell(Request(execute(made), asker.ref))
            await asyncio.Event().wait()

    assert isinstance(escaping(main()), KeyboardInterrupt)
    assert not any(executed.result.ok for executed in asked[0].messages)


async def test_an_answer_carries_its_ids() -> None:
    """Turn, attempt, call and key of the order; the context says the same to the body."""
    seen: list[ToolContext] = []

    @tool(effect="idempotent")
    async def pay(order: int, ctx: ToolContext) -> dict[str, int]:
        seen.append(ctx)
        return {"order": order}

    async with executor(pay) as bench:
        result = await bench.run("c9", attempt=2, order=7)
        executed = bench.asker.messages[0]

    assert isinstance(executed, Executed)
    assert (executed.turn, executed.attempt_id) == (1, "c9#2")
    assert (result.call_id, result.tool_name, result.attempts) == ("c9", "pay", 2)
    assert (result.status, result.output) == ("ok", {"order": 7})
    assert (seen[0].call_id, seen[0].attempt_id, seen[0].attempt) == ("c9", "c9#2", 2)


async def test_arguments_of_another_version_of_the_tool_are_an_error() -> None:
    """A journal may hold what an older version had checked; the body does not run."""

    @tool(effect="read")
    async def find(a: int) -> None:
        raise AssertionError

    async with executor(find) as bench:
        result = await bench.run(a="one")

    assert result.status == "error"
    assert described(result.error)[:2] == ("invalid_input", "InvalidArgumentsError")


async def test_what_has_no_json_form_is_still_ok() -> None:
    """The tool has run: that its value cannot be kept is no failure of it."""

    @tool(effect="read")
    async def find() -> object:
        return {"x": object()}

    async with executor(find) as bench:
        result = await bench.run()

    assert (result.status, result.output) == ("ok", {"unserializable": "object"})


async def test_a_context_variable_set_by_a_body_is_its_own() -> None:
    """Every attempt runs in a copy of its caller's context."""
    variable = contextvars.ContextVar("variable", default="unset")

    @tool(effect="read")
    async def find() -> str:
        before = variable.get()
        variable.set("by the body")
        return before

    async with executor(find) as bench:
        for caller in ("ann", "bob"):
            context = contextvars.copy_context()
            context.run(variable.set, caller)
            bench.ref.tell(Request(execute(find, caller), bench.asker.ref, context))
            await settle()
            assert context.run(variable.get) == caller

    assert [result.output for result in bench.answered] == ["ann", "bob"]


async def test_an_asker_that_is_gone_is_not_missed() -> None:
    """An answer to nobody disturbs nobody: the next one is answered."""

    @tool(effect="read")
    async def find() -> None: ...

    async with executor(find) as bench:
        gone = bench.asker.ref
        gone.kill()
        bench.start("c1")
        await settle()
        bench.asker = Probe(gone.cell.system)
        assert (await bench.run("c2")).ok
