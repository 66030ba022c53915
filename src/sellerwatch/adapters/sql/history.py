"""The history of products in SQL, as JSON compressed with zstd: a list of changes, or the whole product at its
creation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson
import zstandard

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.statements import Repository
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

OF_PRODUCT = f"""
SELECT {ENTRY.listed}, changes FROM product_changes WHERE product_id = :product_id ORDER BY id DESC LIMIT :limit
"""

_LEVEL = -1
_ALL = 2**31


class SqlHistory(Repository):
    def add(self, entries: Iterable[HistoryEntry]) -> None:
        compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._db.many(
            ADD.sql, [ADD.values(entry, compress(entry.whole or _changes_json(entry.changes))) for entry in entries]
        )

    def of_product(self, product_id: ProductId, limit: int | None = None) -> Sequence[HistoryEntry]:
        expand = zstandard.ZstdDecompressor().decompress
        rows = self._db.rows(OF_PRODUCT, {"product_id": product_id, "limit": _ALL if limit is None else limit})
        return [HistoryEntry(changes=_read_changes(expand(row[-1])), **ENTRY.by_name(row)) for row in reversed(rows)]


def _changes_json(changes: Iterable[Change]) -> bytes:
    return orjson.dumps([(change.field, change.before, change.after) for change in changes])


def _read_changes(text: bytes) -> tuple[Change, ...]:
    kept = orjson.loads(text)
    return tuple(creation(kept) if isinstance(kept, dict) else (Change(*change) for change in kept))
