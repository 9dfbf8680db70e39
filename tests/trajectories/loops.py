"""Loops: somebody who watches would stop them."""

from __future__ import annotations

from loopwright.policy import Progress, Traits
from loopwright.protocol import TurnCommitted

from .notation import Trajectory, Verdict

WORK = tuple(f"read(path=src/{n}.py) -> def function_{n}(): ..." for n in range(12))
"""Some turns of honest work, to begin with."""


def tests_pass(turn: TurnCommitted) -> bool | None:
    """Whether the last run of the tests was green: a goal."""
    for result in turn.results:
        if result.tool_name == "run_tests":
            return result.output == "passed"
    return None


def built(turn: TurnCommitted) -> bool | None:
    """Whether something was built: another goal."""
    return True if any(r.tool_name == "build" and r.ok for r in turn.results) else None


def _loop(
    name: str,
    turns: tuple[str, ...],
    signal: str,
    turn: int,
    rule: Progress | None = None,
    **traits: Traits,
) -> Trajectory:
    return Trajectory(
        name=name,
        turns=turns,
        loop=True,
        stalled=Verdict(signal, turn),
        rule=rule or Progress(),
        traits=traits,
    )


REPEATS = (
    _loop("one call, again and again", ("get(x=1) -> same",) * 9, "repeated_plan", 4),
    _loop(
        "a batch, its calls in another order each time",
        ("look(at=a) -> 1 ; look(at=b) -> 2", "look(at=b) -> 2 ; look(at=a) -> 1") * 4,
        "repeated_plan",
        4,
    ),
    _loop(
        "arguments with their keys in another order",
        ('find({"q": "ann", "in": "crm"}) -> []', 'find({"in": "crm", "q": "ann"}) -> []') * 4,
        "repeated_plan",
        4,
    ),
    _loop(
        "a call that fails the same way",
        ("fetch(url=x) !transient connection reset",) * 6,
        "repeated_plan",
        4,
    ),
    _loop(
        "a write that changes nothing more",
        ("*notify(to=ann, text=hello) -> queued",) * 6,
        "repeated_plan",
        4,
    ),
    _loop("a call that is denied", ("pay(to=bob) ?denied over the limit",) * 6, "repeated_plan", 4),
    _loop("a tool that is not there", ("guess() ?unknown_tool none",) * 6, "repeated_plan", 4),
    _loop("after long work", (*WORK, *("ls() -> a b",) * 6), "repeated_plan", 16),
    _loop(
        "a request id that is declared volatile",
        tuple(f"get(x=1, request_id=r{n}) -> same" for n in range(6)),
        "repeated_plan",
        4,
        get=Traits(volatile=("request_id",)),
    ),
    _loop(
        "results that differ in a time only",
        tuple(f'get(x=1) -> {{"at": {n}, "state": "open"}}' for n in range(6)),
        "repeated_plan",
        4,
        get=Traits(volatile=("at",)),
    ),
    _loop(
        "results that differ in times only, deep inside",
        tuple(f'list() -> {{"rows": [{{"id": 1, "meta": {{"seen": {n}}}}}]}}' for n in range(6)),
        "repeated_plan",
        4,
        list=Traits(volatile=("seen",)),
    ),
    _loop(
        "whatever it returns, for the reference controller",
        tuple(f"get(x=1) -> {n}" for n in range(4)),
        "repeated_plan",
        2,
        rule=Progress.exact(1),
    ),
)

CYCLES = (
    _loop("two calls in turn", ("a() -> 1", "b() -> 2") * 5, "cycle", 6),
    _loop("three calls in turn", ("a() -> 1", "b() -> 2", "c() -> 3") * 4, "cycle", 9),
    _loop(
        "two batches in turn",
        ("a() -> 1 ; b() -> 2", "c() -> 3 ; d() !internal broke") * 4,
        "cycle",
        6,
    ),
    _loop(
        "an edit and a test, both failing the same way",
        ("edit(line=3) !invalid_input no match", "run_tests() !internal 3 failed") * 4,
        "cycle",
        6,
    ),
    _loop(
        "a switch, on and off",
        ("*switch(to=on) -> ok", "*switch(to=off) -> ok") * 5,
        "cycle",
        6,
    ),
    _loop(
        "three in turn, after long work",
        (*WORK, *("ls() -> a b", "read(path=a) -> A", "read(path=b) -> B") * 4),
        "cycle",
        len(WORK) + 9,
    ),
    _loop(
        "one call twice, then another",
        ("a() -> 1", "a() -> 1", "b() -> 2") * 5,
        "cycle",
        9,
    ),
    _loop(
        "four in turn",
        ("a() -> 1", "b() -> 2", "c() -> 3", "d() -> 4") * 4,
        "nothing_new",
        12,
    ),
    _loop(
        "a patch and its opposite, with the tests in between",
        (
            "*patch(with=x) -> ok",
            "run_tests() -> 3 failed",
            "*patch(with=y) -> ok",
            "run_tests() -> 3 failed",
        )
        * 5,
        "nothing_new",
        13,
    ),
)

