"""The chunks of a chat completion as the completion they are pieces of.

Which call a piece belongs to is said by its index. Some servers leave that out, or count every
call as 0, so ids and names count too; where nothing tells, the stream is refused: arguments that
were put together by guessing must not run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from loopwright.protocol import (
    JsonObject,
    JsonValue,
    ModelError,
    RemoteProtocolError,
    Usage,
    parse_arguments,
)

from ...provider._boundary import Sent, Word, clean, read, usage_of
from ._reply import Function, Parts, text_of


class _Piece(Sent):
    index: int | None = None
    id: Word = ""
    function: Function | None = None
    extra_content: JsonValue = None


class _Delta(Sent):
    content: Parts = None
    refusal: Word = ""
    tool_calls: list[_Piece] | None = None
    function_call: Function | None = None
    reasoning_content: object = None


class _Choice(Sent):
    index: int | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(Sent):
    id: Word = ""
    model: Word = ""
    choices: list[_Choice] | None = None
    usage: JsonValue = None


@dataclass(slots=True)
class _Open:
    """A call that is being put together."""

    index: int | None
    id: str
    name: str
    pieces: list[str] = field(default_factory=list[str])
    """Of its arguments, which are joined only where they are looked at."""
    extra_content: JsonValue = None
    _complete: bool | None = None

    @property
    def arguments(self) -> str:
        """What has come of them."""
        return "".join(self.pieces)

    def add(self, arguments: str) -> None:
        """Put a piece behind its arguments."""
        if arguments:
            self.pieces.append(arguments)
            self._complete = None

    @property
    def torn(self) -> bool:
        """Whether something has come of its arguments, but not all of them."""
        return bool(self.pieces) and not self.complete

    @property
    def complete(self) -> bool:
        """Whether its arguments are an object; nothing that comes can be a part of them."""
        if self._complete is None:
            self._complete = _is_object(self.pieces)
        return self._complete


@dataclass(slots=True)
class Chunks:
    """Collects the chunks of one completion."""

    usage: Usage | None = None
    over: bool = False
    """Never: the usage comes after the end of the reply."""
    _id: str = ""
    _model: str = ""
    _begun: bool = False
    _finish: str | None = None
    _text: list[str] = field(default_factory=list[str])
    _refusal: list[str] = field(default_factory=list[str])
    _reasoning: list[str] = field(default_factory=list[str])
    _calls: list[_Open] = field(default_factory=list[_Open])
    _function: _Open | None = None
    _counted: JsonValue = None

    def add(self, event: object) -> str:
        """Take in one chunk; what it adds to the text is returned."""
        chunk = read(_Chunk, event, "chunk of a chat completion")
        self._id, self._model = self._id or chunk.id, self._model or chunk.model
        if chunk.usage is not None:
            self._counted = chunk.usage
            self.usage = usage_of(
                chunk.usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details"
            )
        said = ""
        for choice in chunk.choices or ():
            if choice.index:
                continue  # only the first one is asked for
            self._begun = True
            self._finish = choice.finish_reason or self._finish
            said += self._take(choice.delta or _Delta())
        return said

    def body(self, *, done: bool) -> JsonObject:
        """Return the completion.

        Raises:
            ModelError: If it is only a part of one.
        """
        if self._finish is None and not done:
            raise ModelError("the stream ended before the reply did", usage=self.usage)
        if any(call.index is None and not call.name for call in self._calls):
            raise self._unclear()
        message: JsonObject = {
            "content": "".join(self._text),
            "refusal": "".join(self._refusal),
            "tool_calls": [_written(call) for call in self._calls],
        }
        if self._function is not None:
            message["function_call"] = _function(self._function)
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        choice: JsonObject = {"message": message, "finish_reason": self._finish}
        body: JsonObject = {"id": self._id, "model": self._model}
        return {**body, "choices": [choice] if self._begun else [], "usage": self._counted}

    def _take(self, delta: _Delta) -> str:
        text = text_of(delta.content)
        self._text.append(text)
        self._refusal.append(delta.refusal)
        if isinstance(delta.reasoning_content, str):
            self._reasoning.append(delta.reasoning_content)
        for piece in delta.tool_calls or ():
            self._piece(piece)
        if delta.function_call is not None:
            name, arguments = _parts(delta.function_call)
            call = self._function = self._function or _Open(None, "", "")
            call.name = call.name or name
            call.add(arguments)
        return clean(text)

    def _piece(self, piece: _Piece) -> None:
        name, arguments = _parts(piece.function)
        call = self._meant(piece)
        if call is None or _begins_another(call, piece.id, name, arguments):
            if not (name or piece.id or piece.index is not None):
                raise self._unclear()
            call = _Open(piece.index, piece.id, name)
            self._calls.append(call)
        # Some servers say them once, others with each piece.
        call.id, call.name = call.id or piece.id, call.name or name
        call.add(arguments)
        if piece.extra_content is not None:
            call.extra_content = piece.extra_content

    def _meant(self, piece: _Piece) -> _Open | None:
        """Find the call a piece seems to belong to, if it has begun."""
        newest_first = reversed(self._calls)
        if piece.index is not None:
            return self._numbered(piece.index, piece.id)
        if piece.id:
            return next((call for call in newest_first if call.id == piece.id), None)
        newest = next(newest_first, None)
        if not all(call.complete for call in newest_first):
            raise self._unclear()
        return newest

    def _numbered(self, index: int, id: str) -> _Open | None:
        same = [call for call in self._calls if call.index == index]
        if len(same) > 1 and not id and any(call.torn for call in same[:-1]):
            raise self._unclear()  # every call has this number
        by_id = (call for call in same if id and call.id == id)
        return next(by_id, same[-1] if same else None)

    def _unclear(self) -> ModelError:
        text = "the stream has pieces of calls that say neither by index nor by id whose they are"
        return ModelError(f"{text}; ask this server with stream=False", usage=self.usage)


def _is_object(pieces: list[str]) -> bool:
    ends = next((piece for piece in reversed(pieces) if piece.strip()), "")
    if not ends.rstrip().endswith("}"):
        return False
    try:
        parse_arguments("".join(pieces))
    except RemoteProtocolError:
        return False
    return True


def _begins_another(call: _Open, id: str, name: str, arguments: str) -> bool:
    """Whether a piece that seems to belong to a call is the beginning of the next one."""
    if id and call.id and id != call.id:
        return True  # every call is number 0
    if not name or not call.name:
        return False
    return name != call.name or (bool(arguments.strip()) and call.complete)


def _parts(function: Function | None) -> tuple[str, str]:
    if function is None:
        return "", ""
    name, arguments = function.name, function.arguments
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)  # as an object, and so all of them
    return name if isinstance(name, str) else "", arguments or ""


def _written(call: _Open) -> JsonObject:
    written: JsonObject = {"id": call.id, "function": _function(call)}
    if call.extra_content is not None:
        written["extra_content"] = call.extra_content
    return written


def _function(call: _Open) -> JsonObject:
    return {"name": call.name, "arguments": call.arguments}
