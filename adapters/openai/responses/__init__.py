"""Models behind OpenAI's Responses API."""

from __future__ import annotations

from ._model import OpenAIResponsesModel as OpenAIResponsesModel
