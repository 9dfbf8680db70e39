"""Claude, by Anthropic's Messages API and its official SDK: the extra `anthropic`."""

from __future__ import annotations

from ._model import AnthropicModel as AnthropicModel
