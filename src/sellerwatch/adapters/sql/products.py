"""Products and their bodies in SQL. Bodies are compressed (`deltas.py`): a detail reaches 150 KB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.deltas import NOT_A_BASE, Deltas, Packed, WholeDetail, compressor, pack_delta
from sellerwatch.adapters.sql.paging import PageQuery, like, read_page
from sellerwatch.adapters.sql.statements import AnyRow, Db, Repository
from sellerwatch.catalog.changes import FoundFilter, FoundKind
from sellerwatch.catalog.ports import ListCounts, PartKey, ProductCounts, RawPart, StoredBody
from sellerwatch.catalog.product import PartType, Product, ProductState
from sellerwatch.kernel.ids import ExecutionId, ItemNo, ProductId, SellerId
from sellerwatch.kernel.paging import Cursor, Page

PRODUCT = Columns[Product](
    "products",
    same="product_id item_no seller_id created_at updated_at is_complete is_changed version missing_runs last_seen_at"
    " last_seen_execution deleted_at name",
    named={
        "minishop_data_hash": "minishop_hash",
        "detail_data_hash": "detail_hash",
        "option_data_hash": "option_hash",
    },
    written="is_complete",
    read_as={"is_changed": bool},
)
SELECT = PRODUCT.select
ADD = PRODUCT.insert()
SAVE = PRODUCT.update("item_no", without="product_id created_at")

NOTE_LISTED = """
UPDATE products SET last_seen_at = :last_seen_at, last_seen_execution = :last_seen_execution,
    missing_runs = :missing_runs
WHERE item_no = :item_no
"""

# By the one part that was read; nothing else about these products changed.
NOTE_READ = {
    PartType.DETAIL: "UPDATE products SET detail_read_at = :at WHERE item_no IN (:items)",
    PartType.OPTION: "UPDATE products SET option_read_at = :at WHERE item_no IN (:items)",
}

KEEP_RAW = """
INSERT INTO product_raw_data (product_id, data_type, raw_hash, raw_json, base_id, created_at) VALUES (?, ?, ?, ?, ?, ?)
"""

# The newest body of each part.
LATEST_RAWS = """
SELECT r.product_id, r.data_type, r.id, r.raw_json, r.base_id FROM (
    SELECT MAX(id) AS id FROM product_raw_data WHERE product_id IN (:product_ids) {of_a_part}
    GROUP BY product_id, data_type) AS newest
JOIN product_raw_data r ON r.id = newest.id
"""

BODIES_OF = """
SELECT data_type, raw_hash, created_at, raw_json, base_id FROM product_raw_data
WHERE product_id = :product_id {of_a_part} ORDER BY id DESC LIMIT :limit
"""

# Old bodies that have a newer one of their part, because a product is made of the newest ones, and that no other text
# was compressed against.
OLD_RAWS = f"""
SELECT old.id FROM product_raw_data old WHERE old.created_at < :before AND EXISTS (
    SELECT 1 FROM product_raw_data newer
    WHERE newer.product_id = old.product_id AND newer.data_type = old.data_type AND newer.id > old.id)
AND {NOT_A_BASE} ORDER BY old.id LIMIT :limit
"""

BODY_HASHES = "SELECT item_no, detail_hash, option_hash FROM body_hashes WHERE item_no IN (:items)"

KEEP_BODY_HASHES = """
INSERT INTO body_hashes (item_no, detail_hash, option_hash) VALUES (?, ?, ?)
ON CONFLICT (item_no) DO UPDATE SET detail_hash = COALESCE(excluded.detail_hash, detail_hash),
    option_hash = COALESCE(excluded.option_hash, option_hash)
"""

FORGET_BODY_HASHES = "DELETE FROM body_hashes WHERE item_no IN (:items)"

# A run's list against what we have, in one walk over the seller's products.
LIST_STANDING = """
SELECT COALESCE(SUM(version > 0 AND deleted_at IS NULL), 0), COALESCE(SUM(last_seen_execution = :execution_id), 0),
    COALESCE(SUM(version > 0 AND deleted_at IS NULL AND COALESCE(last_seen_execution, '') <> :execution_id), 0)
