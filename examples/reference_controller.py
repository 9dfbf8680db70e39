"""The reference controller of the seed documents, in loopwright's terms.

The model is scripted and the tools are lookups, so that what is left is the control plane: a
batch runs concurrently, its results are bound by call id and committed, and only then does the
model decide again. `Policy.strict()` forgives as little as the original does.
"""

from __future__ import annotations

import asyncio

from loopwright import (
    Agent,
    Budget,
    Final,
    ModelReply,
    ModelRequest,
    Policy,
    Runtime,
    ToolFailure,
    tool,
)

VALUES = {"profile": "active", "policy": "refund-under-100"}


@tool(effect="read")
async def lookup(key: str) -> dict[str, str]:
    """Look a value up."""
    if key not in VALUES:
        raise ToolFailure(f"key {key!r} not found")
    return {"key": key, "value": VALUES[key]}


class ScriptedModel:
    """Decides from the goal and the committed results, as a real model would."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Look up both values, then say what they are."""
        if not request.history:
            calls = [
                {"call_id": f"call-{key}", "tool_name": "lookup", "arguments": {"key": key}}
                for key in ("profile", "policy")
            ]
            return ModelReply({"kind": "tool_calls", "calls": calls})
        said = "; ".join(
            f"{output['key']}={output['value']}"
            for output in request.history[-1].outputs().values()
            if isinstance(output, dict)
        )
        return ModelReply(Final(said))


controller = Agent(
    "reference-controller",
    model=ScriptedModel(),
    tools=[lookup],
    policy=Policy.strict(),
    budget=Budget(max_steps=4, max_tool_calls=4),
)


async def main() -> None:
    """Run it once, and print what came of it."""
    async with Runtime([controller]) as runtime:
        outcome = await runtime.run(controller.name, "Load the customer profile and refund policy")
    print(outcome.reason)
    print(outcome.answer)
    events = len(outcome.history)
    print(f"steps={outcome.steps} tool_calls={outcome.tool_calls} events={events}")


if __name__ == "__main__":
    asyncio.run(main())
