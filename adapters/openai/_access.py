"""Where a server is that speaks OpenAI's protocol, and which key it may see."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from loopwright.protocol import ConfigurationError

from ..provider._hosts import NO_KEY, checked_key, checked_url, is_at

ApiKey: TypeAlias = str | Callable[[], Awaitable[str]]
"""A key, or what is asked for one before each request."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a server is, and what it is shown."""

    base_url: str | None
    """`None`: where the SDK looks by itself."""
    api_key: ApiKey = field(repr=False)


def access_to(kind: str, base_url: str | None, api_key: ApiKey | None) -> Access:
    """Say how a server is reached.

    The key of the environment is OpenAI's, or that of the base URL of the environment: a server
    that is named here is not shown it.

    Args:
        kind: What wants to reach it.
        base_url: Where it is; `None`: as the environment says, or else OpenAI itself.
        api_key: Its key, if it has one.

    Raises:
        ConfigurationError: If OpenAI is to be asked and there is no key, or if the key or the URL
            can be none.
    """
    where = checked_url(kind, base_url) or os.environ.get("OPENAI_BASE_URL")
    key = api_key
    if not key and (base_url is None or is_at(base_url, "openai.com")):
        key = os.environ.get("OPENAI_API_KEY")
    if not key and (where is None or is_at(where, "openai.com")):
        msg = f"{kind} has no key for OpenAI; set OPENAI_API_KEY, or give it api_key= or client="
        raise ConfigurationError(msg)
    if isinstance(key, str):
        key = checked_key(kind, key)
    return Access(base_url, key or NO_KEY)
