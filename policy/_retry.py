"""How long to wait before something is tried again."""

from __future__ import annotations

import math
from typing import Final

_DOUBLINGS: Final = 64
"""More than any wait that is meant; a float could not take many times more."""


def backoff(attempt: int, first: float, longest: float = math.inf) -> float:
    """Say how long to wait after an attempt: `first` after the first one, doubled for each further.

    Args:
        attempt: Counts from 1.
        first: Seconds.
        longest: Seconds; never more than this.
    """
    return min(longest, first * 2.0 ** min(attempt - 1, _DOUBLINGS))
