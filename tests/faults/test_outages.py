"""Outages of the marketplace as real processes: a service and a worker on one file, a simulator that refuses, errs or
forgets.

The stories with exact times and costs are told on virtual time (`tests/simulation/test_outages.py`).
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.faults.processes import Program, SimulatorProcess, count, is_settled, register_at, run
from tests.waiting import wait_until

SELLERS = ("seller_0001", "seller_0002")
OPEN = "SELECT COUNT(*) FROM marketplace_circuits WHERE state <> 'CLOSED'"
FAILED = "SELECT COUNT(*) FROM crawler_tasks WHERE status = 'FAILED'"
TRIES = "SELECT COALESCE(SUM(retry_count), 0) FROM crawler_tasks"
RUNS = "SELECT COUNT(*) FROM crawling_schedule_executions"
WAITING = f"{RUNS} WHERE status = 'PENDING' AND failure_code IS NOT NULL"
STOPPED = f"{RUNS} WHERE status = 'PENDING' AND failure_code = 'MARKETPLACE_PAUSED'"
COMPLETED = f"{RUNS} WHERE status = 'COMPLETED' AND failed_tasks = 0"
PAUSED = "SELECT COUNT(*) FROM run_notes WHERE kind = 'paused'"
UNWELL = "SELECT COUNT(*) FROM user_agent_pool WHERE status <> 'AVAILABLE'"
OTHERS_HARMED = (
    "SELECT COUNT(*) FROM user_agent_pool WHERE agent_id <> 1 AND (status <> 'AVAILABLE' OR health_score < 100)"
)
BREAKER_OPEN = "SELECT COUNT(*) FROM pool_breaker WHERE state <> 'CLOSED'"
SOON = {"MARKETPLACE_CIRCUIT_OPEN_SECONDS": 1, "START_RETRY_SECONDS": 1, "QUARANTINE_RECHECK_SECONDS": 1}


def first_identity(database: Path) -> str:
    """The user agent of the identity that is used first."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return str(connection.execute("SELECT user_agent FROM user_agent_pool WHERE agent_id = 1").fetchone()[0])


def check(simulator: SimulatorProcess, database: Path) -> None:
    """Every product is right, no task failed or spent a try, no run was lost and no identity is unwell."""
    wait_until(lambda: is_settled(database, len(SELLERS)), "the runs are over and delivered")
    simulator.check()
    assert [count(database, sql) for sql in (FAILED, UNWELL, OPEN)] == [0, 0, 0]
    assert count(database, COMPLETED) == count(database, RUNS) == len(SELLERS)


def shown_causes(folder: Path, settings: dict[str, object]) -> list[str]:
    """What each seller's open run waits for, as `sellers list` says it."""
    shown = run(folder, "sellers", "list", "--json", **settings)
    assert shown.returncode == 0, shown.stderr
    open_runs = [seller["openExecution"] for seller in json.loads(shown.stdout)["content"] if seller["openExecution"]]
    return [each["waiting"]["code"] for each in open_runs if each["waiting"]]


@pytest.mark.parametrize("is_short", [False, True], ids=["until both starts were tried", "for one request"])
def test_runs_that_are_due_in_an_outage_start_when_it_is_over(
    tmp_path: Path, database_file: Path, is_short: bool
) -> None:
    with SimulatorProcess(tmp_path, "--sellers", "2", "--products", "20", "--detail-kb", "1") as simulator:
        settings = simulator.settings(database_file, **SOON)
        register_at(f"sqlite:///{database_file}", *SELLERS)
        simulator.ask("outage?ailment=refused", "POST")
        with Program(tmp_path, "serve", **settings), Program(tmp_path, "worker", **settings):
            if is_short:
                wait_until(lambda: simulator.ask("requests")["total"] > 0, "a first connection was refused")
            else:
                wait_until(lambda: count(database_file, WAITING) == len(SELLERS), "both starts were tried and wait")
                shown = shown_causes(tmp_path, settings)
                assert len(shown) == len(SELLERS)
                assert set(shown) <= {"UNREACHABLE", "NO_SESSION", "CIRCUIT_OPEN"}
            simulator.ask("outage?ailment=none", "POST")
            check(simulator, database_file)


@pytest.mark.parametrize("ailment", ["refused", "error&endpoint=options"], ids=["everything", "options alone"])
def test_an_outage_in_mid_run_fails_no_task_and_is_seen_by_every_process(
    tmp_path: Path, database_file: Path, ailment: str
) -> None:
    slow = ("--latency-ms", "100")
    with SimulatorProcess(tmp_path, "--sellers", "2", "--products", "150", "--detail-kb", "1", *slow) as simulator:
        settings = simulator.settings(database_file, **SOON)
        register_at(f"sqlite:///{database_file}", *SELLERS)
        with Program(tmp_path, "serve", **settings) as one, Program(tmp_path, "worker", **settings) as two:
            wait_until(lambda: simulator.requests >= 200, "200 requests")
            simulator.ask(f"outage?ailment={ailment}", "POST")
            wait_until(lambda: count(database_file, OPEN) > 0, "a circuit is open")
            said = simulator.ask("requests")["now"]
            wait_until(lambda: simulator.ask("requests")["now"] > said + 3, "three seconds of it")
            spent = simulator.ask(f"requests?since={said}")["byEndpoint"]
            lasted = simulator.ask("requests")["now"] - said
            wait_until(lambda: "CIRCUIT_OPEN" in shown_causes(tmp_path, settings), "runs say why they wait")
            # A probe a second and an endpoint at first, and what was under way; a crawl would ask hundreds.
            assert spent.get("options", 0) < 37 + lasted, spent
            simulator.ask("outage?ailment=none", "POST")
            check(simulator, database_file)
            assert count(database_file, TRIES) == 0
            assert [one.is_alive, two.is_alive] == [True, True]
            assert "Traceback" not in one.complained + two.complained


