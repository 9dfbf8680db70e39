"""Each command does what it says, for people and, with --json, for machines."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopwright.examples.refund_desk.shop import Shop

Cli = Callable[..., Any]

GOAL = "Settle refund request "


def ledger(folder: Path) -> list[str]:
    return [paid.effect_key for paid in Shop(folder / "loopwright-shop.db").ledger()]


def test_run_shows_each_step_and_the_answer(cli: Cli, folder: Path) -> None:
    said = cli("run", "refund-desk", f"{GOAL}REQ-01")
    assert (said.code, said.err) == (0, "")
    for part in (
        "find_request",
        "list_payments",
        "as refund:REQ-01",
        "refund:REQ-01 committed",
        "completed",
    ):
        assert part in said.out
    assert ledger(folder) == ["refund:REQ-01"]


def test_what_is_printed_fits_80_columns_without_trailing_blanks(cli: Cli) -> None:
    for words in (("run", "refund-desk", f"{GOAL}REQ-05"), ("list",), ("doctor",)):
        for line in cli(*words).out.splitlines():
            assert len(line) <= 80
            assert line == line.rstrip()


def test_run_prints_one_object_with_json(cli: Cli) -> None:
    done = cli("run", "refund-desk", f"{GOAL}REQ-03", "--json").json
    assert (done["reason"], done["outcome"], done["steps"]) == ("completed", "finished", 4)
    assert done["output"]["amount"] == "15.50"
    (paid,) = done["effects"]
    assert (paid["effect_key"], paid["status"], paid["attempts"]) == (
        "refund:REQ-03",
        "committed",
        1,
    )
    assert done["unresolved_effects"] == []


def test_run_prints_records_as_lines_with_json_and_watch(cli: Cli) -> None:
    *records, last = cli("run", "refund-desk", f"{GOAL}REQ-03", "--json", "--watch").lines
    kinds = [line["record"]["kind"] for line in records]
    assert (kinds[0], kinds[-1]) == ("invocation_started", "invocation_ended")
    assert last["reason"] == "completed"


def test_the_same_key_is_the_same_invocation(cli: Cli, folder: Path) -> None:
    first, second = (
        cli("run", "refund-desk", f"{GOAL}REQ-01", "--key", "k", "--json").json for _ in range(2)
    )
    assert first == second
    assert ledger(folder) == ["refund:REQ-01"]


def test_a_proposal_is_shown_with_the_command_that_approves_it(cli: Cli, folder: Path) -> None:
    said = cli("run", "refund-desk", f"{GOAL}REQ-05")
    assert said.code == 0
    for part in ("amount      189.00", "order_id    ORD-1029", "over(100)"):
        assert part in said.out
    (shown,) = (line for line in said.out.splitlines() if "loopwright approve" in line)
    assert ledger(folder) == []

    said = cli(*shown.replace("YOUR-NAME", "ana").split()[1:])
    assert (said.code, "approved" in said.out, "ana" in said.out) == (0, True, True)
    assert ledger(folder) == ["refund:REQ-05"]


def test_deny_pays_nothing_and_tells_the_model_why(cli: Cli, folder: Path) -> None:
    waiting = cli("run", "refund-desk", f"{GOAL}REQ-06", "--json").json
    done = cli(
        *("deny", waiting["invocation_id"], waiting["proposal"]["digest"]),
        *("--by", "ben", "--reason", "no photo", "--json"),
    ).json
    assert done["output"]["status"] == "denied"
    assert "ben: no photo" in done["answer"]
    assert ledger(folder) == []


def test_one_call_of_a_proposal_can_be_approved_by_its_id(cli: Cli, folder: Path) -> None:
    waiting = cli("run", "refund-desk", f"{GOAL}REQ-05", "--json").json
    words = ("approve", waiting["invocation_id"], waiting["proposal"]["digest"], "--by", "ana")
    refused = cli(*words, "--call", "nope")
    assert (refused.code, ledger(folder)) == (2, [])
    assert cli(*words, "--call", "pay", "--json").json["reason"] == "completed"


def test_a_question_is_answered(cli: Cli) -> None:
    said = cli("run", "refund-desk", "A customer wants money back")
    assert said.code == 0
    assert "loopwright answer" in said.out
    (listed,) = cli("list", "--status", "suspended", "--json").lines
    short = listed["invocation_id"][-8:]
    done = cli("answer", short, "It is REQ-03", "--by", "bo", "--json").json
    assert done["output"]["request_id"] == "REQ-03"


def test_a_used_up_budget_is_exit_code_1_and_resume_goes_on(cli: Cli) -> None:
    stopped = cli("run", "refund-desk", f"{GOAL}REQ-03", "--max-steps", "2", "--json")
    assert (stopped.code, stopped.json["reason"]) == (1, "max_steps")
    identity = stopped.json["invocation_id"]
    again = cli("resume", identity, "--json")
    assert (again.code, again.json["reason"]) == (1, "max_steps")
    done = cli("resume", identity, "--grant-steps", "5", "--by", "bo")
    assert (done.code, "bo grants more" in done.out) == (0, True)
    held = cli("show", identity, "--json").json
    assert (held["budget"]["max_steps"], held["budget"]["max_tokens"]) == (7, None)


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_grant_that_cannot_be_taken_is_refused(cli: Cli, flags: tuple[str, ...]) -> None:
    """Nobody is to believe that one that is over has more to use now."""
    done = cli("run", "refund-desk", f"{GOAL}REQ-01", "--json").json
    for option in ("--grant-steps", "--grant-failures", "--grant-cost"):
        said = cli("resume", done["invocation_id"], option, "1", *flags)
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert "completed" in said.err
    assert cli("resume", done["invocation_id"], "--json").json["reason"] == "completed"


def test_doctor_looks_at_every_extra_there_is(cli: Cli) -> None:
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = pyproject["project"]["optional-dependencies"].keys() - {"test", "lint", "dev"}
    (found,) = (c["found"] for c in cli("doctor", "--json").json["checks"] if c["name"] == "extras")
    assert {part.split()[0] for part in found.split(", ")} == extras
    # What is installed is found, however its distribution writes its name.
    assert "mcp complete" in found


def test_cancel_ends_what_waits(cli: Cli, folder: Path) -> None:
    waiting = cli("run", "refund-desk", f"{GOAL}REQ-05", "--json").json
    said = cli("cancel", waiting["invocation_id"], "--reason", "sent twice", "--json")
    assert (said.code, said.json["reason"]) == (0, "cancelled")
    assert ledger(folder) == []


def test_list_filters_by_status_and_agent(cli: Cli) -> None:
    cli("run", "refund-desk", f"{GOAL}REQ-01")
    cli("run", "refund-desk", f"{GOAL}REQ-05")
    both = cli("list", "--json").lines
    assert [line["status"] for line in both] == ["suspended", "ended"]
    assert [line["goal"] for line in cli("list", "--status", "ended", "--json").lines] == [
        f"{GOAL}REQ-01"
    ]
    assert cli("list", "--agent", "nobody").out == "no invocations\n"


def test_show_tells_state_effects_and_every_record(cli: Cli) -> None:
    identity = cli("run", "refund-desk", f"{GOAL}REQ-01", "--json").json["invocation_id"]
    people = cli("show", identity[:30])
    for part in (identity, "refund:REQ-01 committed", "find_order", "answers", "steps 4"):
        assert part in people.out
    held = cli("show", identity[-8:], "--json").json
    assert held["effects"][0]["effect_key"] == "refund:REQ-01"
    assert held["timeline"][-1]["kind"] == "invocation_ended"
    assert held["records"] == len(held["timeline"])


def test_recover_says_so_when_there_is_nothing_to_do(cli: Cli) -> None:
    cli("run", "refund-desk", f"{GOAL}REQ-01")
    assert cli("recover").out == "0 recovered\n"
    assert cli("recover", "--json").out == ""


def test_doctor_looks_and_makes_nothing(cli: Cli, folder: Path) -> None:
    before = sorted(folder.iterdir())
    said = cli("doctor", "--json")
    assert (said.code, said.json["ok"]) == (0, True)
    assert [check["name"] for check in said.json["checks"]] == (
        ["python", "loopwright", "extras", "sqlite", "folder", "store", "app"]
    )
    assert sorted(folder.iterdir()) == before
    cli("run", "refund-desk", f"{GOAL}REQ-01")
    assert "schema version 2 and 1 invocations" in cli("doctor").out


@pytest.mark.parametrize("attribute", ["clerk", "make"])
def test_an_app_is_an_agent_or_a_function_that_returns_them(cli: Cli, attribute: str) -> None:
    waiting = cli("run", "clerk", "buy milk", "--app", f"office:{attribute}", "--json").json
    assert waiting["reason"] == "approval_required"


def test_config_is_read_and_options_and_environment_go_before_it(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sub").mkdir()
    config = folder / "sub" / "office.toml"
    config.write_text('app = "office:make"\nstore = "held.db"\n')
    (folder / "office.py").rename(folder / "sub" / "office.py")
    waiting = cli("run", "clerk", "buy milk", "--config", str(config))
    assert f"loopwright approve --config {config}" in " ".join(waiting.out.split())
    assert (folder / "sub" / "held.db").exists()

    monkeypatch.setenv("LOOPWRIGHT_STORE", "env.db")
    cli("run", "clerk", "buy milk", "--config", str(config))
    assert (folder / "env.db").exists()
    cli("run", "clerk", "buy milk", "--config", str(config), "--store", "option.db")
    assert (folder / "option.db").exists()


def test_another_model_can_sit_at_the_refund_desk(cli: Cli, folder: Path) -> None:
    (folder / "models.py").write_text(
        "from loopwright import Clarification, ModelReply\n"
        "class Asks:\n"
        "    async def decide(self, request):\n"
        "        return ModelReply(Clarification('Who am I?'))\n"
    )
    asked = cli("run", "refund-desk", "x", "--model", "models:Asks", "--json").json
    assert asked["question"] == "Who am I?"


OPENED_APP = """
from contextlib import asynccontextmanager
from pathlib import Path
from loopwright import Agent, Final, ModelReply, Usage

