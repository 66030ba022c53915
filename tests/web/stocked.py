"""What the resource routes are asked about: runs, tasks, messages and whole crawls, made by the real steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tests.builders import MINUTE, NOW, SELLER, a_message, execution_id, ids, outbox_id, product_id, task_id, worker_id
from tests.cli.prepared import _run_of, task_number
from tests.crawling.crawl_world import ONE, TWO, CrawlWorld

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.execution import Execution
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ReplayableIds, SellerId
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.sellers.commands import register

from .caller import Api
from .conftest import Office

T = TypeVar("T")

NAME = "럭셔리 하우스 [명품] 🧥"
#: Any UUID does: there is nothing of that id.
NOBODYS = task_id(999_999)
#: Refused wherever a cursor is read: not base64, not ours, another list's, one with too large a number.
BAD_CURSORS = ["x", "!!", "한", "dGFza3M", "bm9ib2R5LjEuMQ", "dGFza3MuOTk5OTk5OTk5OTk5OTk5OTk5LjE", "' OR 1=1 --"]


async def do(office: Office, work: Callable[[Transaction], T]) -> T:
    store = office.service.crawl.store
    assert isinstance(store, SqlStore)
    return await store.transact(work)


async def see(office: Office, work: Callable[[Transaction], T]) -> T:
    store = office.service.crawl.store
    assert isinstance(store, SqlStore)
    return await store.read(work)


async def register_seller(office: Office, seller_id: SellerId = SELLER, seed: int = 1) -> None:
    draw = ReplayableIds(ids(1000 + seed))
    await do(office, lambda tx: register(tx, seller_id, NAME, None, actor="test", ids=draw.replay(), now=NOW))


async def run_of(
    office: Office,
    number: int = 1,
    seller_id: SellerId = SELLER,
    *,
    done: int = 0,
    failed: int = 0,
    waiting: int = 0,
    going: int = 0,
) -> Execution:
    return await do(office, lambda tx: _run_of(tx, seller_id, number, (done, failed, waiting, going)))


async def waiting_run(office: Office, number: int = 1, seller_id: SellerId = SELLER) -> None:
    """A run that could not be started twice and waits for its next try."""
    refused = Failure.of(FailureCode.UNREACHABLE, NOW, detail="connection refused")

    def work(tx: Transaction) -> None:
        schedule = tx.schedules.of_seller(seller_id)
        assert schedule is not None
        run = Execution.create(execution_id(number), schedule.schedule_id, seller_id, NOW)
        tx.executions.add(run.wait_to_start(refused, NOW).wait_to_start(refused, NOW + MINUTE))

    await do(office, work)


async def failed_messages(office: Office, number: int, first: int = 1) -> None:
    """Events the receiver refused for good, each of a product of its own."""

    def work(tx: Transaction) -> None:
        for n in range(first, first + number):
            message = a_message(n, subject_id=product_id(n))
            tx.product_outbox.add(message)
            refused = message.send(worker_id()).refuse("answered 422: 상품명이 너무 깁니다")
            tx.product_outbox.move([refused], NOW)

    await do(office, work)


async def practice_of(office: Office, products: int = 3) -> CrawlWorld:
    store = office.service.crawl.store
    assert isinstance(store, SqlStore)
    return await CrawlWorld(store, products=products).open(agents=12)


async def crawled(office: Office, products: int = 3) -> CrawlWorld:
    """A seller's products, read and told once."""
    practice = await practice_of(office, products)
    await practice.crawl(ONE)
    await practice.deliver_all()
    return practice


async def every(api: Api, path: str, size: int, **query: object) -> list[Any]:
    """A whole list, slice by slice, as a reader walks it."""
    found: list[Any] = []
    cursor = None
    for _ in range(1000):
        reply = await api.get(path, cursor=cursor, size=size, **query)
        assert reply.status == 200, reply.body
        assert len(reply.json["content"]) <= size
        found += reply.json["content"]
        cursor = reply.json["next"]
        if cursor is None:
            return found
    raise AssertionError("a list without an end")


async def trail(office: Office) -> list[AuditEntry]:
    """What was done through the API, newest first."""
    entries = await see(office, lambda tx: tx.audit.newest(limit=1000))
    return [entry for entry in entries if entry.actor == "api:admin@practice"]


async def everything(office: Office) -> dict[str, list[tuple[Any, ...]]]:
    """Every row there is: to see that a refused request left all as it was."""

    def look(tx: Transaction) -> dict[str, list[tuple[Any, ...]]]:
        tables = [row[0] for row in tx.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [tuple(row) for row in tx.db.rows(f"SELECT * FROM {name}")] for name in tables}  # noqa: S608

    return await see(office, look)


__all__ = [
    "BAD_CURSORS",
    "NAME",
    "NOBODYS",
    "NOW",
    "ONE",
    "SELLER",
    "TWO",
    "crawled",
    "do",
    "every",
    "everything",
    "execution_id",
    "failed_messages",
    "outbox_id",
    "practice_of",
    "register_seller",
    "run_of",
    "see",
    "task_id",
    "task_number",
    "trail",
]
