"""What an Anthropic model was made with, and what of it is in every request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopwright.protocol import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Settings:
    """How requests are made; see `AnthropicModel`."""

    model: str
    max_tokens: int
    structured_output: bool = True
    cache: bool = True
    options: Mapping[str, JsonValue] | None = None

    @property
    def by(self) -> str:
        """By which name a reply says whose it is: only that model is sent its thinking again."""
        return f"anthropic:{self.model}"

    def merged(self, payload: JsonObject) -> JsonObject:
        """Put the options over a payload: a ``None`` takes a field out, and objects are merged.

        Tools are added to those there are: they are the provider's own, such as a web search.
        """
        made = dict(payload)
        for key, value in (self.options or {}).items():
            before = made.get(key)
            if value is None:
                made.pop(key, None)
            elif key == "tools" and isinstance(before, list) and isinstance(value, list):
                made[key] = [*before, *value]
            elif isinstance(before, dict) and isinstance(value, dict):
                made[key] = {**before, **value}
            else:
                made[key] = value
        return made
