"""A database with a history for the operator's commands to work on: made by the real use cases, in a real file."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tests.builders import NOW, SELLER, StoppedClock, a_message, execution_id, ids, outbox_id, task_id
from tests.crawling.crawl_world import ONE, TWO, CrawlWorld
from tests.world import ANSWERED_503, StoreWorld, task_number

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.product import Product
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.sellers.seller import Seller
from sellerwatch.simulator.product import SimulatedProduct

T = TypeVar("T")
#: A command with its settings as keywords.
Run = Callable[..., subprocess.CompletedProcess[str]]

NAME = "럭셔리 하우스 [명품] 🧥"
#: Quotes, a comma, brackets, Korean, an emoji and a line's end: everything a cell or a terminal may stumble over.
AWKWARD = '럭셔리 "코트", [명품] 🧥\n한정판'


class CliWorld:
    """Commands on one database, and a look behind them. Nothing here waits: a command is over when it returns."""

    def __init__(self, run: Run, store: SqlStore, file: Path) -> None:
        self.run = run
        self.store = store
        self.file = file
        clock = StoppedClock()
        self.world = StoreWorld(store, clock, ids(1, clock))

    def __call__(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run(*arguments, DATABASE_URL=f"sqlite:///{self.file}", **settings)

    def said(self, *arguments: str) -> str:
        """What a command that does its work says, to people."""
        done = self(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one JSON object a command answers with."""
        done = self(*arguments, "--json")
        assert (done.returncode, done.stderr) == (code, "")
        return json.loads(done.stdout)

    def wait(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(step)

    def do(self, work: Callable[[Transaction], T]) -> T:
        return self.wait(self.store.transact(work))

    def see(self, work: Callable[[Transaction], T]) -> T:
        return self.wait(self.store.read(work))

    def trail(self) -> list[AuditEntry]:
        """What commands did, newest first: what the preparation did is left out."""
        return self.wait(self.world.audit_trail("cli:"))

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row there is: to see that a refused command left all as it was."""
        return self.wait(self.world.all_rows())

    def register(
        self, seller_id: SellerId = SELLER, name: str = NAME, interval: CrawlingInterval | None = None
    ) -> Seller:
        self.wait(self.world.register([seller_id], name, every=interval))
        found = self.see(lambda tx: tx.sellers.get(seller_id))
        assert found is not None
        return found

    def run_of(self, seller_id: SellerId = SELLER, number: int = 1, **tasks: int) -> Execution:
        """A run of a registered seller with so many tasks in each state: done, failed, waiting, going."""
        return self.wait(self.world.add_run(number, seller_id, **tasks))

    def failed_message(self, number: int = 1, **changes: Any) -> None:
        """An event the receiver refused for good."""
        self.wait(self.world.add_failed_messages(a_message(number, **changes)))

    def tasks(self) -> dict[str, TaskStatus]:
        found = self.see(lambda tx: tx.task_queries.newest(execution_id=None, seller_id=None, status=None, limit=1000))
        return {task.task_id: task.status for task in found}


class CrawledProducts:
    """Products of a seller for commands to look at: crawled from the simulator's world by the real steps."""

    def __init__(self, world: CliWorld, products: int = 3) -> None:
        self.world = world
        self.crawl_world = CrawlWorld(world.store, products=products)
        world.wait(self.crawl_world.open(agents=12))

    def crawl(self, *, deliver: bool = True) -> ExecutionId:
        """One run of the first seller, and what it found delivered."""
        run = self.world.wait(self.crawl_world.crawl(ONE))
        if deliver:
            self.world.wait(self.crawl_world.deliver_all())
        return run

    @property
    def items(self) -> list[ItemNo]:
        return self.crawl_world.items(ONE)

    def sold(self, item: int) -> SimulatedProduct:
        """As the marketplace has it."""
        found = self.crawl_world.world.product(item)
        assert found is not None
        return found

    def change(self, item: int, **fields: Any) -> None:
        self.crawl_world.world.put(replace(self.sold(item), **fields))

    def truth(self, item: int) -> dict[str, Any]:
        found = self.crawl_world.world.truth(item)
        assert found is not None
        return found

    def product(self, item: ItemNo) -> Product:
        return self.world.see(lambda tx: tx.products.of_items([item])[item])

    def events(self, item: ItemNo) -> list[str]:
        return [message.event_type for message in self.world.wait(self.crawl_world.messages_of(item))]


__all__ = [
    "ANSWERED_503",
    "AWKWARD",
    "NAME",
    "NOW",
    "ONE",
    "SELLER",
    "TWO",
    "CliWorld",
    "CrawledProducts",
    "execution_id",
    "outbox_id",
    "task_id",
    "task_number",
]
