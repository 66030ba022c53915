"""A database that is replaced by an older copy of itself: no limit is passed, and the receiver ends with the truth."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from datetime import timedelta

from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.compose.rules import pool_rules
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.operations.restore import adopt_backup
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode

#: A receiver notices what a restore cannot help: it knows products that the backup did not know.
NOT_IN_THE_BACKUP = ("follows", "CREATED, but the item is there already")


class Backup:
    """A copy of the world's database in memory, as `db backup` makes one of a file."""

    def __init__(self, world: ServiceWorld) -> None:
        self._world, self._copy = world, sqlite3.connect(":memory:", check_same_thread=False)
        self._move(into_the_world=False)

    async def restore(self) -> None:
        self._move(into_the_world=True)
        world = self._world

        def work(tx: Transaction, ids: object) -> tuple[int, int]:
            context = OperationContext("test", moment(world.clock), ids)  # type: ignore[arg-type]
            return adopt_backup(tx, context, pool_rules(world.settings), "backup.db")

        self.given_up, self.products = await world.transact_with_ids(work)

    def _move(self, *, into_the_world: bool) -> None:
        connection = self._world.store._engine.raw_connection()
        try:
            database = connection.driver_connection
            assert isinstance(database, sqlite3.Connection)
            source, target = (self._copy, database) if into_the_world else (database, self._copy)
            source.backup(target)
        finally:
            connection.close()


async def no_run(world: ServiceWorld) -> bool:
    return not any(run.is_open for run in await world.executions())


@simulated(settings=settings_of(PAGE_SIZE=20, WINDOW_LIMIT=20, WINDOW_SECONDS=600), sellers=1, products=12)
async def test_after_a_restore_nothing_is_sent_out_of_order_and_no_window_is_passed(world: ServiceWorld) -> None:
    marketplace, receiver = world.simulator.world, world.simulator.product_server
    await world.leave_agents(4)
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        await world.settle(service)
        # Events that the backup has and the receiver does not: they are merged into others before they are sent.
        receiver.behave(ServerBehaviour(ServerMode.ERROR))
        items = list(marketplace.listing(sellers[0]))
        for item_no in items[:3]:
            marketplace.change(item_no, world.rng, "reprice")
        await world.start(service, sellers[0])
        service.nudge()
        await world.until(lambda: no_run(world), service)
    backup = Backup(world)
    receiver.behave(ServerBehaviour())
    async with world.serving() as service:
        await world.settle(service)
        for round_ in range(3):
            for item_no in items[:6]:
                marketplace.change(item_no, world.rng, "reprice")
            marketplace.appear(sellers[0])
            marketplace.vanish(items[-1 - round_])
            await world.crawl(service, sellers)
        await world.settle(service)
    world.check_world()
    before = {item_no: receiver.version(item_no) for item_no in items}
    sent = len(receiver.events())

    await backup.restore()
    assert (backup.given_up, backup.products) == (3, 12)
    async with world.serving() as service:
        await world.settle(service)
        await world.crawl(service, sellers)
        await world.settle(service)
    assert world.simulator.compare() == []
    stats = world.simulator.marketplace.stats()
    assert (stats["over_budget"], stats["over_rate"]) == (0, 0)
    assert stats["most_in_a_window"] <= world.settings.window_limit
    versions = defaultdict[int, list[int]](list)
    for event in receiver.events()[sent:]:
        versions[event.item_no].append(event.version)
    assert set(items) <= set(versions)
    for item_no, seen in versions.items():
        assert seen == list(range(seen[0], seen[0] + len(seen)))
        assert seen[0] > before.get(item_no, 0) + 1000
    assert [each for each in receiver.violations if not any(part in each.rule for part in NOT_IN_THE_BACKUP)] == []
    assert await world.store.read(lambda tx: tx.invariants.broken(world.now - timedelta(days=1))) == []
