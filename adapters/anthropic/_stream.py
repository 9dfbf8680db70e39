"""A streamed reply: its events, put together to the message that would have come at once.

The arguments of a call come as pieces of JSON. They stay the text they are: whether that is what
a call can be made of is not decided here.
"""

from __future__ import annotations

from typing import Final

from loopwright.protocol import JsonObject, JsonValue, RemoteProtocolError, Usage, parse_json

from ._reply import Body, body_of, usage_of

_WHERE: Final = "the stream"
_INPUT: Final = "input"


class Building:
    """A message that is being put together.

    Attributes:
        done: Whether it is complete.
    """

    def __init__(self) -> None:
        self.done = False
        self._message: JsonObject = {}
        self._usage: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        """Pieces of texts, by block and field: they are joined once, at the end."""

    @property
    def usage(self) -> Usage | None:
        """What was used so far, as far as was said."""
        return usage_of(self._usage)

    def take(self, event: JsonValue) -> str:
        """Take one event, and give the text it brings, if any.

        Raises:
            RemoteProtocolError: If it does not fit those before.
        """
        fields = event if isinstance(event, dict) else {}
        match fields:
            case {"type": "message_start", "message": dict(message)}:
                self._message = message
                self._count(message.get("usage"))
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                self._blocks[index] = {**block}
                if block.get("type") == "text":
                    return _text(block.get("text"))
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                if index not in self._blocks:
                    raise RemoteProtocolError(_WHERE, f"has a piece of block {index}, which is not")
                return self._add(index, self._blocks[index], delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._message |= delta
                self._count(fields.get("usage"))
            case {"type": "message_stop"}:
                self.done = True
            case {"type": str()}:
                pass  # a ping, or what is not known yet
            case _:
                raise RemoteProtocolError(_WHERE, "has an event that is none")
        return ""

    def body(self) -> Body:
        """Give the message.

        Raises:
            RemoteProtocolError: If it is not complete, or not what it must be.
        """
        if not self.done:
            raise RemoteProtocolError(_WHERE, "ended before the reply was complete")
        for (index, name), pieces in self._pieces.items():
            block, text = self._blocks[index], "".join(pieces)
            if name != _INPUT:
                block[name] = _text(block.get(name)) + text
            elif text and block.get("type") == "tool_use":
                block[name] = text
            elif text and self._message.get("stop_reason") != "max_tokens":
                # It goes back as it came, so that it has to be read; of a part nothing goes back.
                block[name] = parse_json(text, where=_WHERE)
        content: list[JsonValue] = [block for _, block in sorted(self._blocks.items())]
        return body_of({**self._message, "content": content, "usage": self._usage})

    def _add(self, index: int, block: JsonObject, delta: JsonObject) -> str:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                self._piece(index, "text", text)
                return text
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self._piece(index, _INPUT, text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                self._piece(index, "thinking", text)
            case {"type": "signature_delta", "signature": str(text)}:
                block["signature"] = text
            case {"type": "citations_delta", "citation": citation}:
                before = block.get("citations")
                block["citations"] = [*(before if isinstance(before, list) else []), citation]
            case _:
                pass
        return ""

    def _piece(self, index: int, name: str, text: str) -> None:
        self._pieces.setdefault((index, name), []).append(text)

    def _count(self, counts: JsonValue) -> None:
        """Take counts of the whole message so far: the last one of each holds."""
        if isinstance(counts, dict):
            self._usage |= {name: count for name, count in counts.items() if count is not None}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
