"""Models behind OpenAI's two APIs, and servers that speak them."""

from __future__ import annotations

from .chat import OpenAIChatModel as OpenAIChatModel
from .responses import OpenAIResponsesModel as OpenAIResponsesModel
