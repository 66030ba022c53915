"""From a registered seller to a filled product server, by hand, and what the exit code of `crawl` tells."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.faults.processes import Program, SimulatorProcess, count, run
from tests.waiting import PATIENCE, wait_until

from sellerwatch.adapters.sql.engine import make_engine

RUNS = "SELECT COUNT(*) FROM crawling_schedule_executions"


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    arguments = ("--sellers", "3", "--products", "40", "--detail-kb", "1")
    with SimulatorProcess(tmp_path_factory.mktemp("simulator"), *arguments) as made:
        yield made


def test_a_seller_is_registered_crawled_and_looked_at(tmp_path: Path, simulator: SimulatorProcess) -> None:
    database = tmp_path / "made.db"
    settings = simulator.settings(database)
    assert run(tmp_path, "sellers", "add", "seller_0001", "--name", "럭셔리하우스", **settings).returncode == 0
    done = run(tmp_path, "crawl", "seller_0001", "--json", **settings)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["executions"]
    assert told["status"] == "COMPLETED"
    assert (told["products"], told["tasks"], told["completed"], told["failed"]) == (40, 81, 81, 0)
    assert told["found"] == {"new": 40, "changed": 0, "gone": 0, "unchanged": 0}
    assert list(told["see"]) == ["new"]
    _, *named = told["see"]["new"].split()
    assert len(json.loads(run(tmp_path, *named, "--limit", "100", "--json", **settings).stdout)["content"]) == 40
    again = run(tmp_path, "crawl", "seller_0001", **settings | {"LANGUAGE": "ko"})
    run_id = told["executionId"]
    assert "유지" in again.stdout
    assert "해당 상품만 보기:" in again.stdout
    assert "--found unchanged" in again.stdout
    assert f"--execution {run_id}" not in again.stdout
    shown = json.loads(run(tmp_path, "sellers", "show", "seller_0001", "--json", **settings).stdout)
    assert shown["products"]["complete"] == 40
    simulator.check_manners()


def test_crawl_exits_with_3_when_some_of_its_tasks_failed(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess
) -> None:
    settings = simulator.settings(database_file, TASK_RETRIES=0)
    assert run(tmp_path, "sellers", "add", "seller_0002", "--name", "x", **settings).returncode == 0
    simulator.ask("profile?name=truncated", "POST")
    try:
        done = run(tmp_path, "crawl", "seller_0002", "--json", **settings)
    finally:
        simulator.ask("profile?name=calm", "POST")
    assert done.returncode == 3, done.stderr
    (told,) = json.loads(done.stdout)["executions"]
    assert told["status"] == "COMPLETED"
    assert told["failed"] > 0


def test_crawl_says_that_a_run_is_paused_and_what_to_do_and_goes_on_after_the_case_is_decided(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess
) -> None:
    settings = simulator.settings(database_file)
    assert run(tmp_path, "sellers", "add", "seller_0002", "--name", "x", **settings).returncode == 0
    simulator.ask("redesign?on=true", "POST")
    try:
        paused = run(tmp_path, "crawl", "seller_0002", "--json", **settings | {"MAX_CONCURRENCY": 10})
    finally:
        simulator.ask("redesign?on=false", "POST")
    assert paused.returncode == 1, paused.stderr
    assert "is paused" in paused.stderr
    assert "sellerwatch quarantine list --seller seller_0002" in paused.stderr
    (case,) = json.loads(run(tmp_path, "quarantine", "list", "--json", **settings).stdout)["content"]
    assert run(tmp_path, "quarantine", "drop", case["caseId"], **settings).returncode == 0
    done = run(tmp_path, "crawl", "seller_0002", "--json", **settings)
    assert (done.returncode, json.loads(done.stdout)["executions"][0]["status"]) == (3, "COMPLETED")


def test_a_run_that_cannot_be_started_is_one_sentence_and_waits_for_the_next_crawl(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess
) -> None:
    settings = simulator.settings(database_file)
    moved = settings | {"MARKETPLACE_LIST_PATH": "/moved/search/mini-shop-search"}
    assert run(tmp_path, "sellers", "add", "seller_0003", "--name", "x", **settings).returncode == 0
    for tries in (1, 2):
        refusal = refused(tmp_path, 1, "crawl", "seller_0003", settings=moved)
        assert "The run of seller_0003 could not be started. The marketplace answered 404" in refusal
        assert count(database_file, f"{RUNS} WHERE status = 'PENDING' AND start_tries = {tries}") == 1
    assert count(database_file, "SELECT COUNT(*) FROM permits WHERE answered_at IS NULL") == 0
    assert run(tmp_path, "crawl", "seller_0003", **settings).returncode == 0
    assert count(database_file, f"{RUNS} WHERE status = 'COMPLETED'") == count(database_file, RUNS) == 1


def test_a_marketplace_that_is_not_there_is_one_sentence(tmp_path: Path, database_file: Path) -> None:
    settings: dict[str, object] = {
        "DATABASE_URL": f"sqlite:///{database_file}",
        "MARKETPLACE_URL": "http://127.0.0.1:9",
    }
    assert run(tmp_path, "sellers", "add", "seller_0001", "--name", "x", **settings).returncode == 0
    refused(tmp_path, 1, "crawl", "seller_0001", settings=settings)
    assert count(database_file, f"{RUNS} WHERE status = 'PENDING'") == 1


def test_an_unknown_seller_is_one_sentence_and_starts_nothing(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess
) -> None:
    asked = simulator.requests
    refusal = refused(tmp_path, 1, "crawl", "nobody", settings=simulator.settings(database_file))
    assert "nobody" in refusal
    assert simulator.requests == asked
    assert count(database_file, RUNS) == 0


def test_one_unknown_seller_among_known_ones_starts_nothing_half(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess
) -> None:
    settings = simulator.settings(database_file)
    assert run(tmp_path, "sellers", "add", "seller_0001", "--name", "x", **settings).returncode == 0
    refused(tmp_path, 1, "crawl", "seller_0001", "nobody", settings=settings)
    assert count(database_file, RUNS) == 0


def test_a_run_left_by_a_crawl_that_was_killed_is_joined_by_the_next_one(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess
) -> None:
    settings = simulator.settings(database_file)
    assert run(tmp_path, "sellers", "add", "seller_0001", "--name", "x", **settings).returncode == 0
    simulator.ask("profile?name=slow", "POST")
    try:
        with Program(tmp_path, "crawl", "seller_0001", **settings) as cut_off:
            wait_until(lambda: count(database_file, "SELECT COUNT(*) FROM crawler_tasks") > 0, "the run is going")
            cut_off.kill()
    finally:
        simulator.ask("profile?name=calm", "POST")
    done = run(tmp_path, "crawl", "seller_0001", "--json", **settings)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["executions"]
    assert (told["status"], told["failed"]) == ("COMPLETED", 0)
    assert told["executionId"] in done.stderr
    assert count(database_file, RUNS) == 1


@pytest.mark.parametrize("command", [["serve"], ["crawl", "seller_0001"]])
def test_bad_settings_are_all_said_at_once_and_nothing_is_made(tmp_path: Path, command: list[str]) -> None:
    bad: dict[str, object] = {"WINDOW_LIMIT": "many", "MARKETPLACE_URL": "ftp://x", "WINDOW_LIMITS": 3}
    done = run(tmp_path, *command, **bad)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    for name in ("SELLERWATCH_WINDOW_LIMIT:", "SELLERWATCH_MARKETPLACE_URL:", "SELLERWATCH_WINDOW_LIMITS:"):
        assert name in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["serve"], ["crawl", "seller_0001"], ["sellers", "add", "x", "--name", "x"]])
@pytest.mark.parametrize("place", ["missing/folder/x.db", "a-folder"])
def test_a_database_that_cannot_be_opened_is_one_sentence(tmp_path: Path, command: list[str], place: str) -> None:
    (tmp_path / "a-folder").mkdir()
    settings: dict[str, object] = {"DATABASE_URL": f"sqlite:///{tmp_path / place}"}
    refusal = refused(tmp_path, 1, *command, settings=settings)
    assert place in refusal
    assert [path.name for path in tmp_path.rglob("*")] == ["a-folder"]


@pytest.mark.parametrize("command", [["serve"], ["crawl", "seller_0001"], ["sellers", "add", "x", "--name", "x"]])
def test_a_database_of_a_newer_schema_is_one_sentence_and_stays_as_it_is(
    tmp_path: Path, database_file: Path, command: list[str]
) -> None:
    with closing(sqlite3.connect(database_file, timeout=PATIENCE)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    make_engine(f"sqlite:///{database_file}").dispose()
    before = database_file.read_bytes()
    refusal = refused(tmp_path, 1, *command, settings={"DATABASE_URL": f"sqlite:///{database_file}"})
    assert "9999" in refusal
    assert database_file.read_bytes() == before


def refused(folder: Path, code: int, *arguments: str, settings: dict[str, object]) -> str:
    """The one sentence of a refusal."""
    done = run(folder, *arguments, **settings)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(".")
    return line
