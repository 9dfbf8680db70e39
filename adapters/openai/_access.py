"""Where a server is that speaks OpenAI's protocol, and which key it may see."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from loopwright.protocol import ConfigurationError

ApiKey: TypeAlias = str | Callable[[], Awaitable[str]]
"""A key, or what is asked for one before each request."""

_NO_KEY: Final = "none"
"""What servers that want no key are sent: the SDK always sends one."""


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
        ConfigurationError: If OpenAI is to be asked and there is no key.
    """
    where = base_url or os.environ.get("OPENAI_BASE_URL")
    key = api_key
    if not key and (base_url is None or is_at(base_url, "openai.com")):
        key = os.environ.get("OPENAI_API_KEY")
    if not key and (where is None or is_at(where, "openai.com")):
        msg = f"{kind} has no key for OpenAI; set OPENAI_API_KEY, or give it api_key= or client="
        raise ConfigurationError(msg)
    return Access(base_url, key or _NO_KEY)


def is_at(url: str, *domains: str) -> bool:
    """Whether a URL is below one of these domains."""
    host = urlsplit(url).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
