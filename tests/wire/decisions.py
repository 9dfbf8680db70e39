"""Random committed turns, as strategies: what a journal may hold of a model's decisions."""

from __future__ import annotations

from hypothesis import strategies as st

from loopwright.protocol import (
    RESERVED_TOOLS,
    BrokenCall,
    CallId,
    CannotContinue,
    Clarification,
    Decision,
    Effect,
    ErrorCategory,
    Final,
    Handoff,
    History,
    InvocationId,
    JsonObject,
    JsonValue,
    ModelRequest,
    Principal,
    ProgressNote,
    Proposal,
    RequestApproval,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    ToolSpec,
    Turn,
    TurnCommitted,
    Usage,
    calls_of,
    encode_record,
)

AGENTS = ("billing", "refunds")
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SAID = TEXTS.filter(lambda text: bool(text.strip()))
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True).filter(
    lambda name: name not in RESERVED_TOOLS
)
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS: st.SearchStrategy[JsonObject] = st.dictionaries(TEXTS, JSON, max_size=3)


@st.composite
def tool_calls(draw: st.DrawFn, turn: int) -> tuple[ToolCall, ...]:
    """Draw a batch whose ids no turn has used before, and every provider would take back."""
    ids = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    return tuple(
        ToolCall(CallId(f"{call_id}-{turn}"), draw(NAMES), draw(OBJECTS)) for call_id in ids
    )


@st.composite
def decisions(draw: st.DrawFn, turn: int, *, output: bool) -> Decision:
    """Draw a decision as a provider can produce it; with an output type, a final carries one."""
    match draw(st.sampled_from(("final", "calls", "approval", "ask", "cannot", "handoff"))):
        case "final":
            return Final(draw(TEXTS), draw(OBJECTS)) if output else Final(draw(SAID))
        case "calls":
            return ToolCalls(draw(tool_calls(turn)), draw(TEXTS))
        case "approval":
            return RequestApproval(draw(tool_calls(turn)), draw(TEXTS))
        case "ask":
            return Clarification(draw(SAID))
        case "cannot":
            return CannotContinue(draw(SAID), draw(TEXTS))
        case _:
            lists = st.lists(TEXTS, max_size=2).map(tuple)
            evidence = tuple(CallId(call_id) for call_id in draw(st.lists(NAMES, max_size=2)))
            note = ProgressNote(draw(lists), draw(lists), evidence)
            calls = draw(st.just(()) | tool_calls(turn))
            return Handoff(draw(st.sampled_from(AGENTS)), draw(TEXTS), note, calls)


@st.composite
def results(draw: st.DrawFn, decision: Decision) -> tuple[ToolResult, ...]:
    """Draw a result for each call."""
    found: list[ToolResult] = []
    for call in calls_of(decision):
        status = draw(st.sampled_from(list(ResultStatus)))
        error = None
        if status is not ResultStatus.OK:
            error = ToolError(draw(st.sampled_from(list(ErrorCategory))), "Kind", draw(TEXTS))
        output = draw(JSON) if status is ResultStatus.OK else None
        found.append(ToolResult(call.call_id, call.tool_name, status, output, error))
    return tuple(found)


@st.composite
def turns(draw: st.DrawFn, *, output: bool = False) -> list[Turn]:
    """Draw the turns of a journal."""
    found: list[Turn] = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        decision = draw(decisions(number, output=output))
        proposal = Proposal(decision, Usage(1, 1), context_digest="d")
        record = TurnCommitted(number, proposal, draw(results(decision)), 0, 0.0, 0.0)
        answer = draw(st.none() | SAID) if isinstance(decision, Clarification) else None
        found.append(turn_of(record, draw(st.none() | SAID), answer))
    return found


def turn_of(record: TurnCommitted, notice: str | None = None, answer: str | None = None) -> Turn:
    """Make a turn as the history has it."""
    return Turn(record.turn, encode_record(record), notice, answer)


def request_of(
    history: list[Turn], *, output: bool = False, goal: str = "the goal", **fields: object
) -> ModelRequest:
    """Make what a model is asked after these turns."""
    spec = ToolSpec("look", "Look.", {"type": "object", "properties": {}}, Effect.READ)
    request = ModelRequest(
        InvocationId("i"),
        len(history) + 1,
        "desk",
        "Do it.",
        goal,
        History(history),
        (spec,),
        Principal(),
        handoffs=AGENTS,
        output_schema=SCHEMA if output else None,
    )
    for name, value in fields.items():
        object.__setattr__(request, name, value)
    return request


def broken(call_id: str, name: str = "look") -> BrokenCall:
    """Make a call whose arguments could not be read."""
    return BrokenCall(CallId(call_id), name, "not JSON", '{"a":')
