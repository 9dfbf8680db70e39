"""The command line: what `loopwright` and `python -m loopwright` do."""

from __future__ import annotations

from ._main import main as main
