"""The state diagram, drawn from the table: `python -m loopwright.protocol._diagram README.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from ._errors import ConfigurationError
from ._states import TABLE, Entered, RunState, Trigger

BEGIN = "<!-- state diagram: begin -->"
END = "<!-- state diagram: end -->"
_ENDS = (RunState.FINISHED, RunState.FAILED, RunState.CANCELLED)
_STOP = RunState.CANCELLING


def state_diagram() -> str:
    """Draw `TABLE` as a mermaid state diagram.

    Two things would hide all the rest: what leaves a state as it is, which is left out, and
    what leads from many states to `CANCELLING`, which a note tells instead of arrows.
    """
    stops = _stops()
    lines = ["stateDiagram-v2", f"    [*] --> {RunState.CREATED}"]
    for source in RunState:
        for target in RunState:
            triggers = [] if source is target else _triggers(source, target)
            if target is _STOP:
                triggers = [t for t in triggers if source not in stops.get(t, ())]
            if triggers:
                label = ", ".join(_name(trigger) for trigger in triggers)
                lines.append(f"    {source} --> {target}: {label}")
    lines += [f"    {end} --> [*]" for end in _ENDS]
    lines += [f"    note left of {_STOP}", *_note(stops), "    end note"]
    return "\n".join(lines) + "\n"


def with_diagram(text: str, where: str) -> str:
    """Put the diagram between the two markers of a text; `where` names the text in an error.

    Raises:
        ConfigurationError: If the text has not both markers, in this order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        msg = f"{where} has no place for the state diagram; add the lines {BEGIN} and {END}"
        raise ConfigurationError(msg)
    return f"{before}{BEGIN}\n```mermaid\n{state_diagram()}```\n{END}{after}"


def _triggers(source: RunState, target: RunState) -> list[Trigger]:
    return [trigger for trigger, targets in TABLE[source].items() if target in targets]


def _name(trigger: Trigger) -> str:
    return "at once" if trigger is Entered else trigger.__name__


def _working() -> list[RunState]:
    """List the states that wait for something and can still be stopped."""
    return [
        state
        for state in RunState
        if not state.at_rest and state is not _STOP and set(TABLE[state]) != {Entered}
    ]


def _stops() -> dict[Trigger, list[RunState]]:
    """Find what leads from more than one working state to `CANCELLING`, and from which."""
    found: dict[Trigger, list[RunState]] = {}
    for state in _working():
        for trigger in _triggers(state, _STOP):
            found.setdefault(trigger, []).append(state)
    return {trigger: states for trigger, states in found.items() if len(states) > 1}


def _note(stops: dict[Trigger, list[RunState]]) -> list[str]:
    working = _working()
    everywhere = [_name(t) for t, states in stops.items() if states == working]
    lines = [f"        From {', '.join(working)} by {', '.join(everywhere)}"]
    for trigger, states in stops.items():
        if states != working:
            lines.append(f"        From {', '.join(states)} by {_name(trigger)}")
    return lines


def main(path: Path) -> None:
    """Bring the diagram in a file up to date.

    Raises:
        ConfigurationError: If the file has no markers.
        OSError: If it can't be read or written.
    """
    text = path.read_text(encoding="utf-8")
    path.write_text(with_diagram(text, str(path)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
