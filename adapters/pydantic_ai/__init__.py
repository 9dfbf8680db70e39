"""A bridge to the models of `pydantic-ai`, for every provider that has no adapter of its own here."""

from __future__ import annotations

from ._model import PydanticAIModel as PydanticAIModel
