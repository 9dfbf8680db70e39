"""YAML with the line of everything in it; the only module that needs PyYAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yaml import MappingNode, Node, SafeLoader, SequenceNode, YAMLError, compose


class YamlDocument:
    """One document.

    Args:
        text: What the file holds.

    Raises:
        ValueError: If it is no YAML, or two keys of a mapping are equal; names the line.
    """

    def __init__(self, text: str) -> None:
        try:
            root = compose(text, Loader=SafeLoader)
            if root is None:
                raise ValueError("line 1: the file is empty; write at least agent, goal and script")
            _refuse_duplicates(root, set())
            construct: Any = SafeLoader("")
            self.value: object = construct.construct_document(root)
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = "" if mark is None else f"line {mark.line + 1}: "
            problem = getattr(error, "problem", None) or type(error).__name__
            raise ValueError(f"{where}not valid YAML: {problem}") from None
        self._root = root

    def line(self, path: Sequence[str | int]) -> int:
        """Find the line, from 1, of what a path leads to, or of its last part that is there."""
        node: Node = self._root
        line = node.start_mark.line
        for part in path:
            if isinstance(node, MappingNode):
                found = [pair for pair in node.value if pair[0].value == part]
                if not found:
                    break
                key, node = found[0]
                line = key.start_mark.line
            elif isinstance(node, SequenceNode) and isinstance(part, int):
                if part >= len(node.value):
                    break
                node = node.value[part]
                line = node.start_mark.line
            else:
                break
        return line + 1


def _refuse_duplicates(node: Node, seen: set[int]) -> None:
    """YAML readers let the last of two equal keys win; in a script that hides a mistake."""
    if id(node) in seen:
        return
    # An alias leads to a node again, perhaps to one that it is inside of.
    seen.add(id(node))
    if isinstance(node, MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if key.value in keys:
                where = f"line {key.start_mark.line + 1}"
                raise ValueError(f"{where}: the key {key.value!r} is there twice; remove one")
            keys.add(key.value)
            _refuse_duplicates(value, seen)
    elif isinstance(node, SequenceNode):
        for item in node.value:
            _refuse_duplicates(item, seen)
