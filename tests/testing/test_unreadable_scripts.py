"""An unreadable script is refused with one sentence: the file, the line, the path, what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loopwright.protocol import ConfigurationError
from loopwright.testing import load_script, parse_script

HEAD = "agent: desk\ngoal: g\n"

REFUSALS = {
    "empty": ("", "line 1: the file is empty; write at least agent, goal and script"),
    "bad yaml": (f"{HEAD}script: [", "line 3: not valid YAML: "),
    "bad date": (f"{HEAD}script: 2026-13-45", "month must be in 1..12"),
    "unknown yaml tag": (f"{HEAD}script: !!python/name:os.system", "line 3: not valid YAML: "),
    "two equal keys": (
        f"{HEAD}script: []\ngoal: h\n",
        "line 4: the key 'goal' is there twice; remove one",
    ),
    "no mapping": ("- a\n", ":1: the document: must be a mapping with agent, goal and script"),
    "not json": (f"{HEAD}script: []\nexpect: 2026-01-01\n", "; quote what is meant as text"),
    "an alias into itself": (f"{HEAD}script: &a [*a]\n", "script"),
    "missing key": ("agent: desk\nscript: []\n", ":1: goal: is missing"),
    "unknown key": (f"{HEAD}script: []\nagnet: x\n", ":4: agnet: is not a known key"),
    "unknown key in a step": (
        f"{HEAD}script:\n  - decide: hang\n  - advance: 1\n    by: bo\n",
        ":6: script[1].by: is not a known key",
    ),
    "unknown key in a decision": (
        f"{HEAD}script:\n  - decide:\n      finale: done\n",
        ":5: script[0].decide.finale: is not a known key",
    ),
    "wrong type": (
        f"{HEAD}script:\n  - advance: soon\n",
        ":4: script[0].advance: Input should be a valid number",
    ),
    "a number for a text": (
        f"{HEAD}script:\n  - execute: 7\n    reply: hang\n",
        ":4: script[0].execute: Input should be a valid string",
    ),
    "a text for a number": (f"{HEAD}budget: {{max_steps: '4'}}\nscript: []\n", ":3: budget.max_s"),
    "time runs back": (f"{HEAD}script:\n  - advance: -1\n", ":4: script[0].advance: Input should"),
    "no verb": (
        f"{HEAD}script:\n  - by: bo\n",
        ":4: script[0]: a step needs exactly one of decide,",
    ),
    "two verbs": (
        f"{HEAD}script:\n  - approve: true\n    deny: true\n",
        ":4: script[0]: a step needs exactly one of decide,",
    ),
    "two decisions": (
        f"{HEAD}script:\n  - decide: {{final: a, clarification: b}}\n",
        ":4: script[0].decide: needs exactly one of tool_calls, final,",
    ),
    "two replies": (
        f"{HEAD}script:\n  - execute: a\n    reply: {{}}\n",
        ":5: script[0].reply: needs exactly one of ok, error",
    ),
    "no reply": (f"{HEAD}script:\n  - execute: a\n", ":4: script[0].reply: is missing"),
    "unknown reason": (
        f"{HEAD}script: []\nexpect: {{reason: done}}\n",
        ":4: expect.reason: Input should be 'completed'",
    ),
    "unknown effect class": (
        f"{HEAD}tools: {{t: {{effect: pure}}}}\nscript: []\n",
        ":3: tools.t.effect: Input should be 'read'",
    ),
    "unknown parameter type": (
        f"{HEAD}tools: {{t: {{effect: read, parameters: {{a: int}}}}}}\nscript: []\n",
        ":3: tools.t.parameters.a: Input should be 'string'",
    ),
    "crash in nothing": (
        f"{HEAD}script:\n  - crash: after_effect\n",
        ":4: script[0]: a step needs exactly one of decide,",
    ),
    "crash somewhere": (
        f"{HEAD}script:\n  - execute: a\n    crash: soon\n",
        ":5: script[0].crash: Input should be 'before_effect' or 'after_effect'",
    ),
    "crash and a reply": (
        f"{HEAD}script:\n  - execute: a\n    crash: after_effect\n    reply: hang\n",
        ":6: script[0].reply: is not a known key",
    ),
    "recover what": (
        f"{HEAD}script:\n  - recover: a\n",
        ":4: script[0].recover: Input should be True",
    ),
    "no answer of the reconciler": (
        f"{HEAD}script:\n  - reconcile: a\n",
        ":4: script[0].reply: is missing",
    ),
    "unknown answer of the reconciler": (
        f"{HEAD}script:\n  - reconcile: a\n    reply: perhaps\n",
        ":5: script[0].reply: Input should be a",
    ),
    "two answers of the reconciler": (
        f"{HEAD}script:\n  - reconcile: a\n    reply: {{applied: 1, rejected: x}}\n",
        ":5: script[0].reply: needs exactly one of applied, rejected",
    ),
    "settled as what": (
        f"{HEAD}script:\n  - settle: a\n    by: bo\n",
        ":4: script[0].found: is missing",
    ),
    "half a yes": (
        f"{HEAD}script:\n  - approve: false\n",
        ":4: script[0].approve: Input should be True, or: Input should be a valid array",
    ),
}


@pytest.mark.parametrize(("text", "said"), REFUSALS.values(), ids=REFUSALS)
def test_it_is_one_sentence_with_the_place(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "case.script.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as refused:
        load_script(path)
    sentence = str(refused.value)
    assert sentence.startswith(f"{path}:")
    assert said in sentence
    assert "\n" not in sentence


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load_script(tmp_path / "no.script.yaml")


def test_a_file_that_is_not_text_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "case.script.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="can't decode"):
        load_script(path)


def test_without_pyyaml_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "loopwright.testing.scripts._yaml", raising=False)
    with pytest.raises(ConfigurationError, match=r"needs PyYAML; run pip install 'loopwright\[te"):
        load_script(tmp_path / "case.script.yaml")


def test_python_values_and_a_file_are_the_same_script(tmp_path: Path) -> None:
    path = tmp_path / "case.script.yaml"
    path.write_text(f"{HEAD}script:\n  - decide: hang\n  - advance: 1\n", "utf-8")
    read = load_script(path)
    values = {"agent": "desk", "goal": "g", "script": [{"decide": "hang"}, {"advance": 1}]}
    assert read.document == parse_script(values).document
    assert [read.where(n) for n in (1, 2, 3)] == [
        f"{path}:4: step 1 (decide)",
        f"{path}:5: step 2 (advance)",
        f"{path}: end",
    ]