class Says:
    async def decide(self, request):
        return ModelReply(Final(Path("log").read_text()), Usage())

@asynccontextmanager
async def agents():
    with open("log", "a") as log:
        log.write("opened ")
    yield [Agent("clerk", model=Says())]
    with open("log", "a") as log:
        log.write("closed ")
"""


def test_an_app_may_open_what_its_agents_need_while_they_work(cli: Cli, folder: Path) -> None:
    """Such as MCP servers: they are there while the command runs, and closed with it."""
    (folder / "opened.py").write_text(OPENED_APP)
    done = cli("run", "clerk", "x", "--app", "opened:agents", "--json")
    assert done.json["answer"] == "opened "
    assert (folder / "log").read_text() == "opened closed "


def test_an_app_that_cannot_be_opened_is_refused_in_one_sentence(cli: Cli, folder: Path) -> None:
    text = OPENED_APP.replace("    yield", "    raise OSError('no such server')\n    yield")
    (folder / "opened.py").write_text(text)
    refused = cli("run", "clerk", "x", "--app", "opened:agents")
    assert refused.code == 2
    assert "'opened:agents' cannot be loaded: OSError: no such server" in refused.err
    assert not (folder / "loopwright.db").exists()


def test_a_chain_of_models_can_sit_at_the_refund_desk(cli: Cli, folder: Path) -> None:
    (folder / "models.py").write_text(
        "from loopwright import Clarification, FallbackChain, ModelReply\n"
        "class Asks:\n"
        "    async def decide(self, request):\n"
        "        return ModelReply(Clarification('Who am I?'))\n"
        "chain = FallbackChain([Asks()])\n"
    )
    asked = cli("run", "refund-desk", "x", "--model", "models:chain", "--json").json
    assert asked["question"] == "Who am I?"
