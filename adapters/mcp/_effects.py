"""What running a server's tool does to the world: the user says so, or else the worst is taken."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_types import Tool, ToolAnnotations

from loopwright.protocol import Effect


def effect_of(listed: Tool, effects: Mapping[str, Effect], *, trust_hints: bool) -> Effect:
    """Say which effect class a tool has.

    Hints are the server's own word, and a server may be wrong or lie: unless the user trusts
    them, they count for nothing. Trusted ones are taken at their worst: what is missing means
    that it changes things, destroys them, and must not be done twice, and so does what
    contradicts itself.
    """
    declared = effects.get(listed.name)
    if declared is not None:
        return declared
    hints = listed.annotations
    return _trusted(hints) if trust_hints and hints is not None else Effect.MANUAL


def _trusted(hints: ToolAnnotations) -> Effect:
    if hints.read_only_hint:
        return Effect.MANUAL if hints.destructive_hint else Effect.READ
    # Said again with the same arguments it changes nothing more: so it may be sent again, though
    # nobody deduplicates by the effect key.
    return Effect.IDEMPOTENT if hints.idempotent_hint else Effect.MANUAL
