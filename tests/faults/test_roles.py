"""Each role a process of its own: together they are the service, and none does another's work."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from tests.faults.processes import Program, SimulatorProcess, count, is_settled, run
from tests.faults.test_processes import register
from tests.journeys.test_api import address_of, connect
from tests.waiting import wait_until

STARTED = "SELECT COUNT(*) FROM crawling_schedule_executions"
DELIVERED = "SELECT COUNT(*) FROM product_outbox WHERE status = 'COMPLETED'"
#: Far beyond the test: whatever is prompt has been nudged.
NEVER = 3600


def down(address: str) -> set[str]:
    connection = connect(address)
    connection.request("GET", "/actuator/health")
    told = json.loads(connection.getresponse().read())
    connection.close()
    return {name for name, part in told["components"].items() if part["status"] == "DOWN"}


def test_a_scheduler_starts_two_workers_crawl_and_an_api_knows_who_is_missing(
    tmp_path: Path, database_file: Path
) -> None:
    with SimulatorProcess(tmp_path, "--detail-kb", "1", "--products", "150", "--sellers", "2") as simulator:
        settings = simulator.settings(database_file, OUTBOX_INTERVAL_SECONDS=NEVER)
        with ExitStack() as started:
            api = started.enter_context(Program(tmp_path, "api", **settings))
            address = address_of(api)
            register(database_file, "seller_0001", "seller_0002")
            assert {"worker", "scheduler"} <= down(address)
            workers = [started.enter_context(Program(tmp_path, "worker", **settings)) for _ in range(2)]
            for worker in workers:
                worker.until_it_says("serving")
            wait_until(lambda: "worker" not in down(address), "the workers are heard of")
            assert count(database_file, STARTED) == 0, "nobody but a scheduler starts what is due"
            scheduler = started.enter_context(Program(tmp_path, "scheduler", **settings))
            wait_until(lambda: is_settled(database_file, 2), "both runs are over and delivered")
            assert down(address) == set()
            simulator.check()
            for process in (scheduler, *workers, api):
                assert process.end(signal.SIGTERM) == 0, process.complained
                assert "Traceback" not in process.complained


def test_what_a_command_asks_for_is_done_by_the_worker_at_once(tmp_path: Path, database_file: Path) -> None:
    with SimulatorProcess(tmp_path, "--detail-kb", "1", "--products", "3", "--sellers", "1") as simulator:
        settings = simulator.settings(database_file, OUTBOX_INTERVAL_SECONDS=NEVER)
        register(database_file, "seller_0001")
        with Program(tmp_path, "worker", **settings), Program(tmp_path, "scheduler", **settings):
            wait_until(lambda: is_settled(database_file, 1) and count(database_file, DELIVERED) == 3, "delivered")
            with closing(sqlite3.connect(database_file, timeout=600)) as connection, connection:
                connection.execute("UPDATE product_outbox SET status = 'FAILED' WHERE version = 1")
            assert run(tmp_path, "outbox", "replay", "--all-failed", **settings).returncode == 0
            wait_until(lambda: simulator.ask("stats")["productServer"]["duplicates"] == 3, "all are sent again")
