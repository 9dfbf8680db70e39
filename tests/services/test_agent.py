"""The definition of an agent: what cannot work is said at once."""

from __future__ import annotations

from collections.abc import Callable
from types import GenericAlias
from typing import Any, cast

import pytest
from pydantic import BaseModel, Field

from loopwright import Agent, Budget, ConfigurationError, Final, Policy, Runtime, tool
from loopwright.testing import ScriptedModel, VirtualClock


class Answer(BaseModel):
    total: int
    from_: str = Field("nobody", alias="from")


@tool(effect="read")
def find() -> None:
    """Find it."""


def make(name: str = "desk", **options: Any) -> Agent:
    return Agent(name, model=options.pop("model", ScriptedModel([])), **options)


@pytest.mark.parametrize("name", ["", ".hidden", "two words", "x" * 65, "a/b", "ä"])
def test_unusable_names_are_refused(name: str) -> None:
    """A name goes into listings, journals and commands."""
    with pytest.raises(ConfigurationError, match=r"^agent name .* is not usable; use 1-64 "):
        make(name)


def test_usable_names() -> None:
    """Dots, underscores and hyphens are fine inside."""
    assert [make(name).name for name in ("a", "desk.v2", "x_y-z")] == ["a", "desk.v2", "x_y-z"]


@pytest.mark.parametrize("model", [None, "gpt", object()])
def test_what_cannot_decide_is_no_model(model: object) -> None:
    """It is said at once, not at the first decision."""
    with pytest.raises(
        ConfigurationError, match=r"^agent 'desk': \w+ is no model; it needs `async def decide`$"
    ):
        make(model=model)


def test_tools_have_an_effect_class_and_their_own_names() -> None:
    """A bare function is no tool; two of one name could not be told apart."""

    @tool(effect="manual", name="find")
    def other() -> None: ...

    def bare() -> None: ...

    with pytest.raises(
        ConfigurationError,
        match=r"^agent 'desk': bare is no tool and has no effect class; use @tool\(effect=…\)$",
    ):
        make(tools=[bare])
    with pytest.raises(ConfigurationError, match=r"^agent 'desk': 7 is no tool .*toolset\(…\)"):
        make(tools=[7])
    with pytest.raises(ConfigurationError, match=r" is no tool .*; give its \.as_tool\(\)$"):
        make(tools=[make()])
    with pytest.raises(ConfigurationError, match=r" is no tool .*, with a \* before it$"):
        make(tools=[[find]])
    with pytest.raises(
        ConfigurationError,
        match=r"^agent 'desk' has two tools named 'find'; give one another name: @tool\(name=…\), ",
    ):
        make(tools=[find, other])


class Opaque:
    pass


@pytest.mark.parametrize("output", [Callable[[], None], Opaque, GenericAlias(list, ("Nowhere",))])
def test_output_types_have_a_schema(output: object) -> None:
    """A type that no JSON can be read as is refused when the agent is made."""
    with pytest.raises(
        ConfigurationError, match=r"^agent 'desk': its output type has no JSON schema: "
    ) as caught:
        make(output=output)
    assert "\n" not in str(caught.value)


def test_a_definition_is_complete_and_fixed() -> None:
    """Defaults are filled in, the tools cannot be changed, and it says what it is."""
    made = make(tools=[find])

    assert (made.version, made.policy, made.budget, made.output) == ("1", Policy(), Budget(), None)
    assert made.specs == (find.spec,)
    with pytest.raises(TypeError):
        cast("dict[str, object]", made.tools)["x"] = find
    assert repr(made) == "<Agent desk 1 tools=find>"
    assert repr(make(version="2")) == "<Agent desk 2 tools=none>"


@pytest.mark.anyio
async def test_an_output_is_parsed_back() -> None:
    """What was checked, stored and read back is an instance again, aliases included."""
    model = ScriptedModel([Final(output={"total": "3", "from": "ann"})])
    agent = make(model=model, output=Answer)
    async with Runtime([agent], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("desk", "add")

    assert outcome.output == {"total": 3, "from": "ann"}
    assert agent.parse_output(outcome) == Answer.model_validate({"total": 3, "from": "ann"})


@pytest.mark.anyio
async def test_an_output_that_is_not_there_is_not_parsed() -> None:
    """Neither for an agent without an output type, nor for an outcome without an output."""
    plain = make(model=ScriptedModel([Final("done")]))
    async with Runtime([plain], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("desk", "add")

    with pytest.raises(ConfigurationError, match=r"^agent 'desk' has no output type; give it one"):
        plain.parse_output(outcome)
    with pytest.raises(
        ConfigurationError, match=r"\(completed\) has no output of the type of agent 'desk'; "
    ):
        make(output=Answer).parse_output(outcome)
