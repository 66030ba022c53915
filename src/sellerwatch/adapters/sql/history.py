"""The history of products in SQL, as JSON compressed with zstd: a list of changes, or the whole product at its
creation. The rows of the feed of changes (`changes.py`) are written with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson
import zstandard

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.statements import AnyRow, Repository
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
ADD = ENTRY.insert(also="changes")

ADD_CHANGE = """
INSERT INTO changes (history_id, item_no, seller_id, execution_id, kind, field, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
"""

OF_PRODUCT = f"""
SELECT {ENTRY.listed}, changes FROM product_changes WHERE product_id = :product_id ORDER BY id DESC LIMIT :limit
"""

_LEVEL = -1
#: Entries of one INSERT, so that it stays below what a server takes.
_AT_ONCE = 50
#: As long as the column.
LONGEST_FIELD = 255
_ALL = 2**31


class SqlHistory(Repository):
    def add(self, entries: Iterable[HistoryEntry]) -> None:
        compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        left = list(entries)
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            values = [ADD.values(entry, compress(entry.whole or _changes_json(entry.changes))) for entry in some]
            self._db.many(ADD_CHANGE, _change_rows(self._db.insert(ADD.sql, values), some))

    def of_product(self, product_id: ProductId, limit: int | None = None) -> Sequence[HistoryEntry]:
        rows = self._db.rows(OF_PRODUCT, {"product_id": product_id, "limit": _ALL if limit is None else limit})
        return [HistoryEntry(changes=read_changes(row[-1]), **ENTRY.by_name(row)) for row in reversed(rows)]


def _changes_json(changes: Iterable[Change]) -> bytes:
    return orjson.dumps([(change.field, change.before, change.after) for change in changes])


def _change_rows(rows: Iterable[int], entries: Sequence[HistoryEntry]) -> Iterator[AnyRow]:
    for row, entry in zip(rows, entries, strict=True):
        for kind, field in kinds_and_fields(entry.event, entry.changes):
            shown = None if field is None else field[:LONGEST_FIELD]
            yield row, entry.item_no, entry.seller_id, entry.execution_id, kind, shown, entry.created_at


def read_changes(packed: bytes) -> tuple[Change, ...]:
    """Return the changes of a stored entry."""
    kept = orjson.loads(zstandard.ZstdDecompressor().decompress(packed))
    return tuple(creation(kept) if isinstance(kept, dict) else (Change(*change) for change in kept))
