"""What must hold of a tree at rest, whatever has died in it: nothing twice, nothing lost, nothing too much."""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Decimal

from loopwright.protocol import (
    NO_COST,
    CallDispatched,
    Ending,
    Entry,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    InvocationState,
    ModelAttempted,
    Reason,
    TurnCommitted,
    TurnProposed,
    Usage,
    calls_of,
    fold,
)
from trees.forest import Grown


class Tree:
    """A tree that has grown, with its accounts made anew from its journals."""

    def __init__(self, grown: Grown) -> None:
        self.grown = grown
        self.root = grown.root
        self.started: dict[InvocationId, InvocationStarted] = {}
        self.children: dict[InvocationId, list[InvocationId]] = defaultdict(list)
        for identity, records in grown.journals.items():
            first = records[0]
            assert isinstance(first, InvocationStarted)
            self.started[identity] = first
            if first.parent is not None:
                self.children[first.parent.invocation_id].append(identity)

    def own_replies(self, identity: InvocationId) -> list[tuple[Usage, Decimal]]:
        """List what each of its own replies was charged, children aside."""
        charged: dict[int, tuple[Usage, Decimal]] = {}
        for record in self.grown.journals[identity]:
            if isinstance(record, TurnProposed | TurnCommitted):
                charged[record.turn] = record.proposal.usage, record.proposal.cost
            assert not isinstance(record, ModelAttempted)
        return [*charged.values()]

    def own_calls(self, identity: InvocationId) -> int:
        """Count the calls it has dispatched, those that stand for children among them."""
        records = self.grown.journals[identity]
        return sum(record.tool_calls for record in records if isinstance(record, TurnCommitted))

    def below(self, identity: InvocationId) -> list[InvocationId]:
        """List it and everything below it."""
        found = [identity]
        for child in self.children[identity]:
            found += self.below(child)
        return found

    def branches(self, identity: InvocationId) -> int:
        """Count the branches that may have been live at once: leaves below one turn, at most."""
        at_once: Counter[int] = Counter()
        for child in self.children[identity]:
            parent = self.started[child].parent
            assert parent is not None
            at_once[parent.turn] += self.branches(child)
        return max([1, *at_once.values()])


def check(grown: Grown) -> None:
    """Check all of it.

    Raises:
        AssertionError: Says what does not hold.
    """
    tree = Tree(grown)
    _check_journals(grown)
    _check_births(tree)
    _check_bodies(grown)
    for identity in grown.journals:
        _check_spending(tree, identity)
    _check_root(tree)


def _check_journals(grown: Grown) -> None:
    """Each runs from 1 to n, folds, and has one end, and nothing after it."""
    for identity, records in grown.journals.items():
        state = fold(
            [Entry(r, line) for r, line in zip(records, grown.lines[identity], strict=True)]
        )
        assert state.protocol.seq == len(records)
        ends = [seq for seq, record in enumerate(records, 1) if isinstance(record, InvocationEnded)]
        assert ends == [len(records)], f"{identity} has its ends at {ends} of {len(records)}"
        for record in records:
            if isinstance(record, TurnCommitted):
                wanted = [one.call_id for one in calls_of(record.proposal.decision)]
                got = [result.call_id for result in record.results]
                assert got in (wanted, []), f"{identity}, turn {record.turn}: {got} for {wanted}"


def _check_births(tree: Tree) -> None:
    """Each child belongs to one call that was dispatched, and no call has two."""
    born: set[object] = set()
    for identity, started in tree.started.items():
        parent = started.parent
        if parent is None:
            assert identity == tree.root
            continue
        call = parent.invocation_id, parent.turn, parent.call_id
        assert call not in born, f"two children for {call}"
        born.add(call)
        records = tree.grown.journals[parent.invocation_id]
        dispatched = [
            r.reserved
            for r in records
            if isinstance(r, CallDispatched)
            and (r.turn, r.call_id) == (parent.turn, parent.call_id)
        ]
        assert dispatched, f"{identity} was started, and its call was not dispatched"
        kept = dispatched[0]
        assert kept is not None
        budget = started.budget
        assert (budget.max_tool_calls, budget.max_tokens, budget.max_cost) == (
            kept.tool_calls,
            kept.tokens,
            kept.cost,
        ), f"{identity} may use something else than what is kept aside for it"


