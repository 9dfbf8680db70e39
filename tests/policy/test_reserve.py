"""A tree of invocations never uses more than its root has: reserve, spend, release."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.policy import Left, child_budget, fits_tool_calls, reserve, used_up
from loopwright.protocol import NO_COST, Budget, Reserved, Spent, Usage

COUNTS = st.none() | st.integers(0, 100)
DOLLARS = st.none() | st.decimals(0, 10, places=3)
OWN = st.builds(Budget, max_tool_calls=COUNTS, max_tokens=COUNTS, max_cost=DOLLARS)
LEFT = st.builds(Left, COUNTS, COUNTS, DOLLARS)

REPLY = 50
"""The most tokens one reply uses in the simulation, whatever is left."""
TOKEN = Decimal("0.001")
"""What a token costs there."""


@given(OWN, LEFT, st.integers(1, 7))
def test_what_is_reserved_fits_the_child_and_all_of_it_what_is_left(
    own: Budget, left: Left, siblings: int
) -> None:
    """The child's own limit, or an even share; what is unlimited on both sides stays so."""
    kept = reserve(own, left, siblings)
    for mine, limit, rest in (
        (kept.tool_calls, own.max_tool_calls, left.tool_calls),
        (kept.tokens, own.max_tokens, left.tokens),
        (kept.cost, own.max_cost, left.cost),
    ):
        assert (mine is None) == (limit is None and rest is None)
        if mine is not None:
            assert mine >= 0
            assert limit is None or mine <= limit
            assert rest is None or mine * siblings <= rest


def test_a_share_is_as_large_as_it_can_be() -> None:
    """Nothing is lost but what does not divide."""
    left = Left(10, 1_000, Decimal(1))
    kept = reserve(Budget(), left, 3)
    assert (kept.tool_calls, kept.tokens) == (3, 333)
    assert kept.cost is not None
    assert Decimal(1) - Decimal("1e-26") < kept.cost * 3 <= 1
    assert reserve(Budget(), left) == Reserved(10, 1_000, Decimal(1))
    assert reserve(Budget(max_tokens=50), left, 3).tokens == 50


def test_a_child_has_the_narrower_limit_of_each_kind() -> None:
    """Its own steps, what is kept aside for it, and its parent's time."""
    noon, one = datetime(2030, 1, 1, 12, tzinfo=UTC), datetime(2030, 1, 1, 13, tzinfo=UTC)
    own = Budget(max_steps=5, max_active_seconds=60, deadline=one, reserve_steps=1)
    kept = Reserved(3, 200, Decimal("0.1"))
    assert child_budget(own, kept, noon, 20.0) == Budget(
        max_steps=5,
        max_tool_calls=3,
        max_tokens=200,
        max_cost=Decimal("0.1"),
        max_active_seconds=20.0,
        deadline=noon,
        reserve_steps=1,
    )
    assert child_budget(own, kept, None, None).deadline == one
    assert child_budget(own, kept, None, None).max_active_seconds == 60
    assert child_budget(Budget(), Reserved(), None, -0.5).max_active_seconds == 0
    assert child_budget(Budget(), Reserved(), None, None) == Budget()


# ---------------------------------------------------------------- a whole tree
@dataclass(eq=False)
class Node:
    """One invocation of the simulation."""

    budget: Budget
    parent: Node | None = None
    depth: int = 0
    calls: int = 0
    tokens: int = 0
    cost: Decimal = NO_COST
    """What is charged: of its own, and of children that have ended."""
    held: dict[Node, Reserved] = field(default_factory=dict["Node", Reserved])
    batches: list[list[Node]] = field(default_factory=list[list["Node"]])

    @property
    def spent(self) -> Spent:
        """What is charged, and what is kept aside for children that run."""
        kept = self.held.values()
        return Spent(
            tool_calls=self.calls + sum(k.tool_calls or 0 for k in kept),
            usage=Usage(self.tokens + sum(k.tokens or 0 for k in kept)),
            cost=self.cost + sum((k.cost or NO_COST for k in kept), NO_COST),
        )

    @property
    def branches(self) -> int:
        """How many of its descendants, or it alone, were started beside each other at most."""
        return max([1, *(sum(child.branches for child in batch) for batch in self.batches)])


