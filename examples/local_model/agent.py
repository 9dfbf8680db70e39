"""The agent: it knows how warm it is in three cities, and may look that up four times."""

from __future__ import annotations

from loopwright import Agent, Budget, Model, tool
from loopwright.adapters.local import LocalModel

NAME = "weather-desk"
GOAL = "How warm is it in Oslo?"

_DEGREES = {"cairo": 31, "oslo": 3, "paris": 17}


@tool(effect="read")
def weather(city: str) -> str:
    """Look up the temperature in a city."""
    degrees = _DEGREES.get(city.casefold())
    return f"Nothing is known of {city}." if degrees is None else f"{degrees} degrees Celsius"


def make_agent(model: Model | None = None) -> Agent:
    """Make the agent; by default it asks the model of this process."""
    return Agent(
        NAME,
        model=model or LocalModel(timeout=60, max_tokens=96),
        instructions="You tell how warm it is in a city.",
        tools=[weather],
        budget=Budget(max_steps=4, max_active_seconds=120),
    )
