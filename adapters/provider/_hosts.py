"""Where a provider's server is, and what it may be shown."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from loopwright.protocol import ConfigurationError, bounded

NO_KEY: Final = "none"
"""What servers that want no key are sent: the SDKs always send one."""


def is_at(url: str, *domains: str) -> bool:
    """Whether a URL is below one of these domains."""
    host = urlsplit(url).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def checked_url(kind: str, url: str | None) -> str | None:
    """Take a base URL, which may be `None`.

    Raises:
        ConfigurationError: If nothing can be reached by it.
    """
    if url is not None and not url.startswith(("http://", "https://")):
        msg = f"{kind} has base_url={bounded(url)!r}; begin it with http:// or https://"
        raise ConfigurationError(msg)
    return url


def checked_key(kind: str, key: str) -> str:
    """Take a key, without the line break that files have behind it, which could not be sent.

    Raises:
        ConfigurationError: If it can be none.
    """
    stripped = key.strip()
    if not (stripped.isascii() and stripped.isprintable()):
        msg = f"the key of {kind} has characters that cannot be sent; was it copied whole?"
        raise ConfigurationError(msg)
    return stripped
