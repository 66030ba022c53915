"""Products' histories in the database: in order, whole, and apart from each other."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import (
    ITEM,
    MINUTE,
    NOW,
    SELLER,
    detail_facts,
    execution_id,
    list_facts,
    option_facts,
    outbox_id,
    product_id,
    whole_of,
)
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.differences import Change, creation
from sellerwatch.catalog.history import states
from sellerwatch.catalog.ports import HistoryEntry
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.outbox.event import data_json


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def entry(number: int, *changes: Change, product: int = 1, **given: Any) -> HistoryEntry:
    made: dict[str, Any] = {
        "product_id": product_id(product),
        "item_no": ITEM,
        "seller_id": SELLER,
        "execution_id": execution_id(number),
        "outbox_id": outbox_id(number),
        "event": ProductEvent.UPDATED,
        "version": number,
        "changes": changes,
        "created_at": NOW + number * MINUTE,
    }
    return HistoryEntry(**(made | given))


VALUES = [None, True, 0, -5, 2**62, 1.5, "", "코트 🧥 [명품]\n\x00", [], ["가", 1], {"a": {"b": None}}]


async def test_every_value_comes_back_as_it_went_in(inline_store: SqlStore) -> None:
    kept = entry(1, *(Change(f"field {n}", value, VALUES[-n - 1]) for n, value in enumerate(VALUES)))
    await inline_store.transact(lambda tx: tx.history.add([kept]))
    (found,) = await inline_store.read(lambda tx: tx.history.of_product(product_id()))
    assert found == kept
    assert [type(change.before) for change in found.changes] == [type(value) for value in VALUES]


async def test_a_creation_is_written_whole_and_read_as_what_it_changed(inline_store: SqlStore) -> None:
    data = whole_of(list_facts(), detail_facts(), option_facts())
    born = entry(1, event=ProductEvent.CREATED, whole=data_json(data))
    # As an earlier version of the program wrote it.
    before = entry(2, *creation(data), event=ProductEvent.CREATED)
    await inline_store.transact(lambda tx: tx.history.add([born, before]))
    found = await inline_store.read(lambda tx: tx.history.of_product(product_id()))
    assert [each.changes for each in found] == [tuple(creation(data))] * 2
    assert [state for _, state in states(found)] == [data, data]


async def test_entries_come_in_the_order_they_happened_and_only_of_their_product(inline_store: SqlStore) -> None:
    ours = [entry(number, Change("stock", number, number + 1)) for number in range(1, 6)]
    others = [entry(number, product=2) for number in range(1, 4)]

    def work(tx: Transaction) -> None:
        tx.history.add(ours[:3])
        tx.history.add(others)
        # The clock was set back meanwhile: the order is that of the writing.
        tx.history.add([entry(4, *ours[3].changes, created_at=NOW - MINUTE), ours[4]])

    await inline_store.transact(work)
    found = await inline_store.read(lambda tx: tx.history.of_product(product_id()))
    assert [e.version for e in found] == [1, 2, 3, 4, 5]
    assert await inline_store.read(lambda tx: tx.history.of_product(product_id(2))) == others
    assert await inline_store.read(lambda tx: tx.history.of_product(product_id(3))) == []


@pytest.mark.parametrize(("limit", "versions"), [(1, [3]), (2, [2, 3]), (3, [1, 2, 3]), (9, [1, 2, 3])])
async def test_a_limit_gives_the_last_so_many_still_in_order(
    inline_store: SqlStore, limit: int, versions: list[int]
) -> None:
    await inline_store.transact(lambda tx: tx.history.add([entry(number) for number in (1, 2, 3)]))
    found = await inline_store.read(lambda tx: tx.history.of_product(product_id(), limit))
    assert [e.version for e in found] == versions


async def test_what_was_not_told_or_seen_by_a_run_has_no_ids(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: tx.history.add([entry(1, execution_id=None, outbox_id=None)]))
    (found,) = await inline_store.read(lambda tx: tx.history.of_product(product_id()))
    assert (found.execution_id, found.outbox_id, found.changes) == (None, None, ())


async def test_a_whole_product_takes_little_room(inline_store: SqlStore) -> None:
    text = "<p>모니터 해상도에 따라 실제 색상과 차이가 있을 수 있습니다.</p>" * 1000
    await inline_store.transact(lambda tx: tx.history.add([entry(1, Change("descriptionHtml", None, text))]))
    size = await inline_store.read(lambda tx: tx.db.value("SELECT LENGTH(changes) FROM product_changes"))
    assert size < len(text.encode()) / 50
