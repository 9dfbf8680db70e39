"""Random trees of parents and children with random crashes, thousands of them.

What is checked is what `tests/trees/test_conserved.py` promises; see there. It is no test of the
suite, for it takes minutes. Run it from the repository:

    python tests/stress/tree_crashes.py [--trees N] [--seed N] [--only N]

The seed of a tree decides everything; those of a run are consecutive.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from trees.conserved import check
from trees.forest import Planted, grow


def main() -> int:
    """Grow them; 1 if anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trees", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="of the first")
    parser.add_argument("--only", type=int, help="the seed of one tree, to look at it again")
    given = parser.parse_args()
    first, count = (given.seed, given.trees) if given.only is None else (given.only, 1)
    print(f"seed {first}", flush=True)
    # Processes that die say so.
    logging.disable(logging.CRITICAL)
    began, totals, reasons = time.perf_counter(), Counter[str](), Counter[str]()
    for seed in range(first, first + count):
        planted = Planted.from_seed(seed)
        try:
            grown = asyncio.run(grow(planted))
            check(grown)
        except Exception as error:  # noqa: BLE001 - whatever it is, its seed is to be known
            totals["failed"] += 1
            print(f"--only {seed}: {type(error).__name__}: {error}\n  {planted}", flush=True)
            continue
        reasons[str(grown.outcome.reason)] += 1
        totals.update(
            invocations=len(grown.journals),
            deaths=grown.deaths,
            asked=len(grown.world.asked),
            bodies=grown.world.bodies.total(),
        )
    took = time.perf_counter() - began
    print(f"{count} trees in {took:.0f} s: {dict(totals)}; roots: {dict(reasons)}")
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
