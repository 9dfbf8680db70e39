"""The command that tells the whole story in one go: demo."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from loopwright.examples.refund_desk.shop import LoadReport, ShopFileError
from loopwright.protocol import ConfigurationError, JsonObject, Outcome, to_json

from . import _panels, _plain, _views
from ._out import Output
from ._session import short
from ._shared import OK, UNSUCCESSFUL, Json
from ._story import VICTIM, Checked, Decided, Killed, Recovered, Story
from ._watch import arguments

_PAUSE: Final = 0.8


def demo(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="An empty folder, to keep the files; by default they are deleted.",
            show_default=False,
        ),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="No pauses for reading.")] = False,
    as_json: Json = False,
) -> None:
    """Tell the whole story in one go: work, a kill -9, two humans."""
    out = Output(as_json=as_json)
    pause = 0.0 if fast or as_json or not sys.stdout.isatty() else _PAUSE
    if folder is not None:
        _make(folder)
        code = anyio.run(_play, Story(folder.resolve()), out, pause)
        out.say(Text(f"look around: loopwright list --store {folder / 'loopwright.db'}", "dim"))
    else:
        with tempfile.TemporaryDirectory(prefix="loopwright-demo-") as made:
            code = anyio.run(_play, Story(Path(made)), out, pause)
        out.say(Text("loopwright demo --dir FOLDER keeps the files to look at", "dim"))
    raise typer.Exit(code)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if next(folder.iterdir(), None) is not None:
            msg = f"the folder {str(folder)!r} is not empty; name an empty or a new one with --dir"
            raise ConfigurationError(msg)
    except OSError as error:
        msg = f"the folder {str(folder)!r} cannot be used: {error.strerror}; name another one"
        raise ConfigurationError(msg) from None


async def _play(story: Story, out: Output, pause: float) -> int:
    """Play it act by act."""
    begun = time.monotonic()
    try:
        report = story.build_shop()
    except ShopFileError as error:
        raise ConfigurationError(str(error)) from None

    reading = 0.0

    async def act(title: str, *shown: RenderableType) -> None:
        nonlocal reading
        out.say(Group(Text(), Rule(Text(title, "bold"), align="left", style="dim"), *shown))
        if not out.as_json:
            await anyio.sleep(pause)
            reading += pause

    await act("1  A shop with real, dirty data", *_shop(report))
    killed = await story.kill_a_worker()
    await act(f"2  A worker is killed while it pays {VICTIM}", *_killed(killed))
    recovered = await story.recover()
    await act("3  Another process recovers", *_recovered(killed, recovered))
    outcomes = await story.settle_the_rest()
    await act("4  All other requests, at once", *_outcomes(outcomes))
    decided = await story.decide(outcomes)
    await act("5  Humans decide, from other processes", *_decided(decided))
    checked = await story.check()
    payments = story.payments_by_key()
    single = all(count == 1 for count in payments.values())
    well = single and recovered.replayed and all(row.ok for row in checked)
    seconds = time.monotonic() - begun - reading
    await act("6  The reckoning: expected.csv and the shop's ledger", _reckoning(checked))
    once = f"{'yes' if single else 'NO'} ({len(payments)} keys, {payments.total()} payments)"
    out.say(
        Group(
            Text(f"one payment per effect key: {once}", "green" if single else "red"),
            Text(
                f"{sum(row.ok for row in checked)} of {len(checked)} requests as expected, "
                f"in {seconds:.1f} s",
                "green" if well else "red",
            ),
        )
    )
    result: JsonObject = {
        "ok": well,
        "shop": to_json(report).value,
        "killed": {
            "pid": killed.pid,
            "exit_code": killed.exit_code,
            "effect_key": killed.effect,
            "store_says": killed.store_says,
            "shop_says": to_json(killed.shop_says).value,
        },
        "recovered": {
            **_plain.of_outcome(recovered.outcome),
            "attempts": recovered.attempts,
            "replayed": recovered.replayed,
            "payments": recovered.payments,
        },
        "decided": to_json(decided).value,
        "requests": to_json(checked).value,
        "keys": len(payments),
        "payments": payments.total(),
        "seconds": round(seconds, 3),
    }
    out.emit(result)
    return OK if well else UNSUCCESSFUL


def _shop(report: LoadReport) -> Sequence[RenderableType]:
    counts = ", ".join(f"{report.counts[name]} {name}" for name in ("orders", "payments"))
    text = f"{counts} and {report.counts['requests']} refund requests are loaded."
    table = _views.table("file", "line", "left out, because it")
    for reject in report.rejects:
        table.add_row(reject.file, str(reject.line), Text(reject.reason))
    return Text(text), table


def _killed(killed: Killed) -> Sequence[RenderableType]:
    paid = killed.shop_says
    table = _views.table("id", "request", "the store says")
    for summary in killed.known:
        reason = summary.head.reason
        shown = Text("running", "yellow") if reason is None else _views.reason_text(reason)
        table.add_row(short(summary.invocation_id), summary.head.key, shown)
    return (
        Text(
            f"Process {killed.pid} settles requests. The moment the shop has paid {VICTIM}, it "
            f"gets SIGKILL; its exit code is {killed.exit_code}."
        ),
        table,
        _panels.fields(
            [
                ("the shop knows", Text(f"{paid.refund_id}: {paid.amount} {paid.currency}, paid")),
                (
                    "loopwright knows",
                    Text(f"{killed.effect} was {killed.store_says}, but not what came of it"),
                ),
            ]
        ),
    )


def _recovered(killed: Killed, recovered: Recovered) -> Sequence[RenderableType]:
    again = "answers from its ledger" if recovered.replayed else "PAYS AGAIN"
    return (
        Text(
            f"The dead worker's lease runs out, and this process takes over. It sends "
            f"{killed.effect} again, attempt {recovered.attempts}; the shop {again}."
        ),
        _panels.fields(
            [
                ("payments", Text(f"{recovered.payments} under {killed.effect}")),
                ("reason", _views.reason_text(recovered.outcome.reason)),
                ("answer", Text(recovered.outcome.answer)),
            ]
        ),
    )


def _outcomes(outcomes: Sequence[tuple[str, Outcome]]) -> Sequence[RenderableType]:
    table = _views.table("request", "reason", "in its own words")
    for name, done in outcomes:
        said = done.answer.removeprefix(f"{name} ")
        if done.proposal is not None:
            said = "; ".join(ask.reason for ask in done.proposal.asks)
        table.add_row(name, _views.reason_text(done.reason), Text(said))
    return (table,)


def _decided(decided: Sequence[Decided]) -> Sequence[RenderableType]:
    table = _views.table("request", "exactly what would run", "answer")
    for one in decided:
        (ask,) = one.proposal.asks
        said = Text(f"yes, {one.by}", "green") if one.approved else Text(f"no, {one.by}", "red")
        table.add_row(one.request_id, Text(f"{ask.tool_name}({arguments(ask.arguments)})"), said)
    return (table,)


def _reckoning(checked: Sequence[Checked]) -> RenderableType:
    table = _views.table("request", "outcome", "why", "paid", "expected", "ok")
    table.columns[3].justify = "right"
    for row in checked:
        ok = Text("yes", "green") if row.ok else Text("NO", "bold red")
        paid = "" if row.paid is None else str(row.paid)
        table.add_row(row.request_id, row.status, row.why, paid, row.expected, ok)
    return table
