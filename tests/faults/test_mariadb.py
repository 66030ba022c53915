"""Services at one MariaDB, on real time: what the server's loss does to them, and what they do to one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.conftest import migrated_database
from tests.servers import MariaDb, running
from tests.simulated_service import settings_of, simulated_service, simulator_of
from tests.waiting import PATIENCE
from tests.world import StoreWorld

from sellerwatch.adapters.sql import mysql
from sellerwatch.adapters.sql.engine import DatabaseUnavailable
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.compose.database import open_engine, open_store
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.service.service import Service
from sellerwatch.settings.model import Settings
from sellerwatch.simulator.simulator import Simulator

COMPLETED = "SELECT COUNT(*) FROM crawler_tasks WHERE status = 'COMPLETED'"


@pytest.fixture
def own() -> Iterator[MariaDb]:
    """A server that this test may break."""
    with running(MariaDb) as server:
        assert isinstance(server, MariaDb)
        yield server


def settings_at(url: str, **values: object) -> Settings:
    return settings_of(
        DATABASE_URL=url, JWT_SECRET="x" * 32, INTERNAL_API_KEYS="key", PAGE_SIZE=10, VISIBILITY_SECONDS=6, **values
    )


@asynccontextmanager
async def serving(settings: Settings, simulator: Simulator) -> AsyncIterator[Service]:
    async with simulated_service(settings, simulator, SystemClock()) as service:
        running = asyncio.create_task(service.run())
        try:
            yield service
        finally:
            service.stop.set()
            await running


async def begin(service: Service, sellers: list[SellerId]) -> None:
    crawl = service.crawl
    assert isinstance(crawl.store, SqlStore)
    await StoreWorld(crawl.store, crawl.clock).register(sellers)
    for seller_id in sellers:
        await trigger(crawl, seller_id, "test")


async def settled(store: SqlStore, ready: Callable[[Transaction], bool] | None = None) -> None:
    """Until every run is over and everything is delivered; a database that is away meanwhile is asked again."""

    def is_settled(tx: Transaction) -> bool:
        is_crawling = tx.executions.running() or tx.executions.pending()
        return not is_crawling and tx.outbox_queries(OutboxKind.PRODUCT).pending() == 0

    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                if await store.read(ready or is_settled):
                    return
            except DatabaseUnavailable:
                pass
            await asyncio.sleep(0.1)


async def check_books(store: SqlStore, simulator: Simulator, products: int) -> None:
    assert simulator.compare() == []
    assert simulator.product_server.violations == []
    stats = simulator.marketplace.stats()
    assert (stats["over_budget"], stats["over_rate"]) == (0, 0)
    events = simulator.product_server.events()
    assert len({event.item_no for event in events}) == len(events) == products
    for run in await store.read(lambda tx: tx.execution_queries.newest(seller_id=None, status=None, limit=100)):
        tally = await store.read(lambda tx, run=run: tx.run_tasks.tally(run.execution_id))  # type: ignore[misc]
        assert (run.total_tasks_created, run.completed_tasks) == (sum(tally.values()),) * 2
    # One whose claim or answer was lost with the server is answered a moment later.
    await settled(store, lambda tx: tx.permits.unanswered() == 0)


async def test_services_side_by_side_crawl_the_same_runs_and_each_event_is_told_once(mariadb_url: str) -> None:
    settings = settings_at(mariadb_url)
    simulator = simulator_of(settings, sellers=3, products=60, latency_ms=20)
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(serving(settings, simulator)) for _ in range(4)]
        await begin(services[0], [SellerId(name) for name in simulator.world.sellers])
        for service in services:
            service.nudge()
        store = services[0].crawl.store
        assert isinstance(store, SqlStore)
        await settled(store)
        await check_books(store, simulator, 180)
        assert sum(service.progress.completed > 0 for service in services) > 1, "one did it all: that was no race"


@pytest.mark.parametrize("how", ["restarted", "killed"])
async def test_a_server_that_goes_away_in_the_middle_is_waited_for(own: MariaDb, how: str) -> None:
    settings = settings_at(migrated_database(own))
    simulator = simulator_of(settings, sellers=1, products=60, latency_ms=100)
    async with serving(settings, simulator) as service:
        store = service.crawl.store
        assert isinstance(store, SqlStore)
        await begin(service, [SellerId(name) for name in simulator.world.sellers])
        await settled(store, lambda tx: tx.db.value(COMPLETED) > 20)
        await asyncio.to_thread(own.stop if how == "restarted" else own.kill)
        with pytest.raises(DatabaseUnavailable):
            await store.read(lambda tx: tx.executions.running())
        await asyncio.to_thread(own.start)
        await settled(store)
        await check_books(store, simulator, 60)


async def test_a_frozen_server_is_given_up_and_heals_when_it_thaws(
    own: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql, "READ_SECONDS", 1)
    monkeypatch.setattr(mysql, "CONNECT_SECONDS", 1)
    store = open_store(settings_at(migrated_database(own)))
    try:
        await store.transact(lambda tx: tx.leases.take("job", "a", SystemClock().now(), SystemClock().now()))
        own.freeze()
        with pytest.raises(DatabaseUnavailable) as refused:
            await store.transact(lambda tx: tx.leases.last_finished("job"))
        own.thaw()
        assert str(refused.value).endswith(".")
        assert await store.transact(lambda tx: tx.db.value("SELECT COUNT(*) FROM job_leases")) == 1
    finally:
        own.thaw()
        store.close()


@pytest.mark.parametrize(
    ("user", "database", "said"),
    [
        ("nobody:hunter2", "t1", "the server refuses this user or password; mend SELLERWATCH_DATABASE_URL"),
        ("root", "missing", "the server has no such database; make it with CREATE DATABASE"),
    ],
)
def test_what_cannot_be_opened_is_said_in_one_sentence_without_the_password(
    mariadb: MariaDb, user: str, database: str, said: str
) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        open_engine(settings_at(f"mysql://{user}@127.0.0.1:{mariadb.port}/{database}"))
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_port_where_nobody_listens_is_said_in_one_sentence() -> None:
    with pytest.raises(DatabaseUnavailable, match="no server answers there; start it, or mend"):
        open_engine(settings_at("mysql://root:hunter2@127.0.0.1:1/x"))
