"""What exactly a human says yes to."""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.protocol import CallId, JsonObject, JsonValue, ProposalDigest, digest


def proposal_digest(
    calls: Iterable[tuple[CallId, str, JsonObject, str]], policy_version: str
) -> ProposalDigest:
    """Bind a proposal: change a call, a tool's schema or the policy, and it is another one.

    Args:
        calls: Call id, tool name, arguments as they will run, and schema version of every call
            of the batch, in declared order.
        policy_version: Version of the policy in force.
    """
    bound: list[JsonValue] = [
        [call_id, tool, arguments, schema] for call_id, tool, arguments, schema in calls
    ]
    return ProposalDigest(digest([bound, policy_version]))
