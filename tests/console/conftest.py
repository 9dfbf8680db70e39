"""A command line in a folder of its own, as a user types it."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loopwright.console import main

APPS = ("firm.py", "office.py", "till.py")


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object it printed."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def lines(self) -> list[Any]:
        """The objects it printed, one on each line."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory; the apps are there for tests that bring an app."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("LOOPWRIGHT_APP", "LOOPWRIGHT_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for app in APPS:
        shutil.copy(Path(__file__).with_name(app), tmp_path)
    known = set(sys.modules)
    yield tmp_path
    # The next test's modules have the same names, and other contents.
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def office(folder: Path) -> Any:
    """The test app, imported from the working directory."""
    sys.path.insert(0, str(folder))
    return importlib.import_module("office")


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run `loopwright` with these words, in this process."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = main(words)
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return run
