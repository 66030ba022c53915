"""The service as a process on a real file: killed, stopped, doubled, and with a product server that misbehaves."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.faults.processes import Program, SimulatorProcess, count, is_settled, register_at, run
from tests.waiting import wait_until

from sellerwatch.simulator.rng import seeded_rng

HELD = "SELECT COUNT(*) FROM crawler_tasks WHERE status = 'IN_PROGRESS'"
UNANSWERED = "SELECT COUNT(*) FROM permits WHERE answered_at IS NULL"
SENDING = "SELECT COUNT(*) FROM product_outbox WHERE status = 'SENDING'"
FAILED = "SELECT COUNT(*) FROM crawler_tasks WHERE status = 'FAILED'"


@contextmanager
def simulating(folder: Path, *arguments: str) -> Iterator[SimulatorProcess]:
    with SimulatorProcess(folder, "--detail-kb", "1", *arguments) as simulator:
        yield simulator


def register(database: Path, *sellers: str, due: bool = True) -> None:
    register_at(f"sqlite:///{database}", *sellers, due=due)


def test_a_service_killed_again_and_again_completes_its_runs_when_it_is_let_live(
    tmp_path: Path, database_file: Path
) -> None:
    rng = seeded_rng("kill -9")
    with simulating(tmp_path, "--sellers", "2", "--products", "250", "--latency-ms", "100") as simulator:
        settings = simulator.settings(database_file)
        register(database_file, "seller_0001", "seller_0002")
        for share in (0.05, 0.2, 0.4, 0.6):
            before = int(1000 * (share + 0.1 * rng.random()))
            with Program(tmp_path, "serve", **settings) as service:
                wait_until(lambda before=before: simulator.requests >= before, f"{before} requests")  # type: ignore[misc]
                service.kill()
        assert not is_settled(database_file, 2), "killed in the middle"
        with Program(tmp_path, "serve", **settings) as service:
            wait_until(lambda: is_settled(database_file, 2), "both runs are over and delivered")
            simulator.check()
            assert service.end(signal.SIGTERM) == 0
        assert count(database_file, FAILED) == 0
        assert simulator.ask("stats")["productServer"]["events_by_type"] == {"PRODUCT_CREATED": 500}


def test_sigterm_in_the_middle_of_a_crawl_ends_the_service_and_nothing_is_held(
    tmp_path: Path, database_file: Path
) -> None:
    with simulating(tmp_path, "--sellers", "1", "--products", "400", "--latency-ms", "300") as simulator:
        settings = simulator.settings(database_file)
        register(database_file, "seller_0001")
        with Program(tmp_path, "serve", **settings) as service:
            wait_until(lambda: simulator.requests >= 250, "250 requests")
            assert service.end(signal.SIGTERM) == 0
            assert "Traceback" not in service.complained
        assert not is_settled(database_file, 1)
        assert [count(database_file, sql) for sql in (HELD, UNANSWERED, SENDING)] == [0, 0, 0]
        with Program(tmp_path, "serve", **settings) as service:
            wait_until(lambda: is_settled(database_file, 1), "the next start completes the run")
            simulator.check()
            assert service.end(signal.SIGINT) == 0
        assert count(database_file, "SELECT COUNT(*) FROM crawler_tasks WHERE lost_leases > 0") == 0


def test_sigterm_ends_a_service_that_waits_for_a_slow_marketplace(tmp_path: Path, database_file: Path) -> None:
    with simulating(tmp_path, "--sellers", "3", "--latency-ms", "9000") as simulator:
        settings = simulator.settings(database_file)
        register(database_file, "seller_0001", "seller_0002", "seller_0003")
        with Program(tmp_path, "serve", **settings) as service:
            wait_until(lambda: simulator.requests >= 1, "the first question")
            assert service.end(signal.SIGTERM) == 0
            assert "Traceback" not in service.complained
        assert [count(database_file, sql) for sql in (HELD, UNANSWERED, SENDING)] == [0, 0, 0]


def test_a_product_server_that_hangs_does_not_keep_sigterm_waiting(tmp_path: Path, database_file: Path) -> None:
    with simulating(tmp_path, "--sellers", "1", "--products", "60") as simulator:
        simulator.ask("receiver?mode=hang", "POST")
        settings = simulator.settings(database_file)
        register(database_file, "seller_0001")
        with Program(tmp_path, "serve", **settings) as service:
            wait_until(lambda: simulator.ask("stats")["productServer"]["requests"].get("hang", 0) > 10, "events hang")
            assert service.end(signal.SIGTERM) == 0
        assert count(database_file, SENDING) == 0
        simulator.ask("receiver?mode=well", "POST")
        with Program(tmp_path, "serve", **settings):
            wait_until(lambda: is_settled(database_file, 1), "all is delivered")
            simulator.check()


def test_serve_and_crawl_on_one_file_share_one_budget_and_both_finish(tmp_path: Path, database_file: Path) -> None:
    with simulating(tmp_path, "--sellers", "2", "--products", "250", "--latency-ms", "20") as simulator:
        settings = simulator.settings(database_file)
        register(database_file, "seller_0001")
        register(database_file, "seller_0002", due=False)
        with Program(tmp_path, "serve", **settings) as service:
            service.until_it_says("serving")
            with Program(tmp_path, "crawl", "seller_0002", "--json", **settings) as crawl:
                assert crawl.wait() == 0, crawl.complained
            wait_until(lambda: is_settled(database_file, 2), "both runs are over and delivered")
            simulator.check()
            assert service.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    "mode", ["drop_after&probability=0.4&requests=120", "down&requests=30", "throttle&requests=24"]
)
def test_events_arrive_in_the_end_and_in_order_whatever_the_product_server_does_meanwhile(
    tmp_path: Path, database_file: Path, mode: str
) -> None:
    with simulating(tmp_path, "--sellers", "1", "--products", "80") as simulator:
        simulator.ask(f"receiver?mode={mode}", "POST")
        settings = simulator.settings(database_file, OUTBOX_BACKOFF_MAX_SECONDS=2)
        register(database_file, "seller_0001")
        with Program(tmp_path, "serve", **settings):
            wait_until(lambda: is_settled(database_file, 1), "all is delivered")
            simulator.ask("mutate?count=30&only=changed", "POST")
            done = run(tmp_path, "crawl", "seller_0001", **settings)
            assert done.returncode == 0, done.stderr
            wait_until(lambda: is_settled(database_file, 2), "the changes are delivered")
            simulator.check()
        versions = defaultdict[int, list[int]](list)
        for event in simulator.ask("events"):
            versions[event["item_no"]].append(event["version"])
        # A product whose detail and options both changed is told of at once, or one after the other.
        assert all(seen == list(range(1, len(seen) + 1)) for seen in versions.values())
        assert (len(versions), sum(len(seen) > 1 for seen in versions.values())) == (80, 30)
