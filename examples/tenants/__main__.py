"""Let each clerk try, and print what came of it."""

from __future__ import annotations

import asyncio

from loopwright import Runtime

from .desk import NAME, make_agent
from .office import CLERKS, Office

TRIES = (
    ("ann", "order_status order=A-1"),
    ("ann", "refund order=A-1 amount=30"),
    ("ann", "refund order=A-2 amount=30"),
    ("ann", "refund order=G-1 amount=30"),
    ("ann", "refund order=A-1 amount=120"),
    ("ann", "refund order=A-1 amount=1e9"),
    ("cy", "refund order=A-1 amount=30"),
    ("gil", "order_status order=A-1"),
)


async def main() -> None:
    """Run each try once."""
    async with Runtime([make_agent(Office())]) as runtime:
        for clerk, goal in TRIES:
            outcome = await runtime.run(NAME, goal, principal=CLERKS[clerk])
            told = (
                outcome.answer or f"waits: {outcome.proposal and outcome.proposal.asks[0].reason}"
            )
            print(f"{clerk:4} {goal:32} {told}")


if __name__ == "__main__":
    asyncio.run(main())
