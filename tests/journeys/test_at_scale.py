"""The whole product with Redis, SQS and EventBridge: from `aws setup` to a filled product server, and on bad days."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.aws import CREDENTIALS, emulator
from tests.faults.processes import Program, SimulatorProcess, count, register_at, run
from tests.servers import Aws, Redis, running
from tests.waiting import wait_until

from sellerwatch.adapters.aws import client as aws_client
from sellerwatch.adapters.aws.queue import set_up
from sellerwatch.kernel.ids import SellerId

SELLER = SellerId("seller_0001")
TARGET = "arn:aws:events:us-east-1:000000000000:api-destination/trigger"
DONE = "SELECT COUNT(*) FROM crawler_tasks WHERE status = 'COMPLETED'"


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    with emulator() as server:
        yield server


@pytest.fixture
def redis() -> Iterator[Redis]:
    with running(Redis) as server:
        assert isinstance(server, Redis)
        yield server


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[SimulatorProcess]:
    with SimulatorProcess(tmp_path, "--sellers", "1", "--products", "60", "--detail-kb", "1") as made:
        yield made


@pytest.fixture
def settings(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess, redis: Redis, aws: Aws
) -> dict[str, object]:
    names = {"SQS_QUEUE_NAME": f"{tmp_path.name[:40]}.fifo", "SQS_DLQ_NAME": f"{tmp_path.name[:40]}-dlq.fifo"}
    return simulator.settings(
        database_file,
        REDIS_URL=redis.url,
        QUEUE="sqs",
        SCHEDULER="eventbridge",
        EVENTBRIDGE_TARGET_ARN=TARGET,
        AWS_ENDPOINT_URL=aws.url,
        VISIBILITY_SECONDS=3,
        **names,
    )


@pytest.fixture
def prepared(settings: dict[str, object], database_file: Path, aws: Aws) -> dict[str, object]:
    """Queues are there and a seller is registered, without a process for each."""

    async def prepare() -> None:
        client = aws_client.Aws(aws.url)
        await set_up(client, str(settings["SQS_QUEUE_NAME"]), str(settings["SQS_DLQ_NAME"]), 3)
        await client.close()

    asyncio.run(prepare())
    register_at(f"sqlite:///{database_file}", SELLER, due=False)
    return settings


def test_a_whole_crawl_from_setting_up_to_a_filled_product_server(
    tmp_path: Path, simulator: SimulatorProcess, settings: dict[str, object]
) -> None:
    assert run(tmp_path, "aws", "setup", **settings).returncode == 0
    assert run(tmp_path, "sellers", "add", SELLER, "--name", "x", **settings).returncode == 0
    done = run(tmp_path, "crawl", SELLER, "--json", **settings)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["executions"]
    assert (told["status"], told["products"], told["completed"], told["failed"]) == ("COMPLETED", 60, 121, 0)
    simulator.check()
    compared = json.loads(run(tmp_path, "aws", "reconcile", "--dry-run", "--json", **settings).stdout)
    assert compared == {"wanted": 1, "differ": []}
    assert json.loads(run(tmp_path, "tasks", "dead-letters", "list", "--json", **settings).stdout)["total"] == 0


def test_redis_restarted_empty_and_frozen_in_mid_crawl_costs_time_and_nothing_else(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess, redis: Redis, prepared: dict[str, object]
) -> None:
    with Program(tmp_path, "crawl", SELLER, "--json", **prepared) as crawl:
        wait_until(lambda: count(database_file, DONE) > 5 or not crawl.is_alive, "it crawls")
        redis.kill()
        redis.start()
        wait_until(lambda: count(database_file, DONE) > 30 or not crawl.is_alive, "it goes on")
        redis.freeze()
        time.sleep(0.5)
        redis.thaw()
        assert crawl.wait() == 0, crawl.complained
    (told,) = json.loads(crawl.said)["executions"]
    assert (told["status"], told["completed"], told["failed"]) == ("COMPLETED", 121, 0)
    simulator.check()


def test_killed_in_mid_crawl_another_process_finishes_it(
    tmp_path: Path, database_file: Path, simulator: SimulatorProcess, prepared: dict[str, object]
) -> None:
    """Messages come again, late and twice: their rows know."""
    with Program(tmp_path, "crawl", SELLER, **prepared) as killed:
        wait_until(lambda: count(database_file, DONE) > 5 or not killed.is_alive, "it crawls")
        killed.kill()
    done = run(tmp_path, "crawl", SELLER, "--json", **prepared)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["executions"]
    assert (told["status"], told["completed"], told["failed"]) == ("COMPLETED", 121, 0)
    simulator.check()


def test_health_names_the_server_that_is_away_and_the_rest_goes_on(
    tmp_path: Path, redis: Redis, prepared: dict[str, object]
) -> None:
    with Program(tmp_path, "serve", **prepared) as served:
        served.until_it_says('"serving"')
        line = next(line for line in served.complained.splitlines() + served.said.splitlines() if '"serving"' in line)
        address = json.loads(line)["api"]
        assert {name for name, up in health(address).items() if not up} == set()
        redis.kill()
        # Callers without a token see what was found within the last seconds: OUTSIDE_SECONDS.
        wait_until(lambda: {name for name, up in health(address).items() if not up} == {"redis"}, "Redis is down")
        redis.start()
        wait_until(lambda: health(address)["redis"], "it is well again")
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in served.complained + served.said


def health(address: str) -> dict[str, bool]:
    try:
        with urlopen(f"{address}/actuator/health", timeout=600) as answer:  # noqa: S310 - our own
            body = json.load(answer)
    except HTTPError as down:
        body = json.load(down)
    return {name: part["status"] == "UP" for name, part in body["components"].items()}


@pytest.mark.parametrize("command", [["serve"], ["crawl", SELLER]])
def test_redis_that_is_not_there_at_the_start_is_one_sentence(
    tmp_path: Path, redis: Redis, settings: dict[str, object], command: list[str]
) -> None:
    redis.kill()
    done = run(tmp_path, *command, **settings)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: Redis at redis://127.0.0.1")
    assert "SELLERWATCH_REDIS_URL" in line
