"""What the engine wrote, as a decision."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from loopwright.protocol import (
    Decision,
    JsonObject,
    Malformed,
    ModelRequest,
    RemoteProtocolError,
    parse_json,
    raw_text,
)

from ..conversation import RawCall, RawReply, decision_of


class _Call(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    tool: str
    arguments: JsonObject


def decision(text: str, stop: str, request: ModelRequest) -> Decision | Malformed:
    """Read a reply.

    Args:
        text: What was written.
        stop: Why it ended: only what ended by itself is whole.
        request: What was asked.
    """
    if stop != "stop":
        return decision_of(RawReply(text, cut_off=stop or "it has no end"), request)
    try:
        call = _Call.model_validate(parse_json(text, where="the reply"))
    except RemoteProtocolError as error:
        return Malformed(str(error), raw_text(text))
    except ValidationError as error:
        return Malformed(f"the reply is no call: {error.errors()[0]['msg']}", raw_text(text))
    return decision_of(RawReply(calls=[RawCall(None, call.tool, call.arguments)]), request)
