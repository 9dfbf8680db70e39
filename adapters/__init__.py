"""The edges to what others make; each needs its own extra, and imports it only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .anthropic import AnthropicModel as AnthropicModel
    from .local import LocalModel as LocalModel
    from .mcp import MCPConnectError as MCPConnectError
    from .mcp import MCPNoAnswerError as MCPNoAnswerError
    from .mcp import MCPServer as MCPServer
    from .openai import OpenAIChatModel as OpenAIChatModel
    from .openai import OpenAIResponsesModel as OpenAIResponsesModel
    from .prices import Named as Named
    from .prices import prices_of as prices_of
    from .pydantic_ai import PydanticAIModel as PydanticAIModel

__all__ = [
    "AnthropicModel",
    "LocalModel",
    "MCPConnectError",
    "MCPNoAnswerError",
    "MCPServer",
    "Named",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "PydanticAIModel",
    "prices_of",
]

_HOMES: Final = {
    "AnthropicModel": "anthropic",
    "LocalModel": "local",
    "MCPConnectError": "mcp",
    "MCPNoAnswerError": "mcp",
    "MCPServer": "mcp",
    "Named": "prices",
    "OpenAIChatModel": "openai",
    "OpenAIResponsesModel": "openai",
    "PydanticAIModel": "pydantic_ai",
    "prices_of": "prices",
}


def __getattr__(name: str) -> object:
    """Import a public name on its first use."""
    if name not in _HOMES:
        msg = f"module 'loopwright.adapters' has no attribute {name!r}"
        raise AttributeError(msg)
    value: object = getattr(import_module(f"loopwright.adapters.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return __all__
