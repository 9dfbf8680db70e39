"""Names of a server's tools as a model calls them: each in the server's namespace, none twice."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from loopwright.protocol import ConfigurationError, bounded

SEPARATOR: Final = "__"
_SERVER: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,30}[A-Za-z0-9])?")
_FITS: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64
_DIGEST: Final = 8


def check_server_name(name: str) -> None:
    """See that what a server is called can begin the names of its tools.

    Raises:
        ConfigurationError: If it cannot.
    """
    if not _SERVER.fullmatch(name) or SEPARATOR in name:
        msg = (
            f"the name {bounded(name)!r} of an MCP server is not usable; use 1-32 letters, digits, "
            f"single '_' or '-', with a letter or digit at both ends"
        )
        raise ConfigurationError(msg)


def tool_name(server: str, listed: str) -> str:
    """Name a tool ``server__tool``.

    One that cannot be used as it is gets a digest of the whole at its end: it is the same every
    time, whatever else the server has, and never that of another tool.
    """
    name = f"{server}{SEPARATOR}{listed}"
    if _FITS.fullmatch(name):
        return name
    digest = sha256(listed.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{_UNFIT.sub('_', name)[: _LONGEST - _DIGEST - 1]}_{digest}"
