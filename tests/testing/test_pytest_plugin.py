"""The plugin collects `*.script.yaml`, reports the first difference, and costs others nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

PASSING = "agent: desk\ngoal: g\nscript:\n  - decide: {final: done}\nexpect: {answer: done}\n"


def script(pytester: pytest.Pytester, name: str, text: str) -> None:
    (pytester.path / f"{name}.script.yaml").write_text(text, "utf-8")


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    # Hypothesis imports itself anew in each run, which takes longer than all the rest.
    return pytester.runpytest("-p", "no:hypothesispytest", *options)


def test_scripts_are_collected_and_other_files_are_not(pytester: pytest.Pytester) -> None:
    script(pytester, "answer", PASSING)
    (pytester.path / "other.yaml").write_text("a: 1\n", "utf-8")
    result = run(pytester, "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["answer.script.yaml::answer PASSED*"])


def test_a_failure_is_the_first_difference_and_no_traceback(pytester: pytest.Pytester) -> None:
    script(
        pytester, "answer", PASSING.replace("expect: {answer: done}", "expect: {answer: nothing}")
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*answer.script.yaml: end",
            "  expected: answer: 'nothing'",
            "  got:      'done'",
        ]
    )
    result.stdout.no_fnmatch_line("*_play.py*")


def test_an_unreadable_script_is_a_failure_in_one_line(pytester: pytest.Pytester) -> None:
    script(pytester, "answer", PASSING.replace("goal", "gaol"))
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*answer.script.yaml:2: gaol: is not a known key*"])


def test_a_loopwright_that_cannot_be_imported_is_a_failure_like_any_other(
    pytester: pytest.Pytester,
) -> None:
    """Not an INTERNALERROR of pytest, which would end all other tests."""
    script(pytester, "answer", PASSING)
    pytester.makeconftest(
        "import sys\n"
        "def pytest_runtest_call(item):\n"
        "    sys.modules['loopwright.testing'] = sys.modules['loopwright.protocol'] = None\n"
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ModuleNotFoundError*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


AGENTS = """
from loopwright import Agent, tool
from loopwright.testing import ScriptedModel

@tool(effect="read")
async def look(key: str) -> str:
    ...

AGENTS = [Agent("desk", model=ScriptedModel([]), tools=[look])]

def make_agents():
    return AGENTS
"""
WITH_TOOL = """
agent: desk
goal: look
script:
  - decide: {tool_calls: [{call_id: a, tool_name: look, arguments: {key: x}}]}
  - execute: a
    reply: {ok: there}
  - decide: {final: there}
expect: {reason: completed, results: {a: ok}}
"""


@pytest.mark.parametrize("name", ["AGENTS", "make_agents"])
def test_agents_come_from_the_ini_option(pytester: pytest.Pytester, name: str) -> None:
    pytester.makepyfile(plugin_agents=AGENTS)
    pytester.syspathinsert()
    pytester.makeini(f"[pytest]\nloopwright_agents = plugin_agents:{name}\n")
    script(pytester, "look", WITH_TOOL)
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:AGENTS", "No module named 'no_such_module'"),
        ("plugin_agents:NONE", "has no attribute 'NONE'"),
        ("plugin_agents:look", "give module:name of a list of agents"),
        ("plugin_agents:__name__", "leads to something else; give a list of agents"),
    ],
)
def test_an_ini_option_that_leads_nowhere_is_one_sentence(
    pytester: pytest.Pytester, name: str, said: str
) -> None:
    pytester.makepyfile(plugin_agents=AGENTS)
    pytester.syspathinsert()
    pytester.makeini(f"[pytest]\nloopwright_agents = {name}\n")
    script(pytester, "look", WITH_TOOL)
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"ini option loopwright_agents = '{name}'*{said}*"])


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    """Every project with loopwright installed has it loaded, whether it uses it or not."""
    code = (
        "import sys, pytest, loopwright.testing.pytest_plugin; "
        "print([m for m in ('pydantic', 'pykka', 'orjson', 'yaml', 'asyncio', 'anyio') "
        "if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
