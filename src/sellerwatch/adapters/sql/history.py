"""The history of products in SQL, as compressed JSON (`deltas.py`): a list of changes, or the event of its
creation. The rows of the feed of changes (`changes.py`) are written with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.deltas import Deltas
from sellerwatch.adapters.sql.statements import AnyRow, Db, Repository
from sellerwatch.catalog.changes import kinds_and_fields
from sellerwatch.catalog.differences import Change, creation
from sellerwatch.catalog.ports import HistoryEntry
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.kernel.ids import ProductId

ENTRY = Columns[HistoryEntry](
    "product_changes",
    same="product_id item_no seller_id execution_id outbox_id version created_at",
    named={"event_type": "event"},
    read_as={"event": ProductEvent},
)
ADD = ENTRY.insert(also="changes base_id")

ADD_CHANGE = """
INSERT INTO changes (history_id, item_no, seller_id, execution_id, kind, field, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
"""

OF_PRODUCT = f"""
SELECT {ENTRY.listed}, changes, base_id FROM product_changes
WHERE product_id = :product_id ORDER BY id DESC LIMIT :limit
"""

#: Entries of one INSERT, so that it stays below what a server takes.
_AT_ONCE = 50
#: As long as the column.
LONGEST_FIELD = 255
_ALL = 2**31


class SqlHistory(Repository):
    def __init__(self, db: Db, deltas: Deltas) -> None:
        super().__init__(db)
        self._deltas = deltas

    def add(self, entries: Iterable[HistoryEntry]) -> None:
        left = list(entries)
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            packed = self._deltas.pack(
                [(entry.product_id, entry.whole or _changes_json(entry.changes)) for entry in some]
            )
            values = [ADD.values(entry, *text) for entry, text in zip(some, packed, strict=True)]
            self._db.many(ADD_CHANGE, _change_rows(self._db.insert(ADD.sql, values), some))

    def of_product(self, product_id: ProductId, limit: int | None = None) -> Sequence[HistoryEntry]:
        rows = self._db.rows(OF_PRODUCT, {"product_id": product_id, "limit": _ALL if limit is None else limit})
        texts = self._deltas.unpack([(row[-2], row[-1]) for row in rows], "product_changes")
        entries = [
            HistoryEntry(changes=read_changes(text), **ENTRY.by_name(row))
            for row, text in zip(rows, texts, strict=True)
        ]
        return entries[::-1]


def _changes_json(changes: Iterable[Change]) -> bytes:
    return orjson.dumps([(change.field, change.before, change.after) for change in changes])


def _change_rows(rows: Iterable[int], entries: Sequence[HistoryEntry]) -> Iterator[AnyRow]:
    for row, entry in zip(rows, entries, strict=True):
        for kind, field in kinds_and_fields(entry.event, entry.changes):
            shown = None if field is None else field[:LONGEST_FIELD]
            yield row, entry.item_no, entry.seller_id, entry.execution_id, kind, shown, entry.created_at


def read_changes(text: bytes) -> tuple[Change, ...]:
    """Return the changes of the text of an entry."""
    kept = orjson.loads(text)
    if isinstance(kept, dict):
        # An event; earlier versions stored its productData alone.
        return tuple(creation(kept.get("productData", kept)))
    return tuple(Change(*change) for change in kept)
