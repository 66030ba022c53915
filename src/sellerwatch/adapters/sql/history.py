"""The history of products in SQL, as JSON compressed with zstd: a list of changes, or the whole product at its
creation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson
import zstandard

from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.catalog.differences import Change, creation
from sellerwatch.catalog.ports import HistoryEntry
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, ProductId, SellerId

ADD = """
INSERT INTO product_changes (product_id, item_no, seller_id, execution_id, outbox_id, event_type, version, changes,
    created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

OF_PRODUCT = """
SELECT product_id, item_no, seller_id, execution_id, outbox_id, event_type, version, changes, created_at
FROM product_changes WHERE product_id = :product_id ORDER BY id DESC LIMIT :limit
"""

_LEVEL = -1
_ALL = 2**31


class SqlHistory(Repository):
    def add(self, entries: Iterable[HistoryEntry]) -> None:
        compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._db.many(
            ADD,
            [
                (
                    entry.product_id,
                    entry.item_no,
                    entry.seller_id,
                    entry.execution_id,
                    entry.outbox_id,
                    entry.event,
                    entry.version,
                    compress(entry.whole or _changes_json(entry.changes)),
                    entry.created_at,
                )
                for entry in entries
            ],
        )

    def of_product(self, product_id: ProductId, limit: int | None = None) -> Sequence[HistoryEntry]:
        expand = zstandard.ZstdDecompressor().decompress
        rows = self._db.rows(OF_PRODUCT, {"product_id": product_id, "limit": _ALL if limit is None else limit})
        return [
            HistoryEntry(
                product_id=ProductId(row[0]),
                item_no=ItemNo(row[1]),
                seller_id=SellerId(row[2]),
                execution_id=None if row[3] is None else ExecutionId(row[3]),
                outbox_id=None if row[4] is None else OutboxId(row[4]),
                event=ProductEvent(row[5]),
                version=row[6],
                changes=_read_changes(expand(row[7])),
                created_at=row[8],
            )
            for row in reversed(rows)
        ]


def _changes_json(changes: Iterable[Change]) -> bytes:
    return orjson.dumps([(change.field, change.before, change.after) for change in changes])


def _read_changes(text: bytes) -> tuple[Change, ...]:
    kept = orjson.loads(text)
    return tuple(creation(kept) if isinstance(kept, dict) else (Change(*change) for change in kept))
