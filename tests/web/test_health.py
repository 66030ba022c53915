"""Health: up or down for everybody, the numbers for whoever is known; what cannot be read is down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs
from tests.builders import a_message, worker_id

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.ports import CrawlTx, WorkerInfo
from sellerwatch.service.service import ProcessRole
from sellerwatch.web.api.app import make_app

from .api_world import ApiWorld
from .caller import Api

READY = {"database", "schema", "disk", "worker"}
WHOLE = READY | {"outbox", "breaker", "marketplace"}


async def work(world: ApiWorld, **changed: Any) -> None:
    """A worker that is heard of, in this process."""
    world.service.begun.set()
    now = world.clock.now()
    info = WorkerInfo(worker_id(), "service", "here", 1, now, now)
    await world.transact(lambda tx: tx.workers.enter(replace(info, **changed)))


def down(found: Any) -> set[str]:
    return {name for name, part in found["components"].items() if part["status"] == "DOWN"}


async def test_everybody_is_told_up_or_down_and_no_more(world: ApiWorld) -> None:
    await work(world)
    told = await world.nobody.get("/actuator/health")
    assert (told.status, told.json["status"], set(told.json["components"])) == (200, "UP", WHOLE)
    assert {tuple(part) for part in told.json["components"].values()} == {("status",)}
    ready = await world.nobody.get("/actuator/health/readiness")
    assert (ready.status, set(ready.json["components"])) == (200, READY)
    assert (await world.nobody.get("/actuator/health/liveness")).json == {"status": "UP"}


async def test_whoever_is_known_is_told_the_numbers(world: ApiWorld) -> None:
    await work(world)
    parts = (await world.viewer.get("/actuator/health")).json["components"]
    assert parts["worker"]["details"]["workers"] == 1
    assert parts["schema"]["details"]["current"] == parts["schema"]["details"]["needed"]
    assert parts["breaker"]["details"] == {"state": "CLOSED"}
    assert parts["outbox"]["details"] == {"lagSeconds": 0.0, "receiver": True}


async def test_a_token_that_is_not_valid_is_refused_here_too(world: ApiWorld) -> None:
    assert (await world.with_token("rubbish").get("/actuator/health")).status == 401


def sql(statement: str) -> Callable[[Transaction], Any]:
    return lambda tx: tx.db.run(statement)


@pytest.mark.parametrize(
    ("part", "harm"),
    [
        ("schema", sql("UPDATE alembic_version SET version_num = '0001'")),
        ("worker", sql("UPDATE workers SET stopped_at = heartbeat_at")),
        ("breaker", lambda tx: tx.db.run("UPDATE pool_breaker SET state = 'OPEN'")),
    ],
)
async def test_a_part_that_is_down_is_named(world: ApiWorld, inline_store: SqlStore, part: str, harm: Any) -> None:
    await work(world)
    await inline_store.transact(lambda tx: tx.circuits.save_breaker(tx.circuits.breaker(), world.clock.now()))
    await inline_store.transact(harm)
    told = await world.nobody.get("/actuator/health")
    assert (told.status, told.json["status"], down(told.json)) == (503, "DOWN", {part})
    ready = await world.nobody.get("/actuator/health/readiness")
    assert ready.status == (503 if part == "schema" else 200)
    assert (await world.nobody.get("/actuator/health/liveness")).status == 200


async def test_a_worker_that_is_silent_is_down(world: ApiWorld) -> None:
    await work(world, heartbeat_at=world.clock.now() - timedelta(minutes=1))
    assert down((await world.nobody.get("/actuator/health")).json) == {"worker"}


async def test_an_api_is_ready_without_any_worker(world: ApiWorld) -> None:
    service = replace(world.service, roles=frozenset({ProcessRole.API}))
    api = Api(make_app(replace(world.parts, service=service)))
    assert down((await api.get("/actuator/health")).json) == {"worker"}
    ready = await api.get("/actuator/health/readiness")
    assert (ready.status, set(ready.json["components"])) == (200, {"database", "schema", "disk"})


async def test_a_process_that_has_not_begun_is_not_ready(world: ApiWorld) -> None:
    assert down((await world.nobody.get("/actuator/health/readiness")).json) == {"worker"}


async def test_events_that_do_not_leave_are_an_alarm_but_no_reason_to_send_no_work(world: ApiWorld) -> None:
    await work(world)
    late = world.clock.now() - timedelta(hours=1)
    await world.transact(
        lambda tx: tx.product_outbox.add(structs.replace(a_message(), created_at=late, next_attempt_at=late))
    )
    assert down((await world.nobody.get("/actuator/health")).json) == {"outbox"}
    assert (await world.nobody.get("/actuator/health/readiness")).status == 200


async def test_a_scheduler_that_does_not_turn_is_down(world: ApiWorld) -> None:
    await work(world)
    service = replace(world.service, schedules=True)
    api = Api(make_app(replace(world.parts, service=service)))
    assert down((await api.get("/actuator/health/readiness")).json) == {"scheduler"}
    service.last_ended["start_due"] = world.clock.monotonic()
    assert (await api.get("/actuator/health/readiness")).status == 200
    world.clock.time += timedelta(seconds=31)
    assert "scheduler" in down((await api.get("/actuator/health/readiness")).json)


class Unreadable:
    """A store that has lost its database."""

    commits = None

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def read(self, work: Callable[[CrawlTx], Any]) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("a bug"), TimeoutError()])
async def test_what_cannot_be_read_is_down_and_metrics_are_none_instead_of_zero(
    world: ApiWorld, error: Exception
) -> None:
    await work(world)
    service = replace(world.service, store=Unreadable(error))  # type: ignore[arg-type]
    app = make_app(replace(world.parts, service=service))
    told = await Api(app).get("/actuator/health")
    assert (told.status, told.json["status"]) == (503, "DOWN")
    assert down(told.json) == WHOLE - {"disk"}
    assert "gone" not in told.body.decode()
    scraped = await Api(app, world.viewer.token).get("/metrics")
    assert scraped.status in (500, 503)
    assert b"sellerwatch_tasks" not in scraped.body
