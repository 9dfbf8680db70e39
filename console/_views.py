"""What people see of an invocation: how it stands, what it waits for, what they can type next."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from loopwright.actors import Waiting
from loopwright.protocol import (
    NO_COST,
    Budget,
    EffectEntry,
    EffectFact,
    Ending,
    InvocationId,
    InvocationState,
    Outcome,
    Reason,
    Record,
    Spent,
    Summary,
)

from ._panels import (
    FOUND_WORDS,
    YOU,
    attempts,
    fields,
    principal,
    proposal,
    settlement,
    settling,
    typed,
)
from ._session import Session, short
from ._tree import Caller, Tree, kept_aside, open_proposal
from ._watch import Lines, cut, plainly, receipt, value

_STYLES = {
    Ending.FINISHED: "green",
    Ending.SUSPENDED: "yellow",
    Ending.FAILED: "red",
    Ending.CANCELLED: "red",
}


def heading(what: str, invocation_id: str) -> RenderableType:
    """Name an invocation above its lines."""
    return Text.assemble((what, "bold"), f" {short(invocation_id)}")


def outcome(session: Session, done: Outcome, tree: Tree) -> RenderableType:
    """Say how an invocation came to rest, and what to do about it."""
    rows: list[tuple[str, RenderableType]] = [("reason", reason_text(done.reason))]
    rows += [("cause", plainly(done.cause))] if done.cause else []
    rows += [("answer", plainly(done.answer))] if done.answer else []
    rows += [("question", plainly(done.question))] if done.question else []
    rows.append(("spent", plainly(f"{spent(done.spent)}{kept(tree.root.state)}")))
    rows += [("effects", written(done.effects))] if done.effects else []
    rows += _waits_for(tree)
    if done.reason is not Reason.COMPLETED:
        rows.append(("next", plainly(done.reason.advice)))
    parts: list[RenderableType] = [Text(), fields(rows)]
    if not tree.below and done.proposal is not None and done.reason is Reason.APPROVAL_REQUIRED:
        parts += [Text(), proposal(session, done.invocation_id, done.proposal)]
    turns = done.partial.turns if done.partial is not None else 0
    if unsettled := _unsettled(tree, turns, done.effects):
        parts += [Text(), settlement(session, done.invocation_id, unsettled)]
    elif done.unresolved_effects:
        parts.append(_look(session, done.invocation_id))
    return Group(*parts, *_to_do(session, tree, done.reason))


def _unsettled(tree: Tree, turns: int, effects: Iterable[EffectEntry]) -> list[EffectEntry]:
    """List the writes of the turn behind `turns` that somebody has to settle for it to go on."""
    if tree.root.state.protocol.reason is not Reason.RECONCILIATION_REQUIRED:
        return []
    return [entry for entry in effects if entry.turn > turns and not entry.settled]


def _waits_for(tree: Tree) -> list[tuple[str, RenderableType]]:
    below = [f"{short(one.id)} ({one.state.protocol.agent})" for one in tree.below]
    return [("waits for", plainly(f"its children {', '.join(below)}"))] if below else []


def _to_do(session: Session, tree: Tree, reason: Reason | None) -> Iterator[RenderableType]:
    """List what can be typed: about what it waits for itself, or about what its children do."""
    if tree.below:
        yield from of_children(session, tree)
    else:
        for words in () if reason is None else _next(tree.root.id, reason):
            yield typed(session.command(*words))


def of_children(session: Session, tree: Tree) -> Iterator[RenderableType]:
    """Show what its children wait for, with commands that let them go on, and it with them."""
    questions = [one.invocation_id for one in tree.waiting if one.question]
    for one in tree.waiting:
        name = f"its child {short(one.invocation_id)} ({one.agent}) waits: "
        yield Text()
        yield Text.assemble(name, reason_text(one.reason), f", since {ago(one.since)}")
        if one.question:
            yield plainly(one.question)
        # Who answers the caller sees how that comes out; a text goes to the first who has asked.
        asked = tree.root.id if len(questions) == 1 else one.invocation_id
        yield from _waits(session, one, approve=tree.root.id, answer=asked)


def _waits(
    session: Session, one: Waiting, *, approve: str, answer: str
) -> Iterator[RenderableType]:
    if one.proposal is not None:
        yield proposal(session, approve, one.proposal)
    if one.reason is Reason.RECONCILIATION_REQUIRED:
        yield settlement(session, one.invocation_id, one.unresolved)
    for words in _next(answer, one.reason):
        yield typed(session.command(*words))


def waiting(session: Session, one: Waiting, root: InvocationId | None) -> RenderableType:
    """Show one invocation that waits for a person: what for, and what to type."""
    rows: list[tuple[str, RenderableType]] = [
        ("invocation", plainly(one.invocation_id)),
        ("agent", plainly(one.agent)),
        ("on behalf of", plainly(principal(one.principal))),
        ("goal", plainly(cut(one.goal))),
        ("waits", Text.assemble(reason_text(one.reason), f", since {ago(one.since)}")),
    ]
    rows += [("works for", plainly(root))] if root is not None else []
    rows += [("question", plainly(one.question))] if one.question else []
    own = one.invocation_id
    return Group(fields(rows), *_waits(session, one, approve=own, answer=own), Text())


def caller(session: Session, one: Caller) -> RenderableType:
    """Say how one stands that has called another one."""
    name = Text(f"its caller {short(one.invocation_id)} ({one.agent}): ")
    if one.outcome is None:
        return Text.assemble(name, "is at work elsewhere")
    said = Text.assemble(name, reason_text(one.outcome.reason))
    if one.outcome.answer:
        said.append(f", {cut(one.outcome.answer)}")
    if not one.unaware:
        return said
    said.append("; it does not know yet, and is told where its agent is by:")
    return Group(said, typed(session.command("recover")))


def _look(session: Session, invocation_id: str) -> RenderableType:
    """Lead to writes that are unresolved although nothing waits for them."""
    return typed(session.command("show", short(invocation_id), "--effects"))


def ledger(session: Session, facts: Sequence[EffectFact]) -> RenderableType:
    """Show everything the effect ledger says of one invocation."""
    if not facts:
        return plainly("no effects")
    calls = [fact.entry.call_id for fact in facts]
    parts: list[RenderableType] = []
    for fact in facts:
        entry = fact.entry
        rows: list[tuple[str, RenderableType]] = [
            ("tool", plainly(entry.tool_name)),
            ("call", plainly(f"{entry.call_id} of turn {entry.turn}, {attempts(entry)}")),
            ("changed", plainly(ago(fact.at))),
        ]
        if entry.arguments is not None:
            given = [(name, plainly(value(held))) for name, held in entry.arguments.items()]
            rows.append(("arguments", fields(given)))
        rows += [("receipt", plainly(value(entry.receipt)))] if entry.receipt is not None else []
        parts += [_effect(entry), Padding(fields(rows), (0, 0, 0, 2))]
        if entry.status == "outcome_unknown":
            words = settling(fact.invocation_id, entry)
            turn = ("--turn", str(entry.turn)) if calls.count(entry.call_id) > 1 else ()
            parts.append(typed(session.command("settle", *words, *turn)))
    if any(fact.entry.status == "outcome_unknown" for fact in facts):
        parts.append(plainly(FOUND_WORDS, "dim"))
    return Group(*parts)


def effects(facts: Sequence[EffectFact]) -> RenderableType:
    """Make a table of effects."""
    shown = table("id", "effect key", "tool", "status", "changed")
    for fact in facts:
        entry = fact.entry
        shown.add_row(
            short(fact.invocation_id),
            plainly(entry.effect_key),
            plainly(entry.tool_name),
            plainly(entry.status, _effect_style(entry)),
            ago(fact.at),
        )
    return shown


def listing(found: Sequence[Summary]) -> RenderableType:
    """Make a table of invocations."""
    shown = table("id", "agent", "state", "changed", "goal")
    for summary in found:
        shown.add_row(
            short(summary.invocation_id),
            plainly(summary.head.agent),
            _standing(summary),
            ago(summary.head.at),
            plainly(cut(summary.head.goal)),
        )
    return shown


def state(
    session: Session, summary: Summary, tree: Tree, records: Iterable[Record]
) -> RenderableType:
    """Show everything the journal says of one invocation."""
    held = tree.root.state
    p, business = held.protocol, held.business
    rows: list[tuple[str, RenderableType]] = [
        ("invocation", plainly(summary.invocation_id)),
        ("agent", plainly(f"{p.started.agent} {p.started.agent_version}")),
        ("goal", plainly(business.goal)),
        ("principal", plainly(p.started.principal.actor)),
        ("state", _standing(summary)),
    ]
    rows += [("key", plainly(p.started.key))] if p.started.key else []
    if (parent := p.started.parent) is not None:
        rows.append(("works for", plainly(f"{parent.invocation_id}, call {parent.call_id}")))
    rows += [("owner", plainly(_owner(summary)))] if summary.owner else []
    rows += [("cause", plainly(p.cause))] if p.cause else []
    rows += [("answer", plainly(business.answer))] if business.answer else []
    rows += [("question", plainly(p.question))] if p.question else []
    rows.append(("spent", plainly(f"{spent(held.spent)}{kept(held)}; {limits(p.budget)}")))
    effects = tuple(business.effects.values())
    rows += [("effects", written(effects))] if effects else []
    rows += _waits_for(tree)
    parts: list[RenderableType] = [fields(rows), Text()]
    lines = Lines()
    parts += [line for record in records for line in lines.of(record)]
    waiting = open_proposal(held)
    if waiting is not None and p.reason is Reason.APPROVAL_REQUIRED:
        parts += [Text(), proposal(session, summary.invocation_id, waiting)]
    if unsettled := _unsettled(tree, p.turn, effects):
        parts += [Text(), settlement(session, summary.invocation_id, unsettled)]
    elif not all(entry.settled for entry in effects):
        parts.append(_look(session, summary.invocation_id))
    return Group(*parts, *_to_do(session, tree, p.reason))


def recovered(count: int, woken: int, alive: Sequence[Summary]) -> RenderableType:
    """Say what recovery found."""
    more = f", {woken} woken" if woken else ""
    left = f"; {len(alive)} left to a worker that is alive" if alive else ""
    return plainly(f"{count} recovered{more}{left}")


def table(*columns: str) -> Table:
    """Make an empty table; its first column is never broken."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        made.add_column(column, overflow="fold", no_wrap=number == 0)
    return made


