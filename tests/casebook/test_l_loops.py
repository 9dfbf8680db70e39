"""Casebook L: a loop that leads nowhere is ended as such."""

from __future__ import annotations

import itertools

import pytest

from casebook.desk import batch, call, play
from loopwright import Budget, Policy, Progress, Reason, tool
from loopwright.testing import Step

pytestmark = pytest.mark.anyio


async def test_b103_the_same_call_with_the_same_result_is_no_progress() -> None:
    """B103: limit 3: three identical pairs of call and result, and no fourth."""
    ran = 0

    @tool(effect="read")
    async def get(x: int) -> str:
        nonlocal ran
        ran += 1
        return "same"

    replies: itertools.repeat[Step] = itertools.repeat(batch(call("c", "get", {"x": 1})))
    played = await play(
        replies,
        get,
        policy=Policy(progress=Progress(max_repeats=3)),
        budget=Budget(max_steps=50),
    )

    assert played.outcome.reason is Reason.NO_PROGRESS
    assert ran == 3
    assert played.model.calls <= 4
