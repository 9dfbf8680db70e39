"""Tools of servers that speak the Model Context Protocol; needs the extra `mcp`."""

from __future__ import annotations

from ._errors import MCPConnectError as MCPConnectError
from ._errors import MCPNoAnswerError as MCPNoAnswerError
from ._server import MCPServer as MCPServer