KNOWN = (
    _loop(
        "everything is read again, in no order",
        (*WORK[:5], *(WORK[n % 5] for n in (3, 1, 4, 2, 0, 4, 1, 3, 0, 2))),
        "nothing_new",
        13,
    ),
    _loop(
        "known calls, in batches of another size each time",
        (
            "a() -> 1 ; b() -> 2",
            *("a() -> 1", "b() -> 2 ; a() -> 1", "b() -> 2", "a() -> 1 ; b() -> 2") * 3,
        ),
        "nothing_new",
        10,
    ),
    _loop(
        "one question, in other letters and spaces",
        tuple(
            f"search(q={q}) -> no hits"
            for q in (
                "refund policy",
                "Refund policy",
                "Refund Policy",
                "refund  policy",
                "REFUND POLICY",
                "refundpolicy",
                "refund Policy",
                " refund policy",
                "RefundPolicy",
                "Refund  policy",
            )
        ),
        "nothing_new",
        9,
    ),
    _loop(
        "one question, in other words each time",
        tuple(f"search(q=refund rule variant {n}) -> no hits" for n in range(30)),
        "state_unchanged",
        21,
    ),
    _loop(
        "a number nobody has declared volatile",
        tuple(f"get(x=1, nonce={n}) -> same" for n in range(30)),
        "state_unchanged",
        21,
    ),
    _loop(
        "other words each time, and the list in between",
        tuple(f"search(q=words {n}) -> no hits" if n % 2 else "list() -> a b c" for n in range(40)),
        "state_unchanged",
        22,
    ),
)

ERRORS = (
    _loop(
        "a tool that refuses whatever it is given",
        tuple(f"query(sql=select {n}) !invalid_input syntax error" for n in range(9)),
        "error_loop",
        5,
    ),
    _loop(
        "paths that do not exist, named in the error",
        tuple(f"read(path=/etc/{n}) !permanent no such file /etc/{n}" for n in range(9)),
        "error_loop",
        5,
    ),
    _loop(
        "time-outs, with a larger limit each time",
        tuple(f"crawl(limit={n}) !timeout too slow" for n in range(9)),
        "error_loop",
        5,
    ),
    _loop(
        "failures, with a look at the same list in between",
        (
            "list() -> a b",
            *(
                text
                for n in range(9)
                for text in (f"open(id={n}) !permanent unknown id {n}", "list() -> a b")
            ),
        ),
        "error_loop",
        10,
    ),
    _loop(
        "failures beside a call that says nothing new",
        (
            "list() -> a b",
            *(f"list() -> a b ; open(id={n}) !permission not yours" for n in range(9)),
        ),
        "error_loop",
        6,
    ),
    _loop(
        "two tools that fail in turn",
        tuple(
            text
            for n in range(9)
            for text in (f"ftp(n={n}) !unavailable down", f"http(n={n}) !rate_limited slower")
        ),
        "error_loop",
        9,
    ),
)

GOALS = (
    _loop(
        "busy, but the tests stay red",
        tuple(f"*edit(n={n}) -> ok ; run_tests() -> {n} failed" for n in range(20)),
        "goals_unchanged",
        11,
        rule=Progress(goals={"tests": tests_pass}),
    ),
    _loop(
        "one goal is met early, the other never",
        (
            "build() -> ok",
            *(f"*edit(n={n}) -> ok ; run_tests() -> {n} failed" for n in range(20)),
        ),
        "goals_unchanged",
        7,
        rule=Progress(goals={"tests": tests_pass, "built": built}, max_goal_turns=6),
    ),
)

MISSED = (
    Trajectory(
        name="notes to itself, in other words each time",
        turns=tuple(f"*note(text=still checking {n}) -> ok" for n in range(40)),
        loop=True,
    ),
    Trajectory(
        name="results that differ in a time nobody has declared volatile",
        turns=tuple(f'get(x=1) -> {{"at": {n}, "state": "open"}}' for n in range(40)),
        loop=True,
    ),
)
"""Loops that no signal can tell from work; the budget ends them."""

LOOPS = (*REPEATS, *CYCLES, *KNOWN, *ERRORS, *GOALS, *MISSED)
