"""Work that gets somewhere, some of which looks like a loop."""

from __future__ import annotations

from loopwright.policy import Progress, Traits

from .loops import WORK, tests_pass
from .notation import Trajectory, Verdict

POLL = Traits(polling=True)


def _work(
    name: str, turns: tuple[str, ...], rule: Progress | None = None, **traits: Traits
) -> Trajectory:
    return Trajectory(name=name, turns=turns, loop=False, rule=rule or Progress(), traits=traits)


POLLING = (
    _work(
        "a job that moves on",
        tuple(f"status(job=1) -> {p}" for p in (*range(10, 80, 10), "done")),
    ),
    _work(
        "a job that moves on every third time",
        tuple(f"status(job=1) -> {n // 3}0%" for n in range(30)),
        rule=Progress(max_repeats=4),
    ),
    _work("a state that goes to and fro", ("status() -> busy", "status() -> idle") * 15),
    _work("waiting, with a tool that says so", ("status(job=1) -> queued",) * 40, status=POLL),
    _work(
        "waiting for a service that is not up yet",
        (*("status() !unavailable starting",) * 12, "status() -> ready"),
        status=POLL,
    ),
    _work(
        "waiting, with a look at the log each time",
        ("status(job=1) -> queued", "log() -> empty") * 12,
        status=POLL,
    ),
    _work(
        "waiting, two calls in one batch",
        ("status(job=1) -> queued ; log() -> empty",) * 20,
        status=POLL,
    ),
)

LISTINGS = (
    _work("pages by number", tuple(f"list(page={n}) -> row {n}" for n in range(30))),
    _work(
        "pages by a cursor that is declared volatile",
        tuple(f'list(cursor=c{n}) -> {{"rows": [{n}], "next": "c{n + 1}"}}' for n in range(30)),
        list=Traits(volatile=("cursor", "next")),
    ),
    _work("pages by the same call", tuple(f"next_page() -> row {n}" for n in range(30))),
    _work(
        "pages of which many are empty",
        tuple(f"list(page={n}) -> {[] if n % 4 else [n]}" for n in range(40)),
    ),
    _work(
        "scrolling: a write without a result, and a look",
        tuple(
            text
            for n in range(15)
            for text in ("*scroll(by=1) -> ok", f"screen() -> lines {n} to {n + 9}")
        ),
    ),
    _work("18 links that all work", tuple(f"check(link=/p/{n}) -> 200" for n in range(18))),
)

RETRIES = (
    _work(
        "the third time works",
        (*("fetch(url=x) !transient reset",) * 2, "fetch(url=x) -> page"),
    ),
    _work(
        "the fifth place is it",
        (
            *(f"read(path=/{n}/conf) !permanent no file /{n}/conf" for n in range(4)),
            "read(path=/4/conf) -> found",
        ),
    ),
    _work(
        "two that don't fit, one that does, two that don't",
        (
            'set({"a": 1}) ?invalid_arguments needs b',
            'set({"b": 2}) ?invalid_arguments needs a',
            'set({"a": 1, "b": 2}) -> ok',
            'set({"a": []}) ?invalid_arguments a is a number',
            'set({"a": null}) ?invalid_arguments a is a number',
        ),
    ),
    _work(
        "failures of many kinds on the way",
        (
            "ssh(host=a) !permission no key",
            "ssh(host=b) !unavailable down",
            "ftp(host=a) !permission no key",
            "ssh(host=c) !permission no key",
            "http(host=a) !timeout too slow",
            "ssh(host=d) !permission no key",
            "http(host=b) -> page",
        ),
    ),
    _work(
        "failing tests, one less each time",
        tuple(
            text
            for n in range(9)
            for text in (f"*edit(line={n}) -> ok", f"run_tests() !internal {9 - n} failed")
        ),
    ),
    _work(
        "failing tests, the same ones until the last edit",
        (
            *(
                text
                for n in range(9)
                for text in (f"*edit(line={n}) -> ok", "run_tests() !internal 1 failed")
            ),
            "run_tests() -> passed",
        ),
    ),
)

LONG = (
    _work("40 files, one after the other", tuple(f"read(path={n}) -> text {n}" for n in range(40))),
    _work("40 writes that all return ok", tuple(f"*update(row={n}) -> ok" for n in range(40))),
    _work("40 deliveries that return nothing", tuple(f"*send(to={n}) -> null" for n in range(40))),
    _work(
        "a look before each write",
        tuple(t for n in range(15) for t in (f"get(id={n}) -> open", f"*close(id={n}) -> closed")),
    ),
    _work(
        "the same file again whenever it was changed",
        tuple(t for n in range(15) for t in (f"*append(line={n}) -> ok", f"read() -> {n} lines")),
    ),
    _work(
        "what was read long ago is read again",
        (*WORK, *WORK[:4], "*write(path=summary) -> ok", *WORK[4:8], "*write(path=index) -> ok"),
    ),
    _work(
        "each call twice, to be sure",
        tuple(f"measure(probe={n // 2}) -> {n // 2}.5" for n in range(30)),
    ),
    _work(
        "a batch in another order, with other results",
        tuple(
            f"a() -> {n} ; b() -> {n}" if n % 2 else f"b() -> {n} ; a() -> {n}" for n in range(20)
        ),
    ),
    _work(
        "two in turn, of which one changes",
        tuple(f"clock() -> {n}" if n % 2 else "config() -> same" for n in range(30)),
    ),
    _work(
        "three in turn, of which one changes",
        tuple(("a() -> 1", "b() -> 2", f"queue() -> {n} left")[n % 3] for n in range(30)),
    ),
    _work(
        "a goal that is met in time",
        (
            *(f"*edit(n={n}) -> ok ; run_tests() -> {n} failed" for n in range(9)),
            "run_tests() -> passed",
            *(f"*polish(n={n}) -> ok" for n in range(12)),
        ),
        rule=Progress(goals={"tests": tests_pass}),
    ),
)

FLAGGED = (
    Trajectory(
        name="a slow job, asked by a tool that does not say it is polling",
        turns=tuple(f"status(job=1) -> {n // 4}0%" for n in range(30)),
        loop=False,
        stalled=Verdict("repeated_plan", 4),
    ),
    Trajectory(
        name="30 links that all work, one at a time",
        turns=tuple(f"check(link=/p/{n}) -> 200" for n in range(30)),
        loop=False,
        stalled=Verdict("state_unchanged", 21),
    ),
    Trajectory(
        name="nine files read again, one at a time, that were forgotten",
        turns=(*WORK, *WORK[:9], "*write(path=summary) -> ok"),
        loop=False,
        stalled=Verdict("nothing_new", len(WORK) + 8),
    ),
)
"""Work that no signal can tell from a loop: waiting, answers that are all alike, a poor memory."""

WORKS = (*POLLING, *LISTINGS, *RETRIES, *LONG, *FLAGGED)
