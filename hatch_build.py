"""Let an editable install see the repository the way the wheel lays it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class EditableTree(BuildHookInterface[Any]):
    """Link each top-level folder of the wheel into ``src/loopwright``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run before each build; only editable ones need the links."""
        if version != "editable":
            return
        for source, target in self.build_config.target_config["sources"].items():
            link = Path(self.root, "src", target)
            if not link.exists():
                link.symlink_to(Path("..", "..", source), target_is_directory=True)