def reason_text(reason: Reason) -> Text:
    """Write a reason in the colour of its kind."""
    return plainly(str(reason), _STYLES[reason.outcome])


def _next(invocation_id: str, reason: Reason) -> list[tuple[str, ...]]:
    name = short(invocation_id)
    match reason:
        case Reason.CLARIFICATION_REQUIRED:
            return [("answer", name, "TEXT", "--by", YOU)]
        case Reason.MAX_STEPS:
            return [("resume", name, "--grant-steps", "5")]
        case Reason.TOOL_BUDGET_EXHAUSTED:
            return [("resume", name, "--grant-tool-calls", "5")]
        case Reason.TOKEN_BUDGET_EXHAUSTED:
            return [("resume", name, "--grant-tokens", "10000")]
        case Reason.TIME_BUDGET_EXHAUSTED:
            return [("resume", name, "--grant-seconds", "60")]
        case Reason.COST_BUDGET_EXHAUSTED:
            return [("resume", name, "--grant-cost", "0.10")]
        case Reason.TOOL_FAILURES_EXHAUSTED:
            return [("resume", name, "--grant-failures", "5")]
        case (
            Reason.MODEL_ERROR
            | Reason.TOOL_UNAVAILABLE
            | Reason.CHECKPOINT_FAILED
            | Reason.INTERNAL_ERROR
        ):
            return [("resume", name)]
        case _:
            return []


