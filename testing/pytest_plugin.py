"""The pytest plugin: collects message scripts, `*.script.yaml`, and plays each as a test.

The ini option `loopwright_agents` names the agents that scripts without `tools:` of their own
may run, as `module:name` of a list of agents or of a function that returns one.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from loopwright.actors import Agent

_INI: Final = "loopwright_agents"
_SUFFIX: Final = ".script.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one ini option."""
    parser.addini(_INI, "agents that *.script.yaml files may run, as module:name", default="")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take message scripts."""
    if not file_path.name.endswith(_SUFFIX):
        return None
    return ScriptFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]  # untyped in pytest


class ScriptFile(pytest.File):
    """A file with one script."""

    def collect(self) -> Iterable[pytest.Item]:
        """Make the one test of this file; what is wrong with the file is a failure of the test."""
        name = self.path.name.removesuffix(_SUFFIX)
        yield ScriptItem.from_parent(self, name=name)  # pyright: ignore[reportUnknownMemberType]  # untyped in pytest


class ScriptFailedError(Exception):
    """Raised by the test of a script with all there is to report: it needs no traceback."""


class ScriptItem(pytest.Item):
    """A script as a test."""

    def runtest(self) -> None:
        """Play it.

        Raises:
            ScriptFailedError: With the first difference, or what is wrong with the file.
        """
        import anyio

        from loopwright.protocol import ConfigurationError
        from loopwright.testing import ScriptMismatchError, load_script, play

        try:
            anyio.run(play, load_script(self.path), _agents(self.config.getini(_INI)))
        except (ScriptMismatchError, ConfigurationError) as error:
            raise ScriptFailedError(str(error)) from error

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what the failure says and nothing else; a traceback for everything unforeseen.

        Nothing is imported here: what fails while pytest makes a report takes pytest with it,
        and a loopwright that cannot be imported is just what may have to be reported.
        """
        if isinstance(excinfo.value, ScriptFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name the script."""
        return self.path, 0, self.name


def _agents(name: str) -> list[Agent]:
    """Find the agents of the ini option.

    Raises:
        ConfigurationError: If it does not lead to agents.
    """
    from loopwright.actors import Agent
    from loopwright.protocol import ConfigurationError

    if not name:
        return []
    try:
        found: Any = pkgutil.resolve_name(name)
        if callable(found):
            found = found()
        agents: list[object] = list(found)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        msg = f"ini option {_INI} = {name!r}: {error}; give module:name of a list of agents"
        raise ConfigurationError(msg) from None
    if not all(isinstance(agent, Agent) for agent in agents):
        msg = f"ini option {_INI} = {name!r} leads to something else; give a list of agents"
        raise ConfigurationError(msg)
    return [agent for agent in agents if isinstance(agent, Agent)]
