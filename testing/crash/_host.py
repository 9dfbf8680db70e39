"""The host of a kit's processes: imports once, and forks a child for each life.

Run as `python -m loopwright.testing.crash._host` by `CrashPoints`. It has one thread, so that it
can be forked safely. One line of JSON comes in per command, one goes out per answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from pydantic import ValidationError

from loopwright.actors import Agent, Runtime
from loopwright.protocol import ConfigurationError, Final, dumps, loads

from .._model import ScriptedModel
from ._life import Spec, live, resolve, specs

_CHUNK = 65_536


class Host:
    """Begins lives, and waits for their end.

    Args:
        factory: Makes the agents, in each life anew.
    """

    def __init__(self, factory: Callable[..., object]) -> None:
        self._factory = factory
        self._heard: dict[int, int] = {}
        """By process, where what it says can be read."""

    def begin(self, spec: Spec) -> int:
        """Fork a child that lives; return its process id."""
        heard, said = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(heard)
            _be_child(self._factory, spec, said)
        os.close(said)
        self._heard[pid] = heard
        return pid

    def wait(self, pid: int, limit: float) -> tuple[int, bytes]:
        """Wait for a child's end, and kill it if that takes too long.

        Returns:
            Its exit code, negative for a signal, and what it has said.
        """
        heard, said, until = self._heard.pop(pid), b"", time.monotonic() + limit
        while True:
            left = max(0.0, until - time.monotonic())
            ready, _, _ = select.select([heard], [], [], left)
            if not ready:
                os.kill(pid, signal.SIGKILL)
                break
            chunk = os.read(heard, _CHUNK)
            if not chunk:
                break
            said += chunk
        os.close(heard)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), said

    def close(self) -> None:
        """Kill whoever still lives."""
        for pid in tuple(self._heard):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.wait(pid, 5.0)


def _be_child(factory: Callable[..., object], spec: Spec, said: int) -> NoReturn:
    """Live; nothing of the host's may be touched, and nothing of it may run at the end."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.write(said, dumps(_said(factory, spec)))
        code = 0
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def _said(factory: Callable[..., object], spec: Spec) -> dict[str, str]:
    try:
        return {"reason": asyncio.run(live(factory, spec))}
    except ConfigurationError as error:
        return {"configuration": str(error)}
    except TimeoutError:
        return {"error": f"it did not come to rest within {spec.limit} s"}
    except BaseException as error:  # noqa: BLE001 - the factory and all it brings is foreign code
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{first['loc'][0]}={first['input']!r}: {first['msg']}"


async def _warm_up() -> None:
    """Do once what every child would have to do by itself: late imports, and building validators."""
    agent = Agent("host", model=ScriptedModel([Final("warm")]))
    async with Runtime([agent]) as runtime:
        await runtime.state((await runtime.run(agent.name, "warm up")).invocation_id)


def main() -> None:
    """Answer commands until standard input ends."""
    commands, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What anybody prints, here or in a child, must not end up among the answers.
    os.dup2(2, 1)

    def answer(**what: object) -> None:
        answers.write(dumps(what) + b"\n")
        answers.flush()

    first: Any = loads(commands.readline())
    sys.path[:] = first["path"]
    try:
        host = Host(resolve(first["factory"], "factory"))
        asyncio.run(_warm_up())
    except ConfigurationError as error:
        answer(error=str(error))
        return
    answer(ready=True)
    try:
        for line in commands:
            command: Any = loads(line)
            if "begin" in command:
                try:
                    spec = specs.validate_python(command["begin"])
                except ValidationError as error:
                    answer(error=f"a life cannot begin so: {_first_problem(error)}")
                    continue
                answer(pid=host.begin(spec))
            else:
                code, said = host.wait(command["wait"], command["limit"])
                answer(code=code, said=loads(said) if said else {})
    finally:
        host.close()


if __name__ == "__main__":
    main()
