"""What callers pass, looked at before anything is made of it.

What is said to an invocation goes into its journal. A value of another type than its record has
would be durable and could never be read back, so it is refused here, where it was passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, cast, get_args

from loopwright.protocol import (
    Answer,
    AnswerApproval,
    Budget,
    CallId,
    Cancel,
    ConfigurationError,
    DecideInstead,
    EffectStatus,
    Finding,
    Grant,
    Input,
    Principal,
    Reconciled,
    RemoteProtocolError,
    Settle,
    Status,
    bounded,
    check_json,
)

LEAST_TTL: Final = 0.1
"""Seconds; a heartbeat that is due sooner comes too late whenever the machine is busy."""


def check_said(message: Input) -> None:
    """Look at what somebody says to an invocation.

    Raises:
        RemoteProtocolError: If a part of it has another type than it must have; `where` names it.
        ConfigurationError: If it has to be somebody's and `by` is blank.
    """
    match message:
        case AnswerApproval(by=by, reason=reason):
            _check_by(by, "an approval needs a name: by says who decides, and is blank")
            _check_text(reason, "reason")
        case Answer(text=text, by=by):
            _check_text(text, "text")
            _check_by(by, "an answer needs a name: by says whose it is, and is blank")
        case Settle():
            _check_by(message.by, "a settlement needs a name: by says who knows, and is blank")
            _check_text(message.call_id, "call_id")
            _check_turn(message.turn)
            _check_found(message.found)
        case Cancel(reason=reason, by=by):
            _check_text(reason, "reason")
            _check_by(by, "a cancel needs a name: by says who wants it, and is blank")
        case DecideInstead(by=by):
            _check_by(by, "a decision needs a name: by says who decides, and is blank")
        case Grant(budget=budget, by=by):
            if budget is not None:
                _check_type(budget, Budget, "grant", "a Budget")
            _check_by(by, "a resume needs a name: by says who lets it go on, and is blank")
        case _:
            pass


def check_start(
    goal: str, principal: Principal | None, budget: Budget | None, metadata: object, key: str | None
) -> None:
    """Look at what an invocation is to start with.

    Raises:
        RemoteProtocolError: If a part of it has another type than it must have, is not JSON, or
            has a lone surrogate; `where` names it.
        ConfigurationError: If the goal is blank.
    """
    _check_text(goal, "goal")
    if not goal.strip():
        raise ConfigurationError("the goal is blank; say what is to be done")
    check_json(goal, where="goal")
    if key is not None:
        _check_text(key, "key")
        check_json(key, where="key")
    if budget is not None:
        _check_type(budget, Budget, "budget", "a Budget")
    if principal is not None:
        _check_type(principal, Principal, "principal", "a Principal")
        _check_text(principal.actor, "principal.actor")
        _check_text(principal.tenant, "principal.tenant")
        for name in ("roles", "capabilities"):
            words: object = getattr(principal, name)
            _check_type(words, tuple, f"principal.{name}", "a tuple of texts")
            for word in cast("tuple[object, ...]", words):
                _check_text(word, f"principal.{name}")
    check_json(metadata, where="metadata")


def check_limits(max_live: object, lease_ttl: object) -> None:
    """Look at the limits of a runtime.

    Raises:
        ConfigurationError: If one of them cannot be meant.
    """
    if type(max_live) is not int or max_live < 1:
        raise ConfigurationError(f"the runtime has max_live={max_live!r}; give at least 1")
    # A comparison with NaN holds never.
    if not isinstance(lease_ttl, int | float) or not LEAST_TTL <= lease_ttl < math.inf:
        msg = f"the runtime has lease_ttl={lease_ttl!r}; give at least {LEAST_TTL} seconds"
        raise ConfigurationError(msg)


def chosen(calls: Iterable[str] | None) -> tuple[CallId, ...] | None:
    """Read which calls are meant; `None` means all that wait.

    Raises:
        RemoteProtocolError: If it is one text, or names no call.
    """
    if calls is None:
        return None
    named = () if isinstance(calls, str) else tuple(calls)
    if not named:
        raise RemoteProtocolError("calls", "must list call ids; leave it out for all that wait")
    for call in named:
        _check_text(call, "calls")
    return tuple([CallId(call) for call in named])


def check_edits(edits: object) -> None:
    """Look at edited arguments, before they are checked against their tools.

    Raises:
        RemoteProtocolError: If they are no mapping of call ids to JSON objects.
    """
    _check_type(edits, Mapping, "edits", "a mapping of call ids to arguments")
    for call, arguments in cast("Mapping[object, object]", edits).items():
        _check_text(call, "edits")
        _check_type(arguments, Mapping, f"edits.{bounded(str(call))}", "a JSON object")


def check_statuses(statuses: object) -> None:
    """Look at the statuses of a query of the effect ledger.

    Raises:
        RemoteProtocolError: If one of them is none, or it is one text.
    """
    if isinstance(statuses, str) or not isinstance(statuses, Iterable):
        raise RemoteProtocolError("statuses", f"must be a list of statuses, not {_kind(statuses)}")
    for status in cast("Iterable[object]", statuses):
        _check_word(status, get_args(EffectStatus), "statuses")


def check_status(status: object) -> None:
    """Look at the status of a listing of invocations.

    Raises:
        RemoteProtocolError: If it is none.
    """
    _check_word(status, get_args(Status), "status")


def _check_found(found: object) -> None:
    _check_type(found, Reconciled, "found", "applied(…), rejected(…), not_applied() or unknown(…)")
    said = cast("Reconciled", found)
    _check_word(said.finding, get_args(Finding), "found.finding")
    _check_text(said.reason, "found.reason")
    check_json(said.receipt, where="found.receipt")


def _check_turn(turn: object) -> None:
    if turn is not None and (type(turn) is not int or turn < 1):
        raise RemoteProtocolError("turn", f"must be a number that counts from 1, not {turn!r}")


def _check_by(by: object, otherwise: str) -> None:
    _check_text(by, "by")
    if not str(by).strip():
        raise ConfigurationError(otherwise)


def _check_text(value: object, where: str) -> None:
    _check_type(value, str, where, "a text")


def _check_type(value: object, kind: type, where: str, expected: str) -> None:
    if not isinstance(value, kind):
        raise RemoteProtocolError(where, f"must be {expected}, not {_kind(value)}")


def _check_word(value: object, words: tuple[str, ...], where: str) -> None:
    if value not in words:
        shown = repr(value) if isinstance(value, str) else _kind(value)
        problem = f"must be one of {', '.join(words)}, not {bounded(shown)}"
        raise RemoteProtocolError(where, problem)


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
