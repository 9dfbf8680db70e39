"""What a script says of the setting: who runs, within which limits and rules, with which tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as replaced
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from loopwright.policy import Policy, tool_named
from loopwright.protocol import Budget, Effect


class Part(BaseModel):
    """A mapping in a script: strict, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def given(self) -> dict[str, Any]:
        """Return the fields that the script names."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class OneOf(Part):
    """A part that says exactly one of its fields."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"needs exactly one of {', '.join(type(self).model_fields)}")
        return self


class BudgetPart(Part):
    """Limits; a deadline is given in seconds from the beginning of the script."""

    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_active_seconds: float | None = None
    soft_ratio: float = 0.8
    deadline: float | None = None

    def over(self, base: Budget, began: float) -> Budget:
        """Return `base` with what is named here; `began` is the wall clock at the beginning."""
        given = self.given()
        if self.deadline is not None:
            given["deadline"] = datetime.fromtimestamp(began + self.deadline, UTC)
        return replaced(base, **given)


class PolicyPart(Part):
    """A policy; what is not named is as the agent has it."""

    strict: bool = False
    """Begin with `Policy.strict()`."""
    ask: tuple[str, ...] = ()
    """Tools whose calls wait for a human."""
    deny: tuple[str, ...] = ()
    """Tools whose calls are denied."""
    max_repairs: int = 0
    max_faulty_turns: int = 0
    max_attempts: int = 1
    max_repeats: int = 0
    results_must_repeat: bool = True
    cancel_grace: float = 0
    approval_grace: float = 0

    def over(self, base: Policy) -> Policy:
        """Return `base`, or the strict policy, with what is named here."""
        given = self.given()
        if given.pop("strict", False):
            base = Policy.strict()
        for rule in ("ask", "deny"):
            if rule in given:
                given[rule] = [tool_named(*given[rule])]
        named = ("max_repeats", "results_must_repeat")
        progress = replaced(base.progress, **{n: given.pop(n) for n in named if n in given})
        return replaced(base, progress=progress, **given)


ParameterType: TypeAlias = Literal[
    "string", "integer", "number", "boolean", "object", "array", "any"
]


class ToolPart(Part):
    """A fake tool: its body is what the script says at `execute`."""

    effect: Effect
    parameters: Mapping[str, ParameterType] = Field(default_factory=dict[str, ParameterType])
    timeout: float | None = None
    effect_key: str | None = None
    """For writes: a text with `{parameter}` in it, such as ``refund:{order}``."""