class Tree:
    """A root and its descendants, taking turns in any order."""

    def __init__(self, root: Budget, random: Random) -> None:
        self.root = Node(root)
        self.random = random
        self.live = [self.root]
        self.everyone = [self.root]
        self.calls = 0
        self.tokens = 0
        """What was really used, by whomever."""

    def step(self) -> None:
        """Let one invocation that waits for no child take a turn, or end."""
        node = self.random.choice([node for node in self.live if not node.held])
        if used_up(node.budget, node.spent, None) or self.random.random() < 0.1:
            self.end(node)
            return
        reply = self.random.randint(1, REPLY)
        self.tokens += reply
        node.tokens += reply
        node.cost += reply * TOKEN
        children = self.random.choice([0, 0, 1, 2, 3]) if node.depth < 3 else 0
        batch = children + self.random.randint(0, 3)
        if not fits_tool_calls(node.budget, node.spent.tool_calls, batch):
            self.end(node)
            return
        self.calls += batch
        node.calls += batch
        self.begin(node, [self.budget() for _ in range(children)])

    def begin(self, node: Node, own: list[Budget]) -> None:
        """Start children at once, each with its share."""
        left = Left.of(node.budget, node.spent)
        started: list[Node] = []
        for budget in own:
            kept = reserve(budget, left, len(own))
            child = Node(child_budget(budget, kept, None, None), node, node.depth + 1)
            node.held[child] = kept
            started.append(child)
        node.batches.append(started)
        self.live += started
        self.everyone += started

    def end(self, node: Node) -> None:
        """Release what was kept aside, and charge what was used."""
        self.live.remove(node)
        if node.parent is not None:
            del node.parent.held[node]
            node.parent.calls += node.calls
            node.parent.tokens += node.tokens
            node.parent.cost += node.cost

    def budget(self) -> Budget:
        """Make the own limits of a child: often none."""
        return Budget(
            max_steps=None,
            max_tool_calls=self.random.choice([None, None, 0, 3, 10]),
            max_tokens=self.random.choice([None, None, 60, 300]),
            max_cost=self.random.choice([None, None, Decimal("0.1")]),
        )


@pytest.mark.parametrize("limited", ["tool_calls", "tokens", "cost", "all"])
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**48))
def test_a_tree_never_uses_more_than_its_root_has(limited: str, seed: int) -> None:
    """Whoever runs when: tool calls exactly, tokens and money by one reply a branch at most.

    That one reply is the last one of each branch: it was asked for while something was left.
    """
    root = Budget(
        max_steps=None,
        max_tool_calls=30 if limited in ("tool_calls", "all") else None,
        max_tokens=2_000 if limited in ("tokens", "all") else None,
        max_cost=Decimal(2) if limited in ("cost", "all") else None,
    )
    tree = Tree(root, Random(seed))
    for _ in range(400):
        if not tree.live:
            break
        tree.step()
        assert root.max_tool_calls is None or tree.calls <= root.max_tool_calls
    while tree.live:
        tree.end(next(node for node in tree.live if not node.held))

    # Every token and every call is charged once.
    assert (tree.root.tokens, tree.root.calls) == (tree.tokens, tree.calls)
    assert tree.root.cost == tree.tokens * TOKEN
    for node in tree.everyone:
        budget, over = node.budget, REPLY * node.branches
        assert budget.max_tool_calls is None or node.calls <= budget.max_tool_calls
        assert budget.max_tokens is None or node.tokens < budget.max_tokens + over
        assert budget.max_cost is None or node.cost < budget.max_cost + over * TOKEN
