"""Models behind OpenAI's Chat Completions API, and every server that speaks it."""

from __future__ import annotations

from ._model import OpenAIChatModel as OpenAIChatModel
