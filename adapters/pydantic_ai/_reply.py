"""What a model of `pydantic-ai` has replied."""

from __future__ import annotations

from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from loopwright.protocol import ModelError, ModelErrorKind, ModelReply, ModelRequest, Usage

from ..conversation import RawCall, RawReply, decision_of
from ._replay import replay_of_response


def reply_of(response: ModelResponse, request: ModelRequest, by: str) -> ModelReply:
    """Read a reply.

    Args:
        response: What came.
        request: What was asked.
        by: Who has replied.

    Raises:
        ModelError: If the provider has refused to answer, or the rest of the reply never came.
    """
    usage, reason = usage_of(response.usage), response.finish_reason
    if reason == "content_filter":
        msg = f"the provider has refused to answer ({_stop(response)})"
        raise ModelError(msg, kind=ModelErrorKind.REFUSED, usage=usage)
    if reason == "error":
        msg = f"the provider has given up in the middle of the reply ({_stop(response)})"
        raise ModelError(msg, usage=usage)
    cut_off = _stop(response) if reason == "length" else ""
    if response.state != "complete" and not cut_off:
        msg = f"the stream ended before the reply was complete (it is {response.state})"
        raise ModelError(msg, usage=usage)
    calls = [RawCall(c.tool_call_id, c.tool_name, c.args) for c in response.tool_calls]
    decision = decision_of(RawReply(response.text or "", calls, cut_off), request)
    return ModelReply(
        decision,
        usage,
        response.model_name or "",
        response.provider_response_id or "",
        _stop(response),
        None if cut_off else replay_of_response(response, calls, by),
    )


def usage_of(usage: RequestUsage) -> Usage | None:
    """Read a usage; `None` if the provider has not said, or cannot have meant it."""
    sent, made = usage.input_tokens, usage.output_tokens
    cached, written = usage.cache_read_tokens, usage.cache_write_tokens
    counts: list[object] = [sent, made, cached, written]
    # Counts are zero where nothing was said.
    if not all(type(count) is int and count >= 0 for count in counts) or not sent + made:
        return None
    if usage.unmeasured_requests or cached + written > sent:
        return None
    return Usage(sent, made, cached_tokens=cached, cache_written_tokens=written)


def _stop(response: ModelResponse) -> str:
    """Give the provider's own word for why it ended, where it is known."""
    raw: object = (response.provider_details or {}).get("finish_reason")
    return raw if isinstance(raw, str) else response.finish_reason or ""
