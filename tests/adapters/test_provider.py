"""What all adapters share: clients that belong to a loop, failures in our words, strict schemas."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import TypeAdapter

from loopwright.adapters.provider._clients import Clients
from loopwright.adapters.provider._failures import failure_of
from loopwright.adapters.provider._schema import strict_schema
from loopwright.examples.refund_desk import Settlement
from loopwright.policy import Failure, classify
from loopwright.protocol import ModelError, ModelErrorKind, Usage


# ---------------------------------------------------------------- clients
class Client:
    """What an SDK's client is here: something that is closed."""

    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


def clients() -> tuple[Clients[Client], list[Client]]:
    made: list[Client] = []

    def make() -> Client:
        made.append(Client())
        return made[-1]

    return Clients(make, Client.close), made


@pytest.mark.anyio
async def test_a_loop_has_one_client_until_it_is_closed_and_then_a_new_one() -> None:
    lent, made = clients()
    async with lent.lend() as one, lent.lend() as other:
        assert one is other
    await lent.aclose()
    await lent.aclose()
    async with lent.lend() as third:
        assert third is not one
    await lent.aclose()
    assert [client.closed for client in made] == [1, 1]


@pytest.mark.anyio
async def test_a_client_that_is_in_use_is_closed_by_its_last_user() -> None:
    """Two runtimes may share a model; the one that is left does not tear the other's line."""
    lent, made = clients()
    async with lent.lend():
        async with lent.lend():
            await lent.aclose()
            assert made[0].closed == 0
        assert made[0].closed == 0
    assert made[0].closed == 1


def test_each_loop_has_its_own_client() -> None:
    lent, made = clients()

    async def use() -> None:
        async with lent.lend():
            pass
        await lent.aclose()

    asyncio.run(use())
    asyncio.run(use())
    assert [client.closed for client in made] == [1, 1]


# ---------------------------------------------------------------- failures
class SDKError(Exception):
    """As both SDKs make them: what came is hung on the exception."""

    def __init__(self, message: str, status: int | None = None, body: object = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status_code = status
        self.body = body


class LostError(SDKError):
    """The line went dead."""


def of(error: Exception, usage: Usage | None = None) -> Failure:
    return classify(failure_of(error, (LostError,), usage))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LostError("closed"), "transient"),
        (SDKError("x", 400, {"code": "context_length_exceeded"}), "context_too_long"),
        (SDKError("prompt is too long: 9 tokens > 8 maximum", 400), "context_too_long"),
        (SDKError("too large", 413), "context_too_long"),
        (SDKError("x", 400, {"error": {"code": "content_filter"}}), "refused"),
        (SDKError("x", 400, {"innererror": {"code": "ResponsibleAIPolicyViolation"}}), "refused"),
        (SDKError("bad", 400, {"code": "invalid_value"}), "permanent"),
        (SDKError("bad", 401), "permanent"),
        (SDKError("slow down", 429), "rate_limited"),
        (SDKError("context window service is down", 503), "transient"),
        (SDKError("oops", None, {"type": "overloaded_error"}), "transient"),
        (SDKError("oops", 200, {"error": {"type": "rate_limit_error"}}), "rate_limited"),
        (SDKError("oops", None, {"error": {"type": "invalid_request_error"}}), "permanent"),
        (SDKError("oops", None, "not an object"), "transient"),
    ],
)
def test_a_failure_of_an_sdk_is_the_kind_it_is(error: Exception, kind: str) -> None:
    assert of(error).kind is ModelErrorKind(kind)


def test_what_came_of_a_reply_is_charged_though_the_rest_is_missing() -> None:
    assert of(LostError("closed"), Usage(25, 1)).usage == Usage(25, 1)


def test_what_the_runtime_reads_itself_is_left_as_it_is() -> None:
    error = SDKError("slow down", 429)
    assert failure_of(error, (LostError,)) is error


def test_an_error_text_is_bounded() -> None:
    found = failure_of(LostError("x" * 10_000), (LostError,))
    assert isinstance(found, ModelError)
    assert len(str(found)) < 1_000


# ---------------------------------------------------------------- schemas
def schema_of(kind: Any) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema()


def test_a_strict_schema_has_only_its_properties_and_all_of_them() -> None:
    strict = strict_schema(schema_of(Settlement))
    assert strict is not None
    assert strict["additionalProperties"] is False
    properties = strict["properties"]
    assert isinstance(properties, dict)
    assert strict["required"] == list(properties)
    assert "default" not in str(strict)
    assert "'title'" not in str(strict)


@pytest.mark.parametrize("kind", [dict[str, int], tuple[int, str], list[Any], Any])
def test_what_providers_cannot_enforce_is_not_strict(kind: Any) -> None:
    assert strict_schema({"type": "object", "properties": {"output": schema_of(kind)}}) is None


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"title": {"type": "string"}}}
    strict = strict_schema(schema)
    assert strict is not None
    assert strict["required"] == ["title"]


def test_limits_are_left_to_the_runtime() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 3}}
    assert strict_schema(schema) == {"type": "array", "items": {"type": "integer"}}
