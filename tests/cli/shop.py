"""A seller's products for the operator's commands to look at: crawled from the simulator's world by the real steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tests.builders import ids
from tests.crawling.crawl_world import ONE, TWO, CrawlWorld

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.product import Product
from sellerwatch.kernel.ids import ExecutionId, ItemNo
from sellerwatch.simulator.product import Product as Sold

from .prepared import Office

T = TypeVar("T")

#: Quotes, a comma, brackets, Korean, an emoji and a line's end: everything a cell or a terminal may stumble over.
AWKWARD = '럭셔리 "코트", [명품] 🧥\n한정판'


@dataclass(frozen=True)
class Shop:
    """The office, and the world it crawls. Time does not go by unless a crawl needs it."""

    office: Office
    practice: CrawlWorld

    @classmethod
    def open(cls, office: Office, products: int = 3) -> Shop:
        practice = CrawlWorld(office.store, products=products)
        asyncio.run(practice.open(agents=12))
        return cls(office, practice)

    def wait(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(step)

    def crawl(self, *, deliver: bool = True) -> ExecutionId:
        """One run of the first seller, and what it found delivered."""
        run = self.wait(self.practice.crawl(ONE))
        if deliver:
            self.wait(self.practice.deliver_all())
        return run

    @property
    def items(self) -> list[ItemNo]:
        return self.practice.items(ONE)

    def sold(self, item: int) -> Sold:
        found = self.practice.world.product(item)
        assert found is not None
        return found

    def change(self, item: int, **fields: Any) -> None:
        self.practice.world.put(replace(self.sold(item), **fields))

    def truth(self, item: int) -> dict[str, Any]:
        found = self.practice.world.truth(item)
        assert found is not None
        return found

    def product(self, item: ItemNo) -> Product:
        return self.office.see(lambda tx: tx.products.of_items([item])[item])

    def events(self, item: ItemNo) -> list[str]:
        product_id = self.product(item).product_id
        return [m.event_type for m in self.office.see(lambda tx: tx.product_outbox.latest_of(product_id, 100))][::-1]

    def do(self, work: Callable[[Transaction], T]) -> T:
        return self.office.do(work)


__all__ = ["AWKWARD", "ONE", "TWO", "Shop", "ids"]
