"""Products and their bodies in SQL. Bodies are zstd-compressed: a detail reaches 150 KB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import zstandard

from sellerwatch.adapters.sql.statements import AnyRow, Db
from sellerwatch.catalog.ports import ProductCounts, RawPart
from sellerwatch.catalog.product import PartType, Product
from sellerwatch.kernel.ids import ExecutionId, ItemNo, ProductId, SellerId

SELECT = """SELECT product_id, item_no, seller_id, created_at, updated_at, minishop_data_hash, detail_data_hash,
    option_data_hash, is_changed, version, missing_runs, last_seen_at, last_seen_execution, deleted_at
FROM products"""

ADD = """
INSERT INTO products (product_id, item_no, seller_id, created_at, updated_at, minishop_data_hash, detail_data_hash,
    option_data_hash, is_complete, is_changed, version, missing_runs, last_seen_at, last_seen_execution, deleted_at)
VALUES (:product_id, :item_no, :seller_id, :created_at, :updated_at, :minishop_hash, :detail_hash, :option_hash,
    :is_complete, :is_changed, :version, :missing_runs, :last_seen_at, :last_seen_execution, :deleted_at)
"""

SAVE = """
UPDATE products SET seller_id = :seller_id, updated_at = :updated_at, minishop_data_hash = :minishop_hash,
    detail_data_hash = :detail_hash, option_data_hash = :option_hash, is_complete = :is_complete,
    is_changed = :is_changed, version = :version, missing_runs = :missing_runs, last_seen_at = :last_seen_at,
    last_seen_execution = :last_seen_execution, deleted_at = :deleted_at
WHERE item_no = :item_no
"""

KEEP_RAW = """
INSERT INTO product_raw_data (product_id, data_type, raw_hash, raw_json, created_at)
VALUES (:product_id, :data_type, :raw_hash, :raw_json, :created_at)
"""

# The newest body of each part.
LATEST_RAW = """
SELECT data_type, raw_json FROM product_raw_data WHERE id IN (
    SELECT MAX(id) FROM product_raw_data WHERE product_id = :product_id GROUP BY data_type)
"""

COUNT_SEEN = "SELECT COUNT(*) FROM products WHERE seller_id = :seller_id AND last_seen_execution = :execution_id"

COUNTS = """
SELECT COALESCE(SUM(deleted_at IS NULL), 0), COALESCE(SUM(deleted_at IS NULL AND is_complete), 0),
    COALESCE(SUM(deleted_at IS NOT NULL), 0)
FROM products WHERE seller_id = :seller_id
"""

#: Level 1: bodies are written once and rarely read; speed counts more than the last tenth of the size.
_LEVEL = 1


class SqlProducts:
    def __init__(self, db: Db) -> None:
        self._db = db

    def of_items(self, items: Sequence[ItemNo]) -> dict[ItemNo, Product]:
        return {
            ItemNo(row[1]): _product(row) for row in self._db.rows(f"{SELECT} WHERE item_no IN (:items)", items=items)
        }

    def add(self, products: Iterable[Product]) -> None:
        self._db.many(ADD, map(_params, products))

    def save(self, products: Iterable[Product]) -> None:
        self._db.many(SAVE, map(_params, products))

    def keep_raw(self, parts: Iterable[RawPart]) -> None:
        compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._db.many(
            KEEP_RAW,
            [
                {
                    "product_id": part.product_id,
                    "data_type": part.part,
                    "raw_hash": part.digest,
                    "raw_json": compress(part.body),
                    "created_at": part.created_at,
                }
                for part in parts
            ],
        )

    def latest_raw(self, product_id: ProductId) -> dict[PartType, bytes]:
        expand = zstandard.ZstdDecompressor().decompress
        rows = self._db.rows(LATEST_RAW, {"product_id": product_id})
        return {PartType(row[0]): expand(row[1]) for row in rows}

    def count_seen(self, seller_id: SellerId, execution_id: ExecutionId) -> int:
        return int(self._db.value(COUNT_SEEN, {"seller_id": seller_id, "execution_id": execution_id}))

    def count(self, seller_id: SellerId | None = None) -> int:
        where = "WHERE seller_id = :seller_id" if seller_id else ""
        return int(self._db.value(f"SELECT COUNT(*) FROM products {where}", {"seller_id": seller_id}))

    def counts(self, seller_id: SellerId) -> ProductCounts:
        row = self._db.row(COUNTS, {"seller_id": seller_id}) or (0, 0, 0)
        return ProductCounts(present=int(row[0]), complete=int(row[1]), deleted=int(row[2]))


def _params(product: Product) -> dict[str, Any]:
    return {
        "product_id": product.product_id,
        "item_no": product.item_no,
        "seller_id": product.seller_id,
        "created_at": product.created_at,
        "updated_at": product.updated_at,
        "minishop_hash": product.minishop_hash,
        "detail_hash": product.detail_hash,
        "option_hash": product.option_hash,
        "is_complete": product.is_complete,
        "is_changed": product.is_changed,
        "version": product.version,
        "missing_runs": product.missing_runs,
        "last_seen_at": product.last_seen_at,
        "last_seen_execution": product.last_seen_execution,
        "deleted_at": product.deleted_at,
    }


def _product(row: AnyRow) -> Product:
    return Product(
        product_id=ProductId(row[0]),
        item_no=ItemNo(row[1]),
        seller_id=SellerId(row[2]),
        created_at=row[3],
        updated_at=row[4],
        minishop_hash=row[5],
        detail_hash=row[6],
        option_hash=row[7],
        is_changed=bool(row[8]),
        version=row[9],
        missing_runs=row[10],
        last_seen_at=row[11],
        last_seen_execution=None if row[12] is None else ExecutionId(row[12]),
        deleted_at=row[13],
    )
