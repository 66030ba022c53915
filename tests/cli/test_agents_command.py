"""`sellerwatch agents`: how the pool is, what an operator can do about it, and that no token is ever shown."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import typer
from tests.builders import MINUTE, a_task
from typer.core import TyperGroup

from sellerwatch.adapters.permit_marker import PermitMarkerFile
from sellerwatch.adapters.sealing import AesGcmSealer
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.agent_status import FullReason
from sellerwatch.agents.answers import Session
from sellerwatch.agents.circuit import Circuit, CircuitEvent, events_of
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.ports import UsageEntry
from sellerwatch.cli import agents, limits
from sellerwatch.crawling.task import TaskType
from sellerwatch.kernel.clock import Moment, SystemClock, moment
from sellerwatch.kernel.ids import ItemNo, UserAgentId, WorkerId

from .cli_world import CliWorld
from .conftest import refused

HOUR = timedelta(hours=1)
SECRET = "eyJ0b2tlbiI6.known-token-5f1c9d2e.tail"
OLD, NEW = b"o" * 32, b"n" * 32
USER_AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
VERBS = ("show", "remove", "suspend", "recover", "block", "unblock", "rotate")


@pytest.fixture
def now() -> datetime:
    """Commands read the real clock, so what they look at is of today."""
    return datetime.now(UTC)


def keys(*given: tuple[str, bytes]) -> str:
    return ",".join(f"{name}:{base64.b64encode(key).decode()}" for name, key in given)


def id_of(world: CliWorld, row: int) -> UserAgentId:
    return world.see(lambda tx: tx.agents.get_rows([row])[row].user_agent_id)


def give_token(world: CliWorld, row: int, now: datetime, key: tuple[str, bytes] = ("old", OLD)) -> None:
    user_agent_id = id_of(world, row)
    session = Session(f"{SECRET}-{row}", "n", "u", HOUR)
    sealed = AesGcmSealer([key]).seal(session, bound_to=user_agent_id, issued_at=now)
    world.do(lambda tx: tx.tokens.keep(row, sealed, now + HOUR))


def open_circuit(tx: Transaction, row: int, now: datetime) -> None:
    opened: Circuit = tx.circuits.get_rows([row])[row]
    events: list[tuple[int, CircuitEvent]] = []
    for _ in range(opened.threshold):
        was, opened = opened, opened.failed(now)
        events += ((row, event) for event in events_of(was, opened, now, "TOO_MANY", 429))
    tx.circuits.save({row: opened}, events)


def lend(tx: Transaction, row: int, number: int, at: Moment) -> None:
    """So many requests of one agent that were answered just now."""
    tx.windows.enter_boot(at, Limits())
    (candidate,) = [c for c in tx.agents.candidates(at) if c.row == row]
    grants = [Grant(candidate, at.boot_us)] * number
    lent = tx.permits.reserve(grants, [None] * number, WorkerId("w"), at)
    tx.permits.answer([permit.number for permit in lent], at)


def block_all(world: CliWorld, now: datetime, first: int = 1) -> None:
    def work(tx: Transaction) -> None:
        everyone = tx.agents.get_rows(range(first, 101))
        tx.agents.save({row: agent.block(now, "NO_TOKEN") for row, agent in everyone.items()})

    world.do(work)


# Looking


def test_a_fresh_pool_is_a_hundred_agents_that_may_all_work(world: CliWorld) -> None:
    listed = world.json("agents", "list")["content"]
    assert [agent["number"] for agent in listed] == list(range(1, 101))
    assert {(agent["status"], agent["healthScore"], agent["why"], agent["backAt"]) for agent in listed} == {
        ("AVAILABLE", 100, None, None)
    }
    assert "Agents (100)" in world.said("agents", "list")


def test_an_empty_pool_says_how_to_add_an_agent(world: CliWorld) -> None:
    world.do(lambda tx: tx.db.run("DELETE FROM user_agent_pool"))
    assert "sellerwatch agents add" in world.said("agents", "list")
    assert world.json("agents", "list") == {"content": [], "since": None, "until": None}
    status = world.json("agents", "status")
    assert (status["totalAgents"], status["availableRate"], status["nextFreeAt"]) == (0, 0.0, None)
    assert status["healthScoreStats"] == {"average": None, "min": None, "max": None}
    assert status["breaker"]["state"] == "OPEN"
    assert "0 of 0 agents are available (0.00 %)" in world.said("agents", "status")


def test_the_list_is_narrowed_by_state(world: CliWorld, now: datetime) -> None:
    assert "No agent is BLOCKED. All of them: sellerwatch agents list" in world.said(
        "agents", "list", "--status", "BLOCKED"
    )
    block_all(world, now, first=99)
    listed = world.json("agents", "list", "--status", "blocked")["content"]
    assert [(a["number"], a["why"], a["backAt"]) for a in listed] == [
        (99, "the marketplace gave it no token three times in a row", None),
        (100, "the marketplace gave it no token three times in a row", None),
    ]
    assert "when unblocked" in world.said("agents", "list", "--status", "BLOCKED")


def test_the_list_says_why_an_agent_rests_and_when_it_is_back(world: CliWorld, now: datetime) -> None:
    def prepare(tx: Transaction) -> None:
        lend(tx, 1, 80, moment(SystemClock()))
        open_circuit(tx, 2, now)
        agent = tx.agents.get_rows([3])[3]
        tx.agents.save({3: agent.suspend(now, 2 * HOUR, "TOO_MANY_REQUESTS")})
        agent = tx.agents.get_rows([4])[4]
        tx.agents.save({4: agent.suspend(now - HOUR, timedelta(minutes=1), "TOO_MANY_REQUESTS")})

    world.do(prepare)
    give_token(world, 5, now - timedelta(seconds=5))
    said = world.said("agents", "list").splitlines()
    assert "80/80" in said[2]
    assert "its window is used up" in said[2]
    assert "circuit open after 3 failures in a row" in said[3]
    assert "in 10 min" in said[3]
    assert "429: too many requests" in said[4]
    assert "in 2 h" in said[4]
    assert "at the next maintenance run" in said[5]
    assert "s ago" in said[6]
    listed = world.json("agents", "list")["content"]
    assert listed[0]["budget"] | {"freeAt": ""} == {"used": 80, "left": 0, "limit": 80, "freeAt": "", "fullUntil": None}
    assert listed[1]["circuit"]["state"] == "OPEN"
    assert listed[1]["backAt"] == listed[1]["circuit"]["probeAt"]
    assert listed[2]["backAt"] == listed[2]["suspendedUntil"]
    assert listed[4]["token"]["ageSeconds"] < 60


def test_show_says_what_an_agent_did_in_the_last_hour_and_what_became_of_it(world: CliWorld, now: datetime) -> None:
    def prepare(tx: Transaction) -> None:
        tx.usage_log.add(
            [
                UsageEntry(
                    7,
                    None,
                    200,
                    100,
                    succeeded=True,
                    rate_limited=False,
                    too_many=False,
                    sent_at=now - timedelta(minutes=5),
                )
            ]
            * 3
        )
        tx.usage_log.add(
            [UsageEntry(7, None, 429, 300, succeeded=False, rate_limited=True, too_many=True, sent_at=now)]
        )
        tx.usage_log.add(
            [UsageEntry(7, None, 200, 100, succeeded=True, rate_limited=False, too_many=False, sent_at=now - 2 * HOUR)]
        )
        open_circuit(tx, 7, now)

    world.do(prepare)
    world.said("agents", "suspend", "7", "--for", "2h", "--reason", "checking [it]")
    shown = world.json("agents", "show", id_of(world, 7))
    assert shown["lastHour"] == {"requests": 4, "succeeded": 3, "tooMany": 1, "averageMs": 150}
    assert (shown["number"], shown["status"], shown["why"]) == (7, "SUSPENDED", "checking [it]")
    assert shown["backAt"] == shown["suspendedUntil"]
    assert [event["eventType"] for event in shown["circuitEvents"]] == ["STATE_CHANGE", *["FAILURE"] * 3]
    assert [entry["action"] for entry in shown["audit"]] == ["agent.suspend"]
    said = world.said("agents", "show", "#7")
    for part in ("4 requests, 3 succeeded, 1 answered 429, 150 ms each", "checking [it]", "in 2 h", "agent.suspend"):
        assert part in said
    assert "It made no request in the last hour." in world.said("agents", "show", "8")


def test_the_status_of_the_pool_has_the_agreed_names(world: CliWorld, now: datetime) -> None:
    def prepare(tx: Transaction) -> None:
        lend(tx, 1, 3, moment(SystemClock()))
        agents = tx.agents.get_rows([2, 3])
        tx.agents.save({2: agents[2].suspend(now, HOUR, "quiet"), 3: agents[3].block(now, "out")})
        open_circuit(tx, 4, now)
        tx.usage_log.add(
            [UsageEntry(5, None, 429, 9, succeeded=False, rate_limited=True, too_many=True, sent_at=now)] * 2
        )
        tx.usage_log.add([UsageEntry(6, None, 429, 9, succeeded=False, rate_limited=True, too_many=True, sent_at=now)])

    world.do(prepare)
    give_token(world, 1, now)
    status = world.json("agents", "status")
    assert list(status)[:6] == [
        "totalAgents",
        "availableAgents",
        "suspendedAgents",
        "blockedAgents",
        "availableRate",
        "healthScoreStats",
    ]
    assert (status["totalAgents"], status["availableAgents"]) == (100, 98)
    assert (status["suspendedAgents"], status["blockedAgents"], status["availableRate"]) == (1, 1, 98.0)
    assert status["healthScoreStats"] == {"average": 100.0, "min": 100, "max": 100}
    assert status["budget"] == {"used": 3, "left": 98 * 80 - 3, "limit": 8000, "windowSeconds": 3600.0}
    assert (status["tokensByAge"]["under10Minutes"], status["tokensByAge"]["none"]) == (1, 99)
    assert status["circuits"] == {"open": 1, "halfOpen": 0}
    assert (status["breaker"]["state"], status["breaker"]["message"]) == ("CLOSED", None)
    assert status["nextFreeAt"] is not None
    assert [(one["number"], one["count"]) for one in status["tooManyLastHour"]] == [(5, 2), (6, 1)]
    assert status["windowsFull"] is None
    said = world.said("agents", "status")
    for part in ("98 available, 1 suspended, 1 blocked", "3 of 8,000 used", "1 under 10 min old", "1 open", "now"):
        assert part in said


def test_a_pool_that_is_blocked_says_the_rate_and_the_way_out(world: CliWorld, now: datetime) -> None:
    block_all(world, now)
    said = world.said("agents", "status")
    assert "Crawling is stopped: 0 of 100 agents are available (0.00 %)" in said
    assert "sellerwatch agents list --status BLOCKED" in said
    assert world.json("agents", "status")["nextFreeAt"] is None
    world.said("agents", "unblock", *map(str, range(1, 21)))
    status = world.json("agents", "status")
    assert (status["availableRate"], status["breaker"]["state"]) == (20.0, "CLOSED")


def test_a_restored_database_says_why_windows_are_full_and_until_when(world: CliWorld) -> None:
    PermitMarkerFile(world.file).write(1000)
    told = world.json("agents", "status")["windowsFull"]
    assert "restored from an older copy: when a service starts" in told["why"]

    def fill(tx: Transaction) -> None:
        at = moment(SystemClock())
        tx.windows.enter_boot(at, Limits())
        tx.windows.fill(at, Limits(), FullReason.RESTORED)

    world.do(fill)
    status = world.json("agents", "status")
    assert "restored from an older copy" in status["windowsFull"]["why"]
    assert status["nextFreeAt"] == status["windowsFull"]["until"]
    assert status["budget"]["left"] == 0
    assert "Every window counts as full until" in world.said("agents", "status")
    PermitMarkerFile(world.file).write(0)
    again = world.json("agents", "status")["windowsFull"]["why"]
    assert "restored from an older copy" in again, "the reason stays true when a service has started since"


def test_a_longer_window_says_why_windows_are_full(world: CliWorld) -> None:
    world.do(lambda tx: tx.windows.enter_boot(moment(SystemClock()), Limits()))
    world.do(lambda tx: tx.windows.set_limits(Limits(window=2 * HOUR), moment(SystemClock())))
    assert "window was made longer" in world.json("agents", "status")["windowsFull"]["why"]


# Doing


def test_an_agent_is_added_once_and_must_be_a_header(world: CliWorld) -> None:
    made = world.json("agents", "add", USER_AGENT)
    assert (made["number"], made["userAgent"], made["status"], made["token"]) == (101, USER_AGENT, "AVAILABLE", None)
    assert "already" in world("agents", "add", USER_AGENT).stderr
    assert "printable ASCII" in refused(world("agents", "add", "브라우저"), 2)
    assert [entry.action for entry in world.trail()] == ["agent.add"]
    assert "Added agent #102" in world.said("agents", "add", USER_AGENT + " x")


def test_a_removed_agent_is_gone_and_its_string_is_said(world: CliWorld) -> None:
    text = world.see(lambda tx: tx.agents.get_rows([9])[9].user_agent)
    assert text in world.said("agents", "remove", "9")
    assert "no agent 9" in refused(world("agents", "show", "9"), 1)
    (entry,) = world.trail()
    assert (entry.action, (entry.before or {})["userAgent"]) == ("agent.remove", text)


def test_suspending_and_recovering_are_on_the_trail_with_before_and_after(world: CliWorld, now: datetime) -> None:
    assert "SUSPENDED until" in world.said("agents", "suspend", "7")
    agent = world.see(lambda tx: tx.agents.get_rows([7])[7])
    assert agent.suspended_until is not None
    assert timedelta(minutes=59) < agent.suspended_until - now < timedelta(minutes=62)
    assert world.json("agents", "recover", "7")["done"] == [agent.user_agent_id]
    recovered, suspended = world.trail()
    assert (suspended.before or {})["status"] == "AVAILABLE"
    assert (suspended.after or {})["reason"] == f"by {suspended.actor}"
    assert (recovered.after or {})["healthScore"] == 70


@pytest.mark.parametrize(
    "words",
    [
        ("remove", "7"),
        ("suspend", "7", "--for", "2h"),
        ("block", "7", "--reason", "x"),
        ("rotate", "7"),
        ("add", USER_AGENT),
    ],
    ids=" ".join,
)
def test_a_dry_run_shows_what_would_be_done_and_changes_nothing(
    world: CliWorld, now: datetime, words: tuple[str, ...]
) -> None:
    give_token(world, 7, now)
    before = world.everything()
    assert world.said("agents", *words, "--dry-run").startswith("Nothing was changed.")
    assert world.json("agents", *words, "--dry-run")["dryRun"] is True
    assert world.everything() == before


def test_what_is_printed_is_in_the_language_of_the_setting(world: CliWorld, now: datetime) -> None:
    world.do(lambda tx: open_circuit(tx, 2, now))
    assert "연속 실패 3회로 서킷이 열림" in world("agents", "list", LANGUAGE="ko").stdout
    assert "사용 가능" in world("agents", "status", LANGUAGE="ko").stdout
    assert "최근 1시간 동안 요청이 없습니다." in world("agents", "show", "7", LANGUAGE="ko").stdout
    assert "까지 SUSPENDED" in world("agents", "suspend", "7", LANGUAGE="ko").stdout


@pytest.mark.parametrize(("given", "rest"), [("90s", 90), ("30m", 1800), ("2 H", 7200), ("1d", 86400)])
def test_a_rest_is_a_number_and_a_unit(world: CliWorld, now: datetime, given: str, rest: int) -> None:
    world.said("agents", "suspend", "7", "--for", given)
    until = world.see(lambda tx: tx.agents.get_rows([7])[7].suspended_until)
    assert until is not None
    assert abs((until - now).total_seconds() - rest) < 60


@pytest.mark.parametrize("given", ["", "2", "h", "0s", "366d", "999999999d", "-1h", "1w"])
def test_what_is_no_rest_is_bad_usage(world: CliWorld, given: str) -> None:
    assert "is not a length of time" in refused(world("agents", "suspend", "7", "--for", given), 2)
    assert world.trail() == []


def test_blocking_needs_a_reason_and_unblocking_closes_the_circuit(world: CliWorld, now: datetime) -> None:
    assert world("agents", "block", "7").returncode == 2
    world.do(lambda tx: open_circuit(tx, 7, now))
    assert "is BLOCKED: a complaint." in world.said("agents", "block", "7", "--reason", " a  complaint ")
    assert "to recover it must be SUSPENDED" in refused(world("agents", "recover", "7"), 1)
    assert "is AVAILABLE" in world.said("agents", "unblock", "7")
    shown = world.json("agents", "show", "7")
    assert (shown["status"], shown["circuit"]["state"], shown["reason"]) == ("AVAILABLE", "CLOSED", None)


def test_several_agents_are_handled_one_by_one(world: CliWorld) -> None:
    answer = world.json("agents", "block", "1", "2", "999", "--reason", "x", code=3)
    assert answer["done"] == [id_of(world, 1), id_of(world, 2)]
    assert [(one["id"], one["errorCode"]) for one in answer["refused"]] == [("999", "AGENT_NOT_FOUND")]
    answer = world.json("agents", "block", "1", "2", "--reason", "x", code=1)
    assert (answer["done"], len(answer["refused"])) == ([], 2)


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_agent_is_one_sentence_and_a_name_that_is_none_is_bad_usage(world: CliWorld, verb: str) -> None:
    more = ["--reason", "x"] if verb == "block" else []
    before = world.everything()
    assert "no agent 999" in refused(world("agents", verb, "999", *more), 1)
    assert "is not an agent" in refused(world("agents", verb, "seven", *more), 2)
    assert world.everything() == before


def test_a_rotated_token_is_gone_and_only_its_dates_are_on_the_trail(world: CliWorld, now: datetime) -> None:
    give_token(world, 1, now)
    assert "was discarded" in world.said("agents", "rotate", "1")
    assert world.json("agents", "show", "1")["token"] is None
    assert "has no token" in refused(world("agents", "rotate", "1"), 1)
    (entry,) = world.trail()
    assert (set(entry.before or {}), entry.after) == ({"tokenIssuedAt"}, {"tokenIssuedAt": None})


def test_rekeyed_tokens_open_when_the_old_key_is_gone(world: CliWorld, now: datetime) -> None:
    for row in (1, 2):
        give_token(world, row, now)
    both = keys(("new", NEW), ("old", OLD))
    would = world("agents", "rekey", "--dry-run", TOKEN_KEYS=both)
    assert "2 tokens would be encrypted with the key new" in would.stdout
    assert world.trail() == []
    assert "2 tokens were encrypted with the key new" in world("agents", "rekey", TOKEN_KEYS=both).stdout
    again = world("agents", "rekey", TOKEN_KEYS=keys(("new", NEW)))
    assert "All 2 tokens are already encrypted with the key new." in again.stdout
    sealed = world.see(lambda tx: tx.tokens.sealed())
    assert [AesGcmSealer([("new", NEW)]).open(token, name) for _, name, token in sealed] == [
        Session(f"{SECRET}-{row}", "n", "u", HOUR) for row in (1, 2)
    ]
    (entry,) = world.trail()
    assert (entry.action, entry.after) == ("agent.rekey", {"keyId": "new", "resealed": 2, "unopened": 0})


def test_a_token_that_no_key_opens_is_named_and_left_alone(world: CliWorld, now: datetime) -> None:
    give_token(world, 1, now)
    give_token(world, 2, now, ("new", NEW))
    done = world("agents", "rekey", "--json", TOKEN_KEYS=keys(("new", NEW)))
    assert (done.returncode, json.loads(done.stdout)["unopened"]) == (3, [id_of(world, 1)])
    said = world("agents", "rekey", TOKEN_KEYS=keys(("other", b"x" * 32)))
    assert said.returncode == 1
    assert f"sellerwatch agents rotate {id_of(world, 1)}" in said.stderr


def test_without_tokens_there_is_nothing_to_seal(world: CliWorld) -> None:
    assert "nothing to encrypt" in world.said("agents", "rekey")


# Telling others


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    heard: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", heard
        server.shutdown()
        thread.join()


def test_a_block_and_a_suspension_by_hand_are_told_to_the_webhook(
    world: CliWorld, webhook: tuple[str, list[dict[str, Any]]]
) -> None:
    url, heard = webhook
    world("agents", "block", "1", "--reason", "a complaint", ALERT_WEBHOOK_URL=url)
    world("agents", "suspend", "2", ALERT_WEBHOOK_URL=url)
    world("agents", "unblock", "1", ALERT_WEBHOOK_URL=url)
    assert [(one["kind"], one["subject"]) for one in heard] == [
        ("agent.blocked", id_of(world, 1)),
        ("agent.suspended", id_of(world, 2)),
    ]


# What is never shown


def test_nothing_of_a_token_is_in_any_output_or_in_the_clear_bytes_of_the_files(world: CliWorld, now: datetime) -> None:
    for row in range(1, 6):
        give_token(world, row, now)
    stored = [token for _, _, token in world.see(lambda tx: tx.tokens.sealed())]
    both = keys(("new", NEW), ("old", OLD))
    said = ""
    for words in (
        ("list",),
        ("show", "1"),
        ("status",),
        ("suspend", "1"),
        ("recover", "1"),
        ("block", "2", "--reason", "x"),
        ("unblock", "2"),
        ("rotate", "3"),
        ("rekey", "--dry-run"),
        ("rekey",),
        ("remove", "4"),
    ):
        for shape in ((), ("--json",)):
            done = world("agents", *words, *shape, TOKEN_KEYS=both, LOG_LEVEL="debug", LOG_FORMAT="json")
            said += done.stdout + done.stderr
    for other in (("audit", "list", "--json"), ("limits", "show"), ("config", "check")):
        done = world(*other, TOKEN_KEYS=both)
        said += done.stdout + done.stderr
    stored += [token for _, _, token in world.see(lambda tx: tx.tokens.sealed())]
    for piece in ("known-token", SECRET, base64.b64encode(OLD).decode(), base64.b64encode(NEW).decode()):
        assert piece not in said
    for token in stored:
        assert token.sealed not in said
        assert token.fingerprint not in said
    files = sorted(world.file.parent.glob(f"{world.file.name}*"))
    assert world.file in files
    kept = b"".join(path.read_bytes() for path in files)
    assert stored[-1].sealed.encode() in kept
    for clear in (b"known-token", base64.b64encode(SECRET.encode())[:20], SECRET.encode().hex().encode()):
        assert clear not in kept


@pytest.mark.parametrize("group", [agents.app, limits.app], ids=["agents", "limits"])
def test_every_command_of_the_pool_answers_in_json_too(group: typer.Typer) -> None:
    commands = typer.main.get_command(group)
    assert isinstance(commands, TyperGroup)
    for command in commands.commands.values():
        assert "--json" in [option for parameter in command.params for option in parameter.opts]


def test_recount_repairs_a_budget_that_disagrees_with_the_requests(world: CliWorld) -> None:
    give_token(world, 1, datetime.now(UTC))
    world.do(lambda tx: lend(tx, 1, 2, moment(SystemClock())))
    world.do(lambda tx: tx.db.run("UPDATE rate_limit_bucket SET current_tokens = 80 WHERE agent_id = 1"))
    would = world.json("agents", "recount", "--dry-run")
    assert [(each["number"], each["before"], each["after"]) for each in would["repaired"]] == [(1, 80, 78)]
    assert world.see(lambda tx: tx.pool_report.agents())[0].slots_left == 80, "a dry run changes nothing"
    assert "Agent #1: 80 slots left were recorded, 78 are right." in world.said("agents", "recount")
    assert "agree with their requests" in world.said("agents", "recount")
    assert [entry.action for entry in world.trail()] == ["agent.repair"]


def test_recover_ends_a_429_and_closes_the_circuit_in_one_step(world: CliWorld, now: datetime) -> None:
    """With its circuit left open, an agent that a person had brought back did nothing for another ten minutes."""

    def prepare(tx: Transaction) -> None:
        open_circuit(tx, 3, now)
        tx.agents.save({3: tx.agents.get_rows([3])[3].use(Outcome.TOO_MANY, now, HOUR)})

    world.do(prepare)
    world.said("agents", "recover", "3")
    shown = world.json("agents", "show", "3")
    assert (shown["status"], shown["healthScore"], shown["circuit"]["state"]) == ("AVAILABLE", 70, "CLOSED")
    assert shown["why"] is None


def test_the_next_renewal_and_its_failures_are_shown(world: CliWorld, now: datetime) -> None:
    give_token(world, 1, now)
    world.do(lambda tx: tx.tokens.put_off(1, now + HOUR, now + 2 * HOUR, has_failed=True))
    shown = world.json("agents", "show", "1")["token"]
    assert (shown["failuresInARow"], shown["nextRefreshAt"][:13]) == (1, f"{now + 2 * HOUR:%Y-%m-%dT%H}")
    assert "1 renewal failed in a row" in world.said("agents", "show", "1")


def test_the_pool_is_asked_who_fails_what_is_open_and_what_is_used(world: CliWorld, now: datetime) -> None:
    failed = UsageEntry(3, None, 429, 10, succeeded=False, rate_limited=True, too_many=True, sent_at=now - MINUTE)

    def prepare(tx: Transaction) -> None:
        open_circuit(tx, 3, now)
        tx.usage_log.add([failed, failed._replace(agent_row=4, status=500, too_many=False)])

    world.do(prepare)
    give_token(world, 5, now)
    listed = world.said("agents", "list", "--sort", "429", "--since", "1h", "--limit", "2")
    assert "0 %" in listed
    assert "Requests are counted from" in listed
    found = world.json("agents", "list", "--limited", "--since", "1h")["content"]
    assert [(agent["number"], agent["tooMany"]) for agent in found] == [(3, 1)]
    assert "No agent matches" in world.said("agents", "list", "--circuit", "half_open")
    circuits = world.said("agents", "circuits")
    assert "429, 429, 429" in circuits
    assert "Mozilla/5.0" in circuits
    assert [agent["number"] for agent in world.json("agents", "tokens", "--limit", "1")["content"]] == [5]
    assert "Renewed next" in world.said("agents", "tokens", "--sort", "renewal")
    assert "0 of 8,000 used, 8,000 left" in world.said("agents", "budget")


def test_tasks_are_counted_by_status_and_age(world: CliWorld, now: datetime) -> None:
    def prepare(tx: Transaction) -> None:
        for number, age in enumerate((MINUTE, 30 * MINUTE, 2 * HOUR, 50 * HOUR)):
            tx.tasks.add(
                [a_task(number + 1, TaskType.PRODUCT_DETAIL, item_no=ItemNo(number + 1), created_at=now - age)]
            )

    world.do(prepare)
    (waiting,) = world.json("tasks", "ages")["content"]
    assert [waiting[name] for name in ("total", "under10Minutes", "under1Hour", "under1Day", "older")] == [
        4,
        1,
        1,
        1,
        1,
    ]
    assert "2 d ago" in world.said("tasks", "ages")
