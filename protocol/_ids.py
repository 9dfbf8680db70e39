"""Identities: who is meant, at which scope, and how the derived ones are made.

| identity | scope |
| --- | --- |
| `InvocationId` | one bounded task run |
| `CallId` | one logical tool request; stored as (turn, call id), for a provider may use an id again |
| `AttemptId` | one physical execution of a call: ``<call>#1``, ``#2``, … |
| `EffectKey` | one business mutation, the same across retries, restarts and machines |
| `ProposalDigest` | one exact set of calls put to a human |
"""

from __future__ import annotations

from typing import NewType

from ._canonical import digest
from ._json import JsonValue

InvocationId = NewType("InvocationId", str)
CallId = NewType("CallId", str)
AttemptId = NewType("AttemptId", str)
EffectKey = NewType("EffectKey", str)
ProposalDigest = NewType("ProposalDigest", str)


def attempt_id(call_id: CallId, number: int) -> AttemptId:
    """Name the `number`-th execution of a call, counting from 1."""
    return AttemptId(f"{call_id}#{number}")


def call_fingerprint(tool_name: str, arguments: JsonValue) -> str:
    """Make a text that is equal for calls of the same tool with the same arguments."""
    return digest([tool_name, arguments])[:32]


def derived_effect_key(invocation_id: InvocationId, turn: int, call_id: CallId) -> EffectKey:
    """Make the effect key of a write that declares none.

    It rests on the turn as well: a provider may use a raw call id again later.
    """
    key: JsonValue = [invocation_id, turn, call_id]
    return EffectKey(f"call:{digest(key)[:32]}")
