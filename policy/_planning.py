"""In which order the calls of a batch run."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.protocol import Effect


def stages(effects: Sequence[tuple[int, Effect]]) -> tuple[tuple[int, ...], ...]:
    """Split a batch into stages: neighbouring reads together, each write alone, order kept.

    A model that asks for several calls at once has not shown that they are independent, so
    nothing moves past a write.

    Args:
        effects: Index and effect class of each call that is to run, in declared order.
    """
    result: list[tuple[int, ...]] = []
    reads: list[int] = []
    for index, effect in effects:
        if effect is Effect.READ:
            reads.append(index)
            continue
        if reads:
            result.append(tuple(reads))
            reads = []
        result.append((index,))
    if reads:
        result.append(tuple(reads))
    return tuple(result)
