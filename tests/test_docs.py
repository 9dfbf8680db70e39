"""What the documents name is there: each promise its test, each link its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_promise_names_tests_that_exist() -> None:
    named = re.findall(r"`((?:[\w-]+/)+[\w*-]+\.py)`", GUARANTEES)
    assert len(named) > 10
    for path in named:
        assert list((ROOT / "tests").glob(path)), path


def test_every_case_a_promise_rests_on_is_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    cases = set(re.findall(r"\bB(\d\d+)\b", GUARANTEES))
    assert len(cases) > 10
    for case in cases:
        assert f"def test_b{case}_" in tests, f"B{case}"


def test_the_code_of_the_readme_is_what_is_type_checked() -> None:
    """`readme.py` has each of its lines, in their order, and is checked as all code is."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    checked = iter((ROOT / "tests" / "readme.py").read_text().splitlines())
    for line in code.splitlines():
        assert any(line.strip() == other.strip() for other in checked), line
