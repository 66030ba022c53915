"""Compress texts that older versions stored, in SQL, a few rows at a time; `text_conversions` says how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.deltas import NOT_A_BASE, Deltas, WholeDetail, decompressor, pack_delta, unpack
from sellerwatch.adapters.sql.products import DELTA_SHARE
from sellerwatch.adapters.sql.statements import Db, Repository
from sellerwatch.kernel.ids import ProductId

NEXT = "SELECT table_name, after_row, last_row FROM text_conversions ORDER BY id LIMIT 1"

SAVE = "UPDATE text_conversions SET after_row = :row, updated_at = :now WHERE table_name = :table"

END = "DELETE FROM text_conversions WHERE table_name = :table"

PRODUCTS = """
SELECT product_id FROM products WHERE product_id IN (
    SELECT product_id FROM {table} WHERE id > :row AND id <= :until)
"""

# A detail that no text was compressed against, and the whole one before it.
DETAILS = f"""
SELECT old.id, old.product_id, old.raw_json, (
    SELECT MAX(b.id) FROM product_raw_data b WHERE b.product_id = old.product_id AND b.data_type = 'DETAIL'
        AND b.base_id IS NULL AND b.id < old.id)
FROM product_raw_data old
WHERE old.id > :row AND old.id <= :until AND old.data_type = 'DETAIL' AND old.base_id IS NULL AND {NOT_A_BASE}
ORDER BY old.id
"""

TEXTS = {
    "product_changes": "SELECT id, product_id, changes FROM product_changes",
    "product_outbox": "SELECT id, product_id, payload FROM product_outbox",
}
OF_ROWS = " WHERE id > :row AND id <= :until AND base_id IS NULL ORDER BY id"

STORE = {
    "product_raw_data": "UPDATE product_raw_data SET raw_json = ?, base_id = ? WHERE id = ?",
    "product_changes": "UPDATE product_changes SET changes = ?, base_id = ? WHERE id = ?",
    "product_outbox": "UPDATE product_outbox SET payload = ?, base_id = ? WHERE id = ?",
}


class SqlTextConversions(Repository):
    """Implements `catalog.ports.TextConversions`."""

    def __init__(self, db: Db, deltas: Deltas) -> None:
        super().__init__(db)
        self._deltas = deltas

    def are_pending(self) -> bool:
        return self._db.row(NEXT) is not None

    def convert_next(self, rows: int, now: datetime) -> bool:
        found = self._db.hold_row(NEXT)
        if found is None:
            return False
        table, after, last = found
        given = {"table": table, "row": after, "until": min(after + rows, last)}
        # Who writes a text of a product holds the product's row: nothing is compressed against what is converted here.
        self._db.hold(PRODUCTS.replace("{table}", table), given)
        converted = self._details(given) if table == "product_raw_data" else self._texts(table, given)
        self._db.many(STORE[table], converted)
        if given["until"] == last:
            self._db.run(END, given)
        else:
            self._db.run(SAVE, {"table": table, "row": given["until"], "now": now})
        return True

    def _details(self, given: dict[str, Any]) -> list[tuple[bytes, int, int]]:
        """Compress details against the whole one before them, one by one: each may be the base of the next."""
        converted, expand = list[tuple[bytes, int, int]](), decompressor()
        are_deltas = set[int]()
        for row, _, data, base in self._db.hold(DETAILS, given):
            text, body = unpack(data, expand), None if base is None else self._body(base)
            if text is None or body is None or base in are_deltas:
                continue
            delta = pack_delta(text, WholeDetail(base, body))
            if len(delta.data) <= len(text) * DELTA_SHARE:
                converted.append((delta.data, base, row))
                are_deltas.add(row)
        return converted

    def _texts(self, table: str, given: dict[str, Any]) -> Sequence[tuple[bytes, int | None, int]]:
        expand, found = decompressor(), list[tuple[int, ProductId, bytes]]()
        for row, product_id, stored in self._db.hold(TEXTS[table] + OF_ROWS, given):
            data = stored.encode() if isinstance(stored, str) else stored
            text = data if data.startswith(b"{") else unpack(data, expand)
            if text is not None:
                found.append((row, ProductId(product_id), text))
        packed = self._deltas.pack([(product_id, text) for _, product_id, text in found])
        return [(*text, row) for (row, _, _), text in zip(found, packed, strict=True)]

    def _body(self, row: int) -> bytes | None:
        data = self._db.value("SELECT raw_json FROM product_raw_data WHERE id = :row", {"row": row})
        return None if data is None else unpack(data, decompressor())