def _standing(summary: Summary) -> Text:
    reason = summary.head.reason
    if reason is not None:
        return reason_text(reason)
    if summary.owner_alive:
        return plainly("running", "cyan")
    return plainly("running, its worker is gone", "yellow")


def _owner(summary: Summary) -> str:
    return f"{summary.owner} ({'alive' if summary.owner_alive else 'gone'})"


def written(entries: Iterable[EffectEntry]) -> RenderableType:
    """List writes, and what is known of each."""
    lines = [
        Text.assemble(_effect(entry), "" if entry.receipt is None else f" {receipt(entry.receipt)}")
        for entry in entries
    ]
    return Group(*lines)


def _effect(entry: EffectEntry) -> Text:
    return Text.assemble(f"{cut(entry.effect_key)} ", (entry.status, _effect_style(entry)))


def _effect_style(entry: EffectEntry) -> str:
    if entry.status == "outcome_unknown":
        return "yellow"
    return "green" if entry.status == "committed" else ""


def spent(used: Spent) -> str:
    """Say what was used."""
    more = f", cost ${used.cost}" if used.cost else ""
    return (
        f"steps {used.steps}, tool calls {used.tool_calls}, tokens {used.usage.total}, "
        f"{used.active_seconds:.2f} s{more}"
    )


def kept(state: InvocationState) -> str:
    """Say what counts as used, and is only kept aside for children that are not over."""
    aside = kept_aside(state)
    calls = sum(one.tool_calls or 0 for one in aside)
    tokens = sum(one.tokens or 0 for one in aside)
    cost = sum((one.cost for one in aside if one.cost is not None), NO_COST)
    named = [f"{calls} tool calls"] if calls else []
    named += [f"{tokens} tokens"] if tokens else []
    named += [f"${cost}"] if cost else []
    return f" (of it kept aside for children: {', '.join(named)})" if named else ""


def limits(budget: Budget) -> str:
    """Say which limits there are."""
    known = {
        "steps": budget.max_steps,
        "tool calls": budget.max_tool_calls,
        "tokens": budget.max_tokens,
        "cost": budget.max_cost,
        "seconds": budget.max_active_seconds,
        "tool failures": budget.max_tool_failures,
        "handoffs": budget.max_handoffs,
    }
    named = [f"{name} {limit}" for name, limit in known.items() if limit is not None]
    named += [] if budget.deadline is None else [f"until {budget.deadline.isoformat()}"]
    return f"at most {', '.join(named)}" if named else "no limits"


def ago(at: float) -> str:
    """Say how long ago something was."""
    seconds = max(0, int(time.time() - at))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