def _check_bodies(grown: Grown) -> None:
    """No write of the world is made that no journal knows, and none is made twice."""
    assert not [key for key, count in grown.world.effects.items() if count > 1]
    known = _known_calls(grown)
    for name, *call in grown.world.bodies:
        assert name == "look" or tuple(call) in known, f"{name} has run as {call}"


def _known_calls(grown: Grown) -> set[tuple[object, ...]]:
    """List the calls whose turn is durable: invocation, turn and call id."""
    return {
        (identity, record.turn, one.call_id)
        for identity, records in grown.journals.items()
        for record in records
        if isinstance(record, TurnProposed | TurnCommitted)
        for one in calls_of(record.proposal.decision)
    }


def _check_spending(tree: Tree, identity: InvocationId) -> None:
    """At every durable point, and over the whole tree below it."""
    grown, started = tree.grown, tree.started[identity]
    budget, everybody = started.budget, tree.below(identity)
    replies = [reply for one in everybody for reply in tree.own_replies(one)]
    longest = max([usage.total for usage, _ in replies], default=0)
    dearest = max([cost for _, cost in replies], default=NO_COST)
    branches = tree.branches(identity)
    calls = sum(tree.own_calls(one) for one in everybody)
    tokens = sum(usage.total for usage, _ in replies)
    cost = sum((cost for _, cost in replies), NO_COST)
    who = f"{identity} (seed {grown.planted.seed})"
    if budget.max_tool_calls is not None:
        assert calls <= budget.max_tool_calls, f"{who}: {calls} calls of {budget.max_tool_calls}"
    if budget.max_tokens is not None:
        most = budget.max_tokens + branches * longest if replies else 0
        assert tokens <= most, f"{who}: {tokens} tokens of {budget.max_tokens}, {branches} branches"
    if budget.max_cost is not None:
        most_cost = budget.max_cost + branches * dearest
        assert cost <= most_cost, f"{who}: {cost} of {budget.max_cost}, {branches} branches"
    state: InvocationState | None = None
    records = grown.journals[identity]
    for record, line in zip(records, grown.lines[identity], strict=True):
        if state is None:
            state = InvocationState(started)
        state.apply(Entry(record, line))
        spent = state.spent
        if budget.max_tool_calls is not None:
            assert spent.tool_calls <= budget.max_tool_calls, f"{who}: {spent} after {record}"
        if budget.max_tokens is not None:
            assert spent.usage.total <= budget.max_tokens + branches * longest
    assert state is not None
    p = state.protocol
    assert (p.tool_calls, p.usage.total, p.cost) == (calls, tokens, cost), (
        f"{who} counts {p.tool_calls} calls, {p.usage.total} tokens, {p.cost}; "
        f"the tree has {calls}, {tokens}, {cost}"
    )


def _check_root(tree: Tree) -> None:
    grown, outcome, budget = tree.grown, tree.grown.outcome, tree.grown.planted.budget
    assert outcome.reason.outcome is not Ending.SUSPENDED
    if grown.planted.cancel_at is None:
        assert outcome.reason is not Reason.CANCELLED
    limit = budget.max_tool_calls
    assert limit is not None
    assert outcome.tool_calls <= limit
    known = _known_calls(grown)
    run = [call for call in grown.world.bodies if tuple(call[1:]) in known]
    lost = [call for call in grown.world.bodies if tuple(call[1:]) not in known]
    assert len(run) <= limit
    assert not lost or grown.deaths or outcome.reason is Reason.CANCELLED