def test_a_marketplace_that_voids_all_tokens_in_mid_run_costs_no_task(tmp_path: Path, database_file: Path) -> None:
    slow = ("--latency-ms", "100")
    with SimulatorProcess(tmp_path, "--sellers", "2", "--products", "150", "--detail-kb", "1", *slow) as simulator:
        settings = simulator.settings(database_file, **SOON)
        register_at(f"sqlite:///{database_file}", *SELLERS)
        with Program(tmp_path, "serve", **settings), Program(tmp_path, "worker", **settings):
            wait_until(lambda: simulator.requests >= 200, "200 requests")
            simulator.ask("restart", "POST")
            check(simulator, database_file)
            assert count(database_file, TRIES) == 0


def test_an_identity_that_is_always_answered_401_costs_no_task_and_no_other_identity(
    tmp_path: Path, database_file: Path
) -> None:
    with SimulatorProcess(tmp_path, "--sellers", "2", "--products", "60", "--detail-kb", "1") as simulator:
        settings = simulator.settings(database_file, **SOON)
        register_at(f"sqlite:///{database_file}", *SELLERS)
        simulator.ask(f"outage?ailment=unauthorised&userAgent={quote(first_identity(database_file))}", "POST")
        with Program(tmp_path, "serve", **settings), Program(tmp_path, "worker", **settings):
            wait_until(lambda: is_settled(database_file, len(SELLERS)), "the runs are over and delivered")
        simulator.check()
        refused = simulator.ask("requests")["byStatus"].get("401", 0)
        assert refused > 0, "the identity was used"
        assert [count(database_file, sql) for sql in (FAILED, TRIES, OTHERS_HARMED)] == [0, 0, 0]


def test_429_for_everybody_opens_the_pool_breaker_and_costs_no_task(tmp_path: Path, database_file: Path) -> None:
    slow = ("--latency-ms", "100")
    with SimulatorProcess(tmp_path, "--sellers", "2", "--products", "150", "--detail-kb", "1", *slow) as simulator:
        settings = simulator.settings(database_file, BREAKER_OPEN_SECONDS=1, **SOON | {"AGENT_SUSPENSION_SECONDS": 8})
        register_at(f"sqlite:///{database_file}", *SELLERS)
        with Program(tmp_path, "serve", **settings), Program(tmp_path, "worker", **settings):
            wait_until(lambda: simulator.requests >= 200, "200 requests")
            simulator.ask("outage?ailment=storm", "POST")
            wait_until(lambda: count(database_file, BREAKER_OPEN) > 0, "the pool's breaker is open")
            wait_until(lambda: "POOL_BREAKER_OPEN" in shown_causes(tmp_path, settings), "runs say why they wait")
            now = simulator.ask("requests")["now"]
            wait_until(lambda: simulator.ask("requests")["now"] > now + 5, "several probes, each answered 429")
            simulator.ask("outage?ailment=none", "POST")
            wait_until(lambda: count(database_file, UNWELL) == 0, "every identity is back")
            check(simulator, database_file)
            assert count(database_file, TRIES) == 0


def test_a_run_paused_by_details_without_their_module_goes_on_by_itself(tmp_path: Path, database_file: Path) -> None:
    with SimulatorProcess(tmp_path, "--sellers", "2", "--products", "60", "--detail-kb", "1") as simulator:
        settings = simulator.settings(database_file, **SOON)
        register_at(f"sqlite:///{database_file}", *SELLERS)
        simulator.ask("outage?ailment=without%20module&endpoint=detail", "POST")
        with Program(tmp_path, "serve", **settings), Program(tmp_path, "worker", **settings):
            wait_until(lambda: count(database_file, PAUSED) == len(SELLERS), "both runs are paused")
            assert shown_causes(tmp_path, settings) == ["RUN_PAUSED"] * len(SELLERS)
            simulator.ask("outage?ailment=none", "POST")
            check(simulator, database_file)


def test_a_pause_by_a_command_keeps_both_processes_from_asking_until_it_ends(
    tmp_path: Path, database_file: Path
) -> None:
    with SimulatorProcess(tmp_path, "--sellers", "2", "--products", "20", "--detail-kb", "1") as simulator:
        settings = simulator.settings(database_file, **SOON)
        with Program(tmp_path, "serve", **settings) as one, Program(tmp_path, "worker", **settings) as two:
            one.until_it_says("serving")
            two.until_it_says("serving")
            with Program(tmp_path, "marketplace", "pause", **settings) as command:
                assert command.wait() == 0
            now = simulator.ask("requests")["now"]
            wait_until(lambda: simulator.ask("requests")["now"] > now + 1, "a second, in which both have heeded it")
            register_at(f"sqlite:///{database_file}", *SELLERS)
            wait_until(lambda: count(database_file, STOPPED) == len(SELLERS), "both starts say that they are paused")
            assert simulator.ask("requests")["total"] == 0
            with Program(tmp_path, "marketplace", "resume", **settings) as command:
                assert command.wait() == 0
            check(simulator, database_file)
            assert count(database_file, TRIES) == 0
