"""`sellerwatch aws` and `tasks dead-letters`: against the emulator, as a person types them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.aws import CREDENTIALS, emulator
from tests.servers import Aws as Emulator

from sellerwatch.adapters.aws.client import Aws
from sellerwatch.adapters.aws.queue import dead_queue

from .cli_world import CliWorld, task_id, task_number
from .conftest import Run, refused

DONE, FAILED, WAITING = (task_id(task_number() + place) for place in range(3))


@pytest.fixture(scope="module")
def aws() -> Iterator[Emulator]:
    with emulator() as server:
        yield server


@pytest.fixture
def settings(aws: Emulator, database_file: Path, tmp_path: Path) -> dict[str, str]:
    name = tmp_path.name[:40]
    return {
        "DATABASE_URL": f"sqlite:///{database_file}",
        "QUEUE": "sqs",
        "SQS_QUEUE_NAME": f"{name}.fifo",
        "SQS_DLQ_NAME": f"{name}-dlq.fifo",
        "SCHEDULER": "eventbridge",
        "EVENTBRIDGE_TARGET_ARN": "arn:aws:events:us-east-1:000000000000:api-destination/x",
        "AWS_ENDPOINT_URL": aws.url,
    }


@pytest.fixture
def world(world: CliWorld) -> CliWorld:
    world.register()
    return world


def bury(aws: Emulator, settings: dict[str, str], *bodies: str) -> None:
    """Dead letters as the queue would leave them."""

    async def send() -> None:
        client = Aws(aws.url)
        for number, body in enumerate(bodies):
            given = {"MessageBody": body, "MessageGroupId": str(number), "MessageDeduplicationId": f"{number}"}
            await dead_queue(client, settings["SQS_DLQ_NAME"]).call("send_message", **given)
        await client.close()

    asyncio.run(send())


def test_dead_letters_are_explained_by_their_tasks_and_done_after_all(
    world: CliWorld, run_cold: Run, aws: Emulator, settings: dict[str, str]
) -> None:
    world.run_of(done=1, failed=1, waiting=1)
    assert run_cold("aws", "setup", **settings).returncode == 0
    bury(aws, settings, *(json.dumps({"taskId": id_}) for id_ in (DONE, FAILED, WAITING)), "rubbish")
    listed = json.loads(run_cold("tasks", "dead-letters", "list", "--json", **settings).stdout)
    why = {one["taskId"]: (one["why"], one["needsAPerson"]) for one in listed["content"]}
    assert listed["total"] == 4
    assert why[DONE][0].startswith("its task is done")
    assert why[FAILED] == (why[FAILED][0], True)
    assert why[FAILED][0].startswith("its task failed for good: ")
    assert why[WAITING][0].startswith("its task waits until ")
    assert why[None] == ("it names no task", True)
    would = run_cold("tasks", "dead-letters", "redrive", FAILED, "--dry-run", "--json", **settings)
    assert json.loads(would.stdout) == {"done": [FAILED], "refused": [], "dryRun": True}
    assert world.json("tasks", "show", FAILED)["status"] == "FAILED"
    done = run_cold("tasks", "dead-letters", "redrive", FAILED, "--json", **settings)
    assert json.loads(done.stdout) == {"done": [FAILED], "refused": [], "dryRun": False}
    assert world.json("tasks", "show", FAILED)["status"] == "RETRY"
    assert json.loads(run_cold("tasks", "dead-letters", "list", "--json", **settings).stdout)["total"] == 3


def test_rules_that_differ_are_shown_and_then_mended(world: CliWorld, run_cold: Run, settings: dict[str, str]) -> None:
    first = run_cold("aws", "reconcile", "--dry-run", **settings)
    assert "missing" in first.stdout
    assert "Nothing was changed" in first.stdout
    assert json.loads(run_cold("aws", "reconcile", "--json", **settings).stdout)["differ"][0]["mended"] is True
    assert "as they should be" in run_cold("aws", "reconcile", **settings).stdout


@pytest.mark.parametrize(
    "command", [("aws", "setup"), ("aws", "reconcile"), ("tasks", "dead-letters", "list")], ids=" ".join
)
def test_embedded_there_is_nothing_of_it(world: CliWorld, command: tuple[str, ...]) -> None:
    assert "SELLERWATCH_" in refused(world(*command), 1)


def test_what_is_redriven_must_be_said(run_cold: Run, settings: dict[str, str]) -> None:
    assert run_cold("tasks", "dead-letters", "redrive", **settings).returncode == 2


def test_no_secret_is_shown_by_config_check(run: Run, settings: dict[str, str]) -> None:
    shown = run("config", "check", **settings, REDIS_URL="redis://me:hunter2@cache:6379/0").stdout
    assert "hunter2" not in shown
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in shown
    assert "redis://hidden@cache:6379/0" in shown
    assert "SELLERWATCH_INTERNAL_API_KEYS: not set: EventBridge" in shown
