"""What a Supervisor is told passes a redactor: every text does, and nothing else changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast, get_args

import pytest

from loopwright.actors.machine._results import LATE_RESULT
from loopwright.actors.tracing._redacting import FAILED, redacted
from loopwright.actors.tracing._redacting_logs import LOGGERS, RedactingFilter, redact_logs
from loopwright.policy import Place, Redact
from loopwright.protocol import (
    Answer,
    AnswerApproval,
    BrokenCall,
    CallId,
    Decided,
    Final,
    Input,
    JsonValue,
    ProposalDigest,
    RemoteProtocolError,
    Settle,
    ToolCall,
    ToolCalls,
    Usage,
    applied,
)
from services.texts import SECRET, messages, structure

KINDS: list[Any] = list(get_args(Input))


def mask(value: JsonValue, place: Place) -> JsonValue:
    """Mask the secret, wherever it is."""
    if isinstance(value, str):
        return value.replace(SECRET, "***")
    if isinstance(value, list):
        return [mask(item, place) for item in value]
    if isinstance(value, dict):
        return {cast("str", mask(key, place)): mask(item, place) for key, item in value.items()}
    return value


def raises(value: JsonValue, place: Place) -> JsonValue:
    raise ValueError(SECRET)


def is_no_json(value: JsonValue, place: Place) -> JsonValue:
    return cast("JsonValue", {"is": object(), "of": value})


def is_of_another_kind(value: JsonValue, place: Place) -> JsonValue:
    return [value] if place == "arguments" else {"is": mask(value, place)}


def edits_of(message: Input) -> bool:
    return isinstance(message, AnswerApproval) and bool(message.edits)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_text_of_any_message_is_left_out(kind: Any) -> None:
    """Whatever has a text that somebody has said, in whichever message: it passes."""
    made: list[Input] = messages(kind)
    for message in made:
        assert SECRET not in repr(redacted(message, mask)), message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_ids_names_numbers_and_statuses_stay_as_they_are(kind: Any) -> None:
    made: list[Input] = messages(kind)
    for message in made:
        after = dict(structure(redacted(message, mask)))
        for path, held in structure(message):
            assert after[path] == held, path


def test_the_messages_of_this_test_do_hold_the_secret() -> None:
    """Otherwise the two above would show nothing."""
    silent = {kind.__name__ for kind in KINDS if not any(SECRET in repr(m) for m in messages(kind))}
    assert silent == {"Recover", "Grant", "Expire", "Wake", "Tick", "Committed"}


@pytest.mark.parametrize("redact", [raises, is_no_json, is_of_another_kind])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_a_redactor_fails_on_is_masked_whole(kind: Any, redact: Redact) -> None:
    """Nothing is let through because a redactor is broken."""
    made: list[Input] = messages(kind)
    for message in made:
        if edits_of(message):
            with pytest.raises(RemoteProtocolError, match=r"edits\.id: could not be redacted"):
                redacted(message, redact)
        else:
            assert SECRET not in repr(redacted(message, redact)), message


def test_a_call_whose_arguments_cannot_be_redacted_is_not_run() -> None:
    """A tool must not get the mask for its arguments."""
    call = ToolCall(CallId("a"), "pay", {"to": SECRET})
    heard = redacted(Decided(1, ToolCalls((call,)), Usage()), raises)
    assert isinstance(heard, Decided)
    assert heard.decision == ToolCalls(
        (
            BrokenCall(
                CallId("a"),
                "pay",
                "its arguments could not be redacted, so that it is not run",
                FAILED,
            ),
        )
    )


def test_what_a_redactor_said_as_it_failed_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    redacted(Answer(SECRET, "ana"), raises)
    assert "The redactor failed on a value (person): ValueError" in caplog.text
    assert SECRET not in caplog.text


def test_each_value_is_told_with_its_place() -> None:
    """A redactor may treat a person's words otherwise than a tool's."""
    heard: list[tuple[JsonValue, Place]] = []

    def note(value: JsonValue, place: Place) -> JsonValue:
        heard.append((value, place))
        return value

    def places_of(message: Input) -> list[tuple[JsonValue, Place]]:
        heard.clear()
        redacted(message, note)
        return list(heard)

    call, broken = ToolCall(CallId("a"), "t", {"n": 1}), BrokenCall(CallId("b"), "t", "bad", "{")
    decided = Decided(1, ToolCalls((call, broken), "so"), Usage())
    assert places_of(decided) == [
        ("so", "text"),
        ({"n": 1}, "arguments"),
        ("bad", "text"),
        ("{", "text"),
    ]
    said = AnswerApproval(ProposalDigest("d"), True, "ana", None, "fine", {CallId("a"): {"n": 2}})
    assert places_of(said) == [("fine", "person"), ({"n": 2}, "arguments")]
    assert places_of(Settle(CallId("a"), applied("paid"), "ana")) == [("paid", "person")]
    assert places_of(Settle(CallId("a"), applied("paid"), LATE_RESULT)) == [("paid", "output")]
    assert places_of(Decided(1, Final("", {"n": 1}), Usage())) == [({"n": 1}, "text")]


def test_nothing_is_no_value() -> None:
    """Empty texts and absent values are not shown to a redactor, which might fill them."""

    def fill(value: JsonValue, place: Place) -> JsonValue:
        return "filled"

    assert redacted(Decided(1, Final(""), Usage()), fill) == Decided(1, Final(""), Usage())


# ---------------------------------------------------------------- logs
def logged(
    caplog: pytest.LogCaptureFixture, say: Callable[[logging.Logger], None], redact: Redact = mask
) -> str:
    caplog.clear()
    logger = logging.getLogger("loopwright.runtime")
    undo = redact_logs(redact)
    try:
        with caplog.at_level(logging.DEBUG, logger="loopwright"):
            say(logger)
    finally:
        undo()
    return caplog.text


def test_what_is_logged_is_redacted_tracebacks_too(caplog: pytest.LogCaptureFixture) -> None:
    def fail(logger: logging.Logger) -> None:
        try:
            raise ValueError(SECRET)
        except ValueError:
            logger.exception("It failed on %s:", SECRET, stack_info=True)

    text = logged(caplog, fail)
    assert "It failed on ***:" in text
    assert "ValueError: ***" in text
    assert SECRET not in text
    (record,) = caplog.records
    assert (record.exc_info, record.args) == (None, None)


def test_a_redactor_that_fails_masks_the_whole_line(caplog: pytest.LogCaptureFixture) -> None:
    text = logged(caplog, lambda logger: logger.warning("It is %s", SECRET), raises)
    assert FAILED in text
    assert "The redactor failed on a value (error): ValueError" in text
    assert SECRET not in text


def test_a_line_that_cannot_be_put_together_fails_nobody() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%s and %s", (1,), None)
    assert RedactingFilter(mask).filter(record)
    assert record.msg == "%s and %s"


def test_logs_are_left_alone_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    logged(caplog, lambda logger: None)
    logging.getLogger("loopwright.runtime").warning("It is %s", SECRET)
    assert SECRET in caplog.text


def test_every_logger_is_known() -> None:
    """One that is not would log what is not redacted."""
    from pathlib import Path

    root = Path(__file__).parents[2]
    files = [path for folder in ("actors", "stores") for path in (root / folder).rglob("*.py")]
    named = {
        line.split('"')[1]
        for path in files
        for line in path.read_text().splitlines()
        if "getLogger(" in line and '"' in line
    }
    assert named == set(LOGGERS)