FROM products WHERE seller_id = :seller_id
"""

MISSING = f"""{SELECT} WHERE seller_id = :seller_id AND version > 0 AND deleted_at IS NULL
    AND COALESCE(last_seen_execution, '') <> :execution_id ORDER BY item_no"""

_UNSEEN = """seller_id = :seller_id AND version > 0 AND deleted_at IS NULL
    AND (last_seen_at IS NULL OR last_seen_at < :since)"""

UNSEEN_SINCE = f"{SELECT} WHERE {_UNSEEN} ORDER BY item_no LIMIT :limit"

PRESENT_OF = f"{SELECT} WHERE seller_id = :seller_id AND deleted_at IS NULL ORDER BY id LIMIT :limit"

COUNT_UNSEEN_SINCE = f"SELECT COUNT(*) FROM products WHERE {_UNSEEN}"

COUNTS = """
SELECT COALESCE(SUM(deleted_at IS NULL), 0), COALESCE(SUM(deleted_at IS NULL AND is_complete), 0),
    COALESCE(SUM(deleted_at IS NOT NULL), 0)
FROM products WHERE seller_id = :seller_id
"""

_STATES = {
    ProductState.COMPLETE: "is_complete = 1 AND deleted_at IS NULL",
    ProductState.INCOMPLETE: "is_complete = 0 AND deleted_at IS NULL",
    ProductState.DELETED: "deleted_at IS NOT NULL",
}

_CHANGED_IN = "SELECT item_no FROM changes WHERE execution_id = :execution_id"
#: As `changes.FOUND` and `changes.UNCHANGED` count them.
_FOUND = {
    FoundKind.NEW: f"w.item_no IN ({_CHANGED_IN} AND kind = 'new')",
    FoundKind.GONE: f"w.item_no IN ({_CHANGED_IN} AND kind = 'gone')",
    FoundKind.CHANGED: f"w.item_no IN ({_CHANGED_IN}) AND w.item_no NOT IN ({_CHANGED_IN} AND kind IN ('new', 'gone'))",
    FoundKind.UNCHANGED: f"""w.seller_id = (
        SELECT seller_id FROM crawling_schedule_executions WHERE execution_id = :execution_id)
    AND w.last_seen_execution = :execution_id AND w.item_no NOT IN ({_CHANGED_IN})
    AND EXISTS (SELECT 1 FROM crawling_schedule_executions e WHERE e.execution_id = :execution_id
        AND w.detail_read_at >= COALESCE(e.started_at, e.created_at)
        AND w.option_read_at >= COALESCE(e.started_at, e.created_at))""",
}
_CALLED = "LOWER(w.name) LIKE :like ESCAPE '!'"
#: A detail is stored as a delta where that is at most this share of its text; else it is the next base.
DELTA_SHARE = 1 / 8
#: Bodies of one INSERT, so that it stays below what a server takes.
_AT_ONCE = 50
_LOOKED_AT = {
    ProductState.COMPLETE: {"is_complete": "w.is_complete = 1", "deleted_at": "w.deleted_at IS NULL"},
    ProductState.INCOMPLETE: {"is_complete": "w.is_complete = 0", "deleted_at": "w.deleted_at IS NULL"},
    ProductState.DELETED: {"deleted_at": "w.deleted_at IS NOT NULL"},
}


class SqlProducts(Repository):
    def of_items(self, items: Sequence[ItemNo]) -> dict[ItemNo, Product]:
        found = map(_product, self._db.hold(f"{SELECT} WHERE item_no IN (:items)", items=items))
        return {product.item_no: product for product in found}

    def add(self, products: Iterable[Product]) -> None:
        self._db.many(ADD.sql, map(ADD.values, products))

    def save(self, products: Iterable[Product]) -> None:
        self._db.many(SAVE.sql, map(SAVE.values, products))

    def note_listed(self, products: Iterable[Product]) -> None:
        self._db.many(
            NOTE_LISTED,
            [
                {
                    "item_no": product.item_no,
                    "last_seen_at": product.last_seen_at,
                    "last_seen_execution": product.last_seen_execution,
                    "missing_runs": product.missing_runs,
                }
                for product in products
            ],
        )

    def list_counts(self, seller_id: SellerId, execution_id: ExecutionId) -> ListCounts:
        row = self._db.row(LIST_STANDING, {"seller_id": seller_id, "execution_id": execution_id}) or (0, 0, 0)
        return ListCounts(told=int(row[0]), seen=int(row[1]), missing=int(row[2]))

    def missing(self, seller_id: SellerId, execution_id: ExecutionId) -> Sequence[Product]:
        given = {"seller_id": seller_id, "execution_id": execution_id}
        return [_product(row) for row in self._db.hold(MISSING, given)]

    def unseen_since(self, seller_id: SellerId, since: datetime, limit: int) -> Sequence[Product]:
        given = {"seller_id": seller_id, "since": since, "limit": limit}
        return [_product(row) for row in self._db.hold(UNSEEN_SINCE, given)]

    def count_unseen_since(self, seller_id: SellerId, since: datetime) -> int:
        return int(self._db.value(COUNT_UNSEEN_SINCE, {"seller_id": seller_id, "since": since}))

    def present_of(self, seller_id: SellerId, limit: int) -> Sequence[Product]:
        return [_product(row) for row in self._db.hold(PRESENT_OF, {"seller_id": seller_id, "limit": limit})]


class SqlReadTimes(Repository):
    """Implements `catalog.ports.ReadTimes`."""

    def note(self, part: PartType, items: Sequence[ItemNo], at: datetime) -> None:
        if items:
            self._db.run(NOTE_READ[part], {"at": at}, items=items)


class SqlProductQueries(Repository):
    def complete_after(self, row: int, seller_id: SellerId | None, limit: int) -> Sequence[tuple[int, Product]]:
        of_seller = "seller_id = :seller_id AND " if seller_id else ""
        where = f"WHERE {of_seller}id > :row AND {_STATES[ProductState.COMPLETE]}"
        given = {"row": row, "seller_id": seller_id, "limit": limit}
        rows = self._db.rows(f"{SELECT.replace('SELECT ', 'SELECT id, ')} {where} ORDER BY id LIMIT :limit", given)
        return [(row[0], _product(row[1:])) for row in rows]

    def page(
        self,
        *,
        seller_id: SellerId | None,
        state: ProductState | None,
        cursor: Cursor | None,
        limit: int,
        search: str | None = None,
        updated: tuple[datetime, datetime] | None = None,
        found: FoundFilter | None = None,
    ) -> Page[Product]:
        within = ["w.seller_id = :seller_id"] if seller_id else []
        if found is not None:
            within.append(_FOUND[found.kind])
        only = {} if state is None else dict(_LOOKED_AT[state])
        if search:
            only["name"] = _CALLED
        given: dict[str, Any] = {"seller_id": seller_id, "like": like(search or "").lower()}
        given["execution_id"] = None if found is None else found.execution_id
        if updated is not None:
            # In this order one index serves every filter: those of a seller would need one of their own.
            only |= dict.fromkeys(["seller_id"] if seller_id else [], "w.seller_id = :seller_id")
            within = [*within[bool(seller_id) :], "w.updated_at >= :since", "w.updated_at <= :until"]
            given |= {"since": updated[0], "until": updated[1]}
            query = PageQuery("products", given, within, only, "updated_at", by_time=True, newest_first=False)
            return read_page(self._db, query, PRODUCT.select_rows, _product, cursor=cursor, limit=limit)
        if seller_id and "is_complete" in only:
            within.append(only.pop("is_complete"))
        query = PageQuery("products", given, within, only, newest_first=False)
        return read_page(self._db, query, PRODUCT.select_rows, _product, cursor=cursor, limit=limit)

    def count(self, seller_id: SellerId | None = None, state: ProductState | None = None) -> int:
        asked = ["seller_id = :seller_id"] if seller_id else []
        asked += [_STATES[state]] if state else []
        where = f"WHERE {' AND '.join(asked)}" if asked else ""
        return int(self._db.value(f"SELECT COUNT(*) FROM products {where}", {"seller_id": seller_id}))

    def counts(self, seller_id: SellerId) -> ProductCounts:
        row = self._db.row(COUNTS, {"seller_id": seller_id}) or (0, 0, 0)
        return ProductCounts(present=int(row[0]), complete=int(row[1]), deleted=int(row[2]))


class SqlProductBodies(Repository):
    def __init__(self, db: Db, deltas: Deltas) -> None:
        super().__init__(db)
        self._deltas = deltas

    def keep_raw(self, parts: Iterable[RawPart]) -> None:
        left = list(parts)
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            packed = self._pack(some)
            rows = self._db.insert(
                KEEP_RAW,
                [
                    (part.product_id, part.part, part.digest, data, base, part.created_at)
                    for part, (data, base) in zip(some, packed, strict=True)
                ],
            )
            for row, part, (_, base) in zip(rows, some, packed, strict=True):
                if part.part is PartType.DETAIL and base is None:
                    self._deltas.keep(part.product_id, WholeDetail(row, part.body))

    def _pack(self, parts: Sequence[RawPart]) -> list[Packed]:
        """Compress bodies: a detail against the last whole one of its product, if that saves most of it."""
        details = [part.product_id for part in parts if part.part is PartType.DETAIL]
        bases, whole, packed = self._deltas.newest_bases(details), compressor(), list[Packed]()
        for part in parts:
            base = bases.get(part.product_id) if part.part is PartType.DETAIL else None
            delta = None if base is None else pack_delta(part.body, base)
            is_small = delta is not None and len(delta.data) <= len(part.body) * DELTA_SHARE
            packed.append(delta if delta is not None and is_small else Packed(whole.compress(part.body), None))
        return packed

    def latest_raws(
        self, product_ids: Sequence[ProductId], part: PartType | None = None
    ) -> dict[ProductId, dict[PartType, bytes]]:
        found: dict[ProductId, dict[PartType, bytes]] = {product_id: {} for product_id in product_ids}
        if product_ids:
            sql = LATEST_RAWS.replace("{of_a_part}", "AND data_type = :part" if part else "")
            rows = self._db.rows(sql, {"part": part} if part else {}, product_ids=product_ids)
            bodies = self._deltas.unpack([(row[3], row[4]) for row in rows], "product_raw_data")
            for (product_id, of, row, _, base), body in zip(rows, bodies, strict=True):
                found[ProductId(product_id)][PartType(of)] = body
                if base is None and of == PartType.DETAIL:
                    self._deltas.keep(ProductId(product_id), WholeDetail(row, body))
        return found

    def bodies_of(self, product_id: ProductId, part: PartType | None, limit: int) -> Sequence[StoredBody]:
        sql = BODIES_OF.replace("{of_a_part}", "AND data_type = :part" if part else "")
        rows = self._db.rows(sql, {"product_id": product_id, "part": part, "limit": limit})
        bodies = self._deltas.unpack([(row[3], row[4]) for row in rows], "product_raw_data")
        return [StoredBody(PartType(row[0]), row[1], body, row[2]) for row, body in zip(rows, bodies, strict=True)]

    def old_raws(self, before: datetime, limit: int) -> Sequence[int]:
        return [row[0] for row in self._db.rows(OLD_RAWS, {"before": before, "limit": limit})]

    def forget_raws(self, rows: Sequence[int]) -> int:
        return self._db.run("DELETE FROM product_raw_data WHERE id IN (:rows)", rows=rows)

    def body_hashes(self, items: Sequence[ItemNo]) -> dict[PartKey, str]:
        found: dict[PartKey, str] = {}
        for item, detail, option in self._db.rows(BODY_HASHES, items=items) if items else ():
            if detail is not None:
                found[ItemNo(item), PartType.DETAIL] = detail
            if option is not None:
                found[ItemNo(item), PartType.OPTION] = option
        return found

    def keep_body_hashes(self, hashes: Mapping[PartKey, str]) -> None:
        self._db.many(
            KEEP_BODY_HASHES,
            [
                (item, hashes.get((item, PartType.DETAIL)), hashes.get((item, PartType.OPTION)))
                for item in dict.fromkeys(item for item, _ in hashes)
            ],
        )

    def forget_body_hashes(self, items: Sequence[ItemNo]) -> None:
        self._db.run(FORGET_BODY_HASHES, items=items)


def _product(row: AnyRow) -> Product:
    return Product(**PRODUCT.by_name(row))
