"""The README's state diagram is the table, drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwright.protocol import TABLE, ConfigurationError, RunState
from loopwright.protocol._diagram import BEGIN, END, main, state_diagram, with_diagram

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_shows_the_table_of_today() -> None:
    """If not, run `python -m loopwright.protocol._diagram README.md`."""
    text = README.read_text(encoding="utf-8")
    assert with_diagram(text, "README.md") == text


def test_every_step_of_the_table_is_drawn_or_told_in_the_note() -> None:
    """Nothing but staying in a state is left out."""
    diagram, note = state_diagram().split("    note left of CANCELLING\n")
    for source, row in TABLE.items():
        for trigger, targets in row.items():
            name = "at once" if trigger.__name__ == "Entered" else trigger.__name__
            for target in targets - {source}:
                arrows = [
                    line for line in diagram.splitlines() if f" {source} --> {target}: " in line
                ]
                told = [
                    line
                    for line in note.splitlines()
                    if source in line.split() or f"{source}," in line
                ]
                shown = [*arrows, *told] if target is RunState.CANCELLING else arrows
                assert any(name in line for line in shown), (source, name, target)


def test_the_diagram_replaces_what_stood_between_the_markers(tmp_path: Path) -> None:
    """The rest of the file stays as it is, and doing it twice changes nothing more."""
    file = tmp_path / "README.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    main(file)
    once = file.read_text(encoding="utf-8")
    assert once == f"before\n{BEGIN}\n```mermaid\n{state_diagram()}```\n{END}\nafter\n"
    main(file)
    assert file.read_text(encoding="utf-8") == once


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}"])
def test_a_text_without_a_place_for_it_is_refused(text: str) -> None:
    """The error names the text and what to add."""
    with pytest.raises(ConfigurationError, match="notes has no place for the state diagram"):
        with_diagram(text, "notes")
