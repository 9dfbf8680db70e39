"""Methods as tools: each object has its own, with its state."""

from __future__ import annotations

import copy
import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from casebook.desk import batch, call, play

from loopwright import (
    Agent,
    ConfigurationError,
    Final,
    Reconciled,
    ToolContext,
    applied,
    not_applied,
    tool,
    toolset,
)
from loopwright.actors import AnyTool
from loopwright.testing import ScriptedModel, Step


@dataclass
class Shop:
    """A class with state; being a dataclass, its objects have no hash."""

    paid: dict[str, Decimal] = field(default_factory=dict[str, Decimal])

    @tool(effect="read")
    async def find_order(self, order: int) -> str:
        """Look up an order."""
        return f"order {order} of {len(self.paid)}"

    @tool(effect="reconcilable", effect_key=lambda a: f"refund:{a.order}")
    def refund(self, order: int, amount: Decimal, ctx: ToolContext) -> str:
        """Pay money back."""
        assert ctx.effect_key is not None
        self.paid[ctx.effect_key] = amount
        return f"paid {amount} for {order}"

    @refund.reconcile
    async def _(self, effect_key: str) -> Reconciled:
        return applied("r-1") if effect_key in self.paid else not_applied()

    def helper(self) -> None:
        """Be no tool."""


class Kiosk(Shop):
    @tool(effect="read")
    def opening_hours(self) -> str:
        return "never"

    def find_order(self, order: int) -> str:  # type: ignore[override]  # it is to be no tool any more
        return "nothing"


def made_of(tools: list[AnyTool]) -> list[str]:
    return [made.name for made in tools]


@pytest.mark.anyio
async def test_a_run_uses_the_state_of_its_object() -> None:
    """Two objects share a schema, and nothing else."""
    shop, other = Shop(), Shop()
    steps: list[Step] = [
        batch(call("1", "refund", {"order": 7, "amount": "3.50"})),
        batch(call("2", "find_order", {"order": 7})),
        Final("done"),
    ]
    played = await play(steps, shop.find_order, shop.refund)
    assert [result.output for result in played.results] == ["paid 3.50 for 7", "order 7 of 1"]
    assert (shop.paid, other.paid) == ({"refund:7": Decimal("3.50")}, {})
    assert shop.refund.spec == other.refund.spec
    assert shop.refund.schema_version == other.refund.schema_version


def test_the_object_is_no_argument() -> None:
    shop = Shop()
    assert list(shop.refund.spec.parameters["properties"]) == ["order", "amount"]  # type: ignore[arg-type]  # an object
    assert shop.refund.spec.description == "Pay money back."
    assert shop.refund("x", Decimal(1), _context("k")) == "paid 1 for x"  # type: ignore[arg-type]  # nothing is coerced
    assert Shop.refund(shop, 1, Decimal(2), _context("k")) == "paid 2 for 1"


@pytest.mark.anyio
async def test_its_reconciler_is_a_method_too() -> None:
    shop = Shop({"k": Decimal(1)})
    ask: Any = shop.refund.reconciler
    assert await ask("k") == applied("r-1")
    assert await ask("other") == not_applied()


def test_it_is_the_same_tool_each_time() -> None:
    """So that agents which share an object share its limits; a copy of the object is another one."""
    shop = Shop()
    assert shop.refund is shop.refund
    assert shop.refund is not Shop().refund
    again = copy.copy(shop)
    again.paid = {}
    again.refund(1, Decimal(1), _context("k"))
    assert shop.paid == {}
    assert vars(shop) == {"paid": {}}


def test_an_object_is_not_kept_by_its_class() -> None:
    shop = Shop()
    held = Agent("desk", model=ScriptedModel([]), tools=[shop.refund])
    ref = weakref.ref(shop.refund)
    assert held.tools["refund"] is ref()
    del shop, held
    gc.collect()
    assert ref() is None


def test_an_object_without_room_for_attributes_will_do() -> None:
    class Small:
        __slots__ = ()

        @tool(effect="read")
        def look(self) -> int:
            return 1

    small = Small()
    assert small.look is small.look
    assert small.look() == 1


def test_all_tools_of_an_object() -> None:
    """As they are written, base classes first; what a subclass makes no tool is none."""
    assert made_of(toolset(Shop())) == ["find_order", "refund"]
    assert made_of(toolset(Kiosk())) == ["refund", "opening_hours"]
    kiosk = Kiosk()
    assert toolset(kiosk) == [kiosk.refund, kiosk.opening_hours]
    with pytest.raises(
        ConfigurationError, match=r"^<object object at .* has no tools; give an obj"
    ):
        toolset(object())


def test_a_method_without_an_object_is_refused() -> None:
    """At registration, not as its first call lacks an argument."""
    with pytest.raises(
        ConfigurationError,
        match=r"^agent 'desk': tool 'refund' is a method, and of no object here; give it as an ",
    ):
        Agent("desk", model=ScriptedModel([]), tools=[Shop.refund])


def test_what_is_wrong_with_a_method_is_said_where_it_is_written() -> None:
    with pytest.raises(
        ConfigurationError, match="tool 'look' has the parameter 'x' without a type"
    ):

        class Bad:  # pyright: ignore[reportUnusedClass]
            @tool(effect="read")
            def look(self, x) -> None: ...  # type: ignore[no-untyped-def]  # what the test is about

    made = Shop.refund
    with pytest.raises(ConfigurationError, match="tool 'refund' has two reconcilers; drop one"):
        made.reconcile(_ask)

    with pytest.raises(ConfigurationError, match="as its reconciler, which does not take one arg"):

        class Worse:  # pyright: ignore[reportUnusedClass]
            @tool(effect="reconcilable")
            def pay(self) -> None: ...

            pay.reconcile(_of_nothing)  # pyright: ignore[reportArgumentType]


def test_a_static_method_is_a_function() -> None:
    class Home:
        @staticmethod
        @tool(effect="read")
        def look(x: int) -> int:
            return x

        outside = tool(effect="read", name="outside")(_double)

    home: Any = Home()
    assert home.look(2) == 2
    assert Home.outside(2) == home.outside(2) == 4
    assert made_of(toolset(home)) == ["outside"]
    assert home.look is vars(Home)["look"].__func__
    assert Agent("desk", model=ScriptedModel([]), tools=[home.look]).tools["look"] is home.look


def test_threads_that_ask_at_once_get_the_same_tool() -> None:
    """Or else its limit would count for each of them alone."""
    interval, at_once = sys.getswitchinterval(), threading.Barrier(4)
    sys.setswitchinterval(1e-6)

    def ask(shop: Shop) -> AnyTool:
        at_once.wait(10)
        return shop.refund

    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(100):
                first, *others = threads.map(ask, [Shop()] * 4)
                assert all(other is first for other in others)
    finally:
        sys.setswitchinterval(interval)


async def _ask(_self: object, _key: str) -> Reconciled:
    return applied()


def _of_nothing(_self: object) -> Reconciled:
    return applied()


def _double(x: int) -> int:
    return 2 * x


def _context(key: str) -> ToolContext:
    return ToolContext("i", 1, "c", "c#1", 1, key, None)  # type: ignore[arg-type]  # ids are texts
