"""A random tree with random crashes never spends more than its root may.

What is promised exactly, of a tree and of every subtree, at every durable point:

- Tool calls: never more than `max_tool_calls`, counted by call, those that stand for children
  among them. A call that a crash made run again is the same call; the reads of a reply that was
  lost with its process have run, and are in no journal.
- Tokens and cost: at most one reply above the limit for each branch that was live at once. A reply
  that was lost with its process was paid for, and nobody knows of it.
- The root's account is the sum over all journals: nothing is lost, nothing counts twice.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from trees.conserved import check
from trees.forest import Planted, grow

TREES = int(os.environ.get("LOOPWRIGHT_TREES", "160"))
"""How many; thousands by `tests/stress/tree_crashes.py`."""
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_a_random_tree_with_random_crashes_keeps_within_its_roots_budget(part: int) -> None:
    """See above; each journal is whole, and has one end; no call has two children."""
    met = Counter[str]()
    for seed in range(part, TREES, PARTS):
        grown = asyncio.run(grow(Planted.from_seed(seed)))
        try:
            check(grown)
        except AssertionError as error:
            error.add_note(f"seed {seed}: {grown.planted}")
            raise
        met.update(
            trees=1,
            deaths=grown.deaths,
            children=len(grown.journals) - 1,
            stopped=not grown.outcome.completed,
        )
    # They are trees, they die, and they want more than they may have.
    assert met["children"] > met["trees"]
    assert met["deaths"] > met["trees"] // 2
    assert met["stopped"] > met["trees"] // 2
