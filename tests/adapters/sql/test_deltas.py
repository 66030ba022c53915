"""Texts are stored once: events, history and later details are compressed against a stored detail, and come back byte
for byte; on both engines."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from sqlalchemy import Engine
from tests.builders import DAY, ITEM, MINUTE, NOW, SELLER, a_complete_product, a_message, outbox_id, product_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.deltas import DamagedText
from sellerwatch.adapters.sql.migrate import downgrade, upgrade
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.differences import Change
from sellerwatch.catalog.ports import HistoryEntry, RawPart
from sellerwatch.catalog.product import PartType, ProductEvent
from sellerwatch.outbox.message import DAMAGED, OutboxKind

RNG = random.Random(7)
#: Text that does not repeat, as a description of a shop: 12 KB.
TEXT = "".join(chr(RNG.randint(0xAC00, 0xD7A3)) for _ in range(4_000))
BODY = f'{{"price":600000,"descriptionMarkUp":"{TEXT}"}}'.encode()
REPRICED = BODY.replace(b"600000", b"590000")
ANOTHER = BODY.replace(TEXT.encode(), "".join(RNG.sample(TEXT, len(TEXT))).encode())
EVENT = f'{{"eventId":"1","productData":{{"itemNo":900000001,"descriptionHtml":"{TEXT}","options":[]}}}}'.encode()
WHOLE = f'{{"itemNo":900000001,"descriptionHtml":"{TEXT}","options":[]}}'.encode()
PRODUCT = a_complete_product()


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def a_detail(body: bytes, part: PartType = PartType.DETAIL) -> RawPart:
    return RawPart(PRODUCT.product_id, part, "d" * 32, body, NOW)


def keeping(body: bytes) -> Callable[[Transaction], None]:
    return lambda tx: tx.bodies.keep_raw([a_detail(body)])


def an_entry(number: int = 1, **given: Any) -> HistoryEntry:
    made: dict[str, Any] = {"event": ProductEvent.CREATED, "changes": (), **given}
    return HistoryEntry(
        product_id=product_id(),
        item_no=ITEM,
        seller_id=SELLER,
        execution_id=None,
        outbox_id=outbox_id(number),
        version=number,
        created_at=NOW,
        **made,
    )


def an_event(number: int = 1, payload: bytes = EVENT) -> Any:
    return a_message(number, subject_id=product_id(), payload=payload)


def a_crawled_product(tx: Transaction) -> None:
    tx.products.add([PRODUCT])
    tx.bodies.keep_raw([a_detail(BODY), a_detail(b'{"options":[]}', PartType.OPTION)])
    # A new product's event is its first entry of the history.
    tx.history.add([an_entry(whole=EVENT)])
    tx.product_outbox.add(an_event())


def stored(tx: Transaction, table: str, column: str) -> list[tuple[int, int | None]]:
    """The size and the base of each text."""
    sql = f"SELECT LENGTH({column}), base_id FROM {table} ORDER BY id"  # noqa: S608
    return [(row[0], row[1]) for row in tx.db.rows(sql)]


async def test_a_text_is_stored_once(inline_store: SqlStore) -> None:
    await inline_store.transact(a_crawled_product)

    def look(tx: Transaction) -> None:
        (detail, no_base), (_, none_either) = stored(tx, "product_raw_data", "raw_json")
        assert (no_base, none_either) == (None, None)
        assert detail > len(BODY) / 4, "this text cannot be made much smaller, so what is small below is no second copy"
        [(event, base)], [(entry, its_base)] = (
            stored(tx, "product_outbox", "payload"),
            stored(tx, "product_changes", "changes"),
        )
        row = tx.db.value("SELECT id FROM product_raw_data WHERE data_type = 'DETAIL'")
        assert (base, its_base) == (row, row)
        assert max(event, entry) < 200
        assert tx.product_outbox.latest_of(product_id(), 1)[0].payload == EVENT
        assert [message.payload for message in tx.delivery_queue(OutboxKind.PRODUCT).due(NOW, SELLER, 9)] == [EVENT]
        ((kept,),) = (tx.history.of_product(product_id())[0].changes[1:2],)
        assert (kept.field, kept.after) == ("descriptionHtml", TEXT)

    await inline_store.read(look)


async def test_several_texts_of_one_product_written_together_stay_apart(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        a_crawled_product(tx)
        tx.product_outbox.add_all([an_event(2, EVENT.replace(b'"1"', b'"2"')), an_event(3, b'{"eventId":"3"}')])

    await inline_store.transact(work)
    found = await inline_store.read(lambda tx: tx.product_outbox.latest_of(product_id(), 9))
    assert [message.payload[:14] for message in found] == [b'{"eventId":"3"', b'{"eventId":"2"', b'{"eventId":"1"']


async def test_an_event_written_after_its_detail_finds_it_again(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: tx.bodies.keep_raw([a_detail(BODY)]))
    await inline_store.transact(lambda tx: tx.product_outbox.add(an_event()))
    await inline_store.transact(
        lambda tx: tx.product_outbox.replace_payload(an_event(payload=b'{"eventId":"2"' + EVENT[14:]), NOW)
    )
    [(size, base)] = await inline_store.read(lambda tx: stored(tx, "product_outbox", "payload"))
    assert base is not None
    assert size < 200


async def test_a_detail_is_a_delta_of_the_last_whole_one_and_never_of_a_delta(inline_store: SqlStore) -> None:
    bodies = [BODY, REPRICED, REPRICED.replace(b"590000", b"580000"), ANOTHER, ANOTHER.replace(b"600000", b"1")]
    for body in bodies:
        await inline_store.transact(keeping(body))

    def look(tx: Transaction) -> None:
        rows = [row[0] for row in tx.db.rows("SELECT id FROM product_raw_data ORDER BY id")]
        sizes, bases = zip(*stored(tx, "product_raw_data", "raw_json"), strict=True)
        assert bases == (None, rows[0], rows[0], None, rows[3])
        assert max(sizes[1], sizes[2], sizes[4]) < 100
        assert [each.body for each in tx.bodies.bodies_of(product_id(), PartType.DETAIL, 9)] == bodies[::-1]
        assert tx.bodies.latest_raws([product_id()])[product_id()] == {PartType.DETAIL: bodies[-1]}

    await inline_store.read(look)


async def test_retention_keeps_a_body_while_a_text_needs_it(inline_store: SqlStore) -> None:
    await inline_store.transact(a_crawled_product)
    for body in (REPRICED, ANOTHER, ANOTHER.replace(b"600000", b"1")):
        await inline_store.transact(keeping(body))

    def forget(tx: Transaction) -> int:
        return tx.bodies.forget_raws(tx.bodies.old_raws(NOW + DAY, 100))

    assert await inline_store.transact(forget) == 1, "the repriced one; the first is the base of the event"
    assert await inline_store.transact(forget) == 0
    assert (await inline_store.read(lambda tx: tx.product_outbox.latest_of(product_id(), 1)))[0].payload == EVENT
    await inline_store.transact(lambda tx: tx.db.run("DELETE FROM product_outbox"))
    await inline_store.transact(lambda tx: tx.db.run("DELETE FROM product_changes"))
    assert await inline_store.transact(forget) == 1, "the first, which nothing needs any more"
    bodies = await inline_store.read(lambda tx: tx.bodies.bodies_of(product_id(), PartType.DETAIL, 9))
    assert [each.body for each in bodies] == [ANOTHER.replace(b"600000", b"1"), ANOTHER]


BREAKS = {
    "its frame": "UPDATE product_outbox SET payload = SUBSTR(payload, 1, LENGTH(payload) - 3)",
    "its base is gone": "DELETE FROM product_raw_data",
    "its base is another": "UPDATE product_raw_data SET raw_json = :another WHERE data_type = 'DETAIL'",
}


@pytest.mark.parametrize("broken", BREAKS)
async def test_a_damaged_event_says_so_and_keeps_no_other_from_being_read(inline_store: SqlStore, broken: str) -> None:
    another = zstandard.compress(ANOTHER)

    def work(tx: Transaction) -> None:
        a_crawled_product(tx)
        tx.db.run(BREAKS[broken], {"another": another} if ":another" in BREAKS[broken] else {})
        tx.product_outbox.add(a_message(2, subject_id=product_id(2)))

    await inline_store.transact(work)
    due = await inline_store.read(lambda tx: tx.delivery_queue(OutboxKind.PRODUCT).due(NOW, SELLER, 9))
    assert [(message.payload, message.is_damaged) for message in due] == [(DAMAGED, True), (a_message().payload, False)]


async def test_a_damaged_entry_of_the_history_is_refused(inline_store: SqlStore) -> None:
    await inline_store.transact(a_crawled_product)
    await inline_store.transact(lambda tx: tx.db.run("DELETE FROM product_raw_data"))
    with pytest.raises(DamagedText, match="product_changes"):
        await inline_store.read(lambda tx: tx.history.of_product(product_id()))


def as_an_earlier_version_stored(tx: Transaction) -> None:
    """Everything whole: three details of one product, two events, two entries of the history."""
    tx.products.add([PRODUCT])
    keep = """INSERT INTO product_raw_data (product_id, data_type, raw_hash, raw_json, created_at)
    VALUES (:product, 'DETAIL', '', :body, :now)"""
    for body in (BODY, REPRICED, ANOTHER):
        tx.db.run(keep, {"product": product_id(), "body": zstandard.compress(body), "now": NOW})
    tx.history.add([an_entry(), an_entry(2, event=ProductEvent.UPDATED, changes=(Change("stock", 1, 2),))])
    tx.product_outbox.add_all([an_event(), an_event(2)])
    tx.db.run("UPDATE product_changes SET changes = :text, base_id = NULL", {"text": zstandard.compress(WHOLE)})
    tx.db.run("UPDATE product_outbox SET payload = :text, base_id = NULL", {"text": EVENT.decode()})
    for table in ("product_raw_data", "product_changes", "product_outbox"):
        first, last = tx.db.rows(f"SELECT MIN(id), MAX(id) FROM {table}")[0]  # noqa: S608
        given = {"table": table, "row": first - 1, "last": last}
        tx.db.run("INSERT INTO text_conversions (table_name, after_row, last_row) VALUES (:table, :row, :last)", given)


def everything(tx: Transaction) -> list[object]:
    return [
        [each.body for each in tx.bodies.bodies_of(product_id(), PartType.DETAIL, 9)],
        [entry.changes for entry in tx.history.of_product(product_id())],
        [message.payload for message in tx.product_outbox.latest_of(product_id(), 9)],
    ]


async def test_what_is_stored_whole_is_converted_a_few_rows_at_a_time(inline_store: SqlStore) -> None:
    await inline_store.transact(as_an_earlier_version_stored)
    before = await inline_store.read(everything)
    await inline_store.transact(lambda tx: tx.product_outbox.add(an_event(3)))
    steps = 0
    while await inline_store.transact(lambda tx: tx.text_conversions.convert_next(1, NOW)):
        steps += 1
        assert steps < 20
    assert (steps, await inline_store.read(lambda tx: tx.text_conversions.are_pending())) == (7, False)

    def look(tx: Transaction) -> None:
        first, _, last = (row[0] for row in tx.db.rows("SELECT id FROM product_raw_data ORDER BY id"))
        bases = [base for _, base in stored(tx, "product_raw_data", "raw_json")]
        assert bases == [None, first, None], "the last is the base of an event, so it stays whole"
        assert [base for _, base in stored(tx, "product_outbox", "payload")] == [last] * 3
        assert max(size for size, _ in stored(tx, "product_changes", "changes")) < 10_000
        tx.db.run("DELETE FROM product_outbox WHERE outbox_id = :id", {"id": outbox_id(3)})
        assert everything(tx) == before

    await inline_store.read(look)


@pytest.mark.parametrize("when", ["converted", "crawled"])
async def test_a_downgrade_stores_texts_as_they_were(engine: Engine, inline_store: SqlStore, when: str) -> None:
    await inline_store.transact(as_an_earlier_version_stored if when == "converted" else a_crawled_product)
    while await inline_store.transact(lambda tx: tx.text_conversions.convert_next(200, NOW)):
        pass
    if when == "crawled":
        await inline_store.transact(keeping(REPRICED))
    before = await inline_store.read(everything)
    downgrade(engine, "0019")
    with engine.connect() as connection:
        plain = connection.exec_driver_sql("SELECT payload FROM product_outbox").scalars().all()
        details = connection.exec_driver_sql(
            "SELECT raw_json FROM product_raw_data WHERE data_type = 'DETAIL'"
        ).scalars()
        assert set(plain) == {EVENT.decode()}
        assert zstandard.decompress(details.all()[1]) == REPRICED
    upgrade(engine, NOW + MINUTE)
    assert await inline_store.read(everything) == before
    assert await inline_store.read(lambda tx: tx.text_conversions.are_pending())
