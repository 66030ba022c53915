"""What waits for a decision of an operator, in SQL: quarantine cases with their held parts, removals, the drift
report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime

import zstandard

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.paging import of_seller, read_page
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.catalog.ports import PartKey, UnknownField
from sellerwatch.catalog.product import PartType
from sellerwatch.catalog.quarantine import Case, CaseKind, CaseStatus, HeldPart, HeldStatus
from sellerwatch.catalog.removal import Removal, RemovalReason, RemovalStatus
from sellerwatch.kernel.ids import CaseId, ExecutionId, ItemNo, RemovalId, SellerId
from sellerwatch.kernel.paging import Cursor, Page

CASE = Columns[Case](
    "quarantine",
    same="case_id seller_id execution_id kind field created_at updated_at status sample_before sample_after decided_by",
    named={"data_type": "part", "sample_item_no": "sample_item"},
    read_as={"part": PartType, "kind": CaseKind, "status": CaseStatus},
)
ADD_CASE = CASE.insert()

SAVE_CASE = """
UPDATE quarantine SET status = :status, updated_at = :updated_at, decided_by = :decided_by WHERE case_id = :case_id
"""

HELD_PART = Columns[HeldPart](
    "held_parts",
    same="item_no status case_id seller_id execution_id hash created_at",
    named={"data_type": "part"},
    read_as={"part": PartType, "status": HeldStatus},
)
HELD = f"SELECT {HELD_PART.listed}, {{body}} FROM held_parts"
ADD_HELD = HELD_PART.insert(also="raw_json")

# A part has one row: what comes later takes its cursor.
PUT = f"""{ADD_HELD.sql}
ON CONFLICT (item_no, data_type) DO UPDATE SET status = excluded.status, case_id = excluded.case_id,
    seller_id = excluded.seller_id, execution_id = excluded.execution_id, hash = excluded.hash,
    raw_json = excluded.raw_json, created_at = excluded.created_at
"""

FREE = "DELETE FROM held_parts WHERE item_no = :item_no AND data_type = :part"

FREE_CASE = "DELETE FROM held_parts WHERE case_id = :case_id AND status = 'HELD'"

DROP = "UPDATE held_parts SET status = 'DROPPED', raw_json = NULL WHERE case_id = :case_id AND status = 'HELD'"

ITEMS_OF_CASE = """
SELECT item_no FROM held_parts WHERE case_id = :case_id AND status = 'HELD' ORDER BY item_no LIMIT :limit
"""

COUNT_HELD = """
SELECT case_id, COUNT(*) FROM held_parts WHERE case_id IN (:case_ids) AND status = 'HELD' GROUP BY case_id
"""

REMOVAL = Columns[Removal](
    "removals",
    same="removal_id seller_id execution_id reason told missing unseen_since created_at status decided_at decided_by",
    read_as={"reason": RemovalReason, "status": RemovalStatus},
)
ADD_REMOVAL = REMOVAL.insert()

SAVE_REMOVAL = """
UPDATE removals SET status = :status, decided_at = :decided_at, decided_by = :decided_by WHERE removal_id = :removal_id
"""

NOTE_DRIFT = """
INSERT INTO drift (endpoint, path, times, item_no, first_seen_at, last_seen_at)
VALUES (:endpoint, :path, 1, :item_no, :now, :now)
ON CONFLICT (endpoint, path) DO UPDATE SET times = drift.times + 1, last_seen_at = excluded.last_seen_at
"""

DRIFT = "SELECT endpoint, path, times, item_no, first_seen_at, last_seen_at FROM drift ORDER BY endpoint, path"

LONGEST_PATH = 255


class SqlQuarantine(Repository):
    def open_cases(self, seller_id: SellerId) -> Sequence[Case]:
        where = "WHERE seller_id = :seller_id AND status = 'OPEN' ORDER BY id"
        return [_case(row) for row in self._db.hold(f"{CASE.select} {where}", {"seller_id": seller_id})]

    def get(self, case_id: CaseId) -> Case | None:
        row = self._db.hold_row(f"{CASE.select} WHERE case_id = :case_id", {"case_id": case_id})
        return None if row is None else _case(row)

    def add(self, case: Case) -> None:
        self._db.many(ADD_CASE.sql, [ADD_CASE.values(case)])

    def save(self, case: Case) -> None:
        self._db.run(SAVE_CASE, asdict(case))

    def page(
        self, *, seller_id: SellerId | None, status: CaseStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Case]:
        query = of_seller("quarantine", seller_id, status)
        return read_page(self._db, query, CASE.select_rows, _case, cursor=cursor, limit=limit)

    def pending_runs(self) -> Sequence[ExecutionId]:
        rows = self._db.rows("SELECT DISTINCT execution_id FROM held_parts WHERE status = 'PENDING'")
        return [ExecutionId(row[0]) for row in rows]


class SqlHeldParts(Repository):
    def held(self, items: Sequence[ItemNo]) -> dict[PartKey, HeldPart]:
        sql = f"{HELD.replace('{body}', 'NULL')} WHERE item_no IN (:items)"
        found = [_held(row) for row in self._db.rows(sql, items=items)] if items else ()
        return {(part.item_no, part.part): part for part in found}

    def pending(self, execution_id: ExecutionId, part: PartType | None) -> Sequence[HeldPart]:
        where = "WHERE execution_id = :execution_id AND status = 'PENDING'"
        where += " AND data_type = :part" if part else ""
        return self._bodies(f"{where} ORDER BY id", execution_id=execution_id, part=part)

    def of_case(self, case_id: CaseId, after: ItemNo, limit: int) -> Sequence[HeldPart]:
        where = "WHERE case_id = :case_id AND status = 'HELD' AND item_no > :after ORDER BY item_no LIMIT :limit"
        return self._bodies(where, case_id=case_id, after=after, limit=limit)

    def items_of_case(self, case_id: CaseId, limit: int) -> Sequence[ItemNo]:
        return [ItemNo(row[0]) for row in self._db.rows(ITEMS_OF_CASE, {"case_id": case_id, "limit": limit})]

    def count_held(self, case_ids: Sequence[CaseId]) -> dict[CaseId, int]:
        rows = self._db.rows(COUNT_HELD, case_ids=case_ids) if case_ids else ()
        return {CaseId(row[0]): row[1] for row in rows}

    def put(self, parts: Iterable[HeldPart]) -> None:
        compress = zstandard.ZstdCompressor(level=1).compress
        self._db.many(PUT, [ADD_HELD.values(part, compress(part.body)) for part in parts])

    def free(self, keys: Iterable[PartKey]) -> None:
        self._db.many(FREE, [{"item_no": item, "part": part} for item, part in keys])

    def free_case(self, case_id: CaseId) -> int:
        return self._db.run(FREE_CASE, {"case_id": case_id})

    def drop(self, case_id: CaseId) -> int:
        return self._db.run(DROP, {"case_id": case_id})

    def _bodies(self, where: str, **given: object) -> Sequence[HeldPart]:
        return [_held(row) for row in self._db.rows(f"{HELD.replace('{body}', 'raw_json')} {where}", given)]


class SqlRemovals(Repository):
    def held_of(self, seller_id: SellerId) -> Removal | None:
        where = "WHERE seller_id = :seller_id AND status = 'HELD'"
        row = self._db.hold_row(f"{REMOVAL.select} {where}", {"seller_id": seller_id})
        return None if row is None else _removal(row)

    def get(self, removal_id: RemovalId) -> Removal | None:
        row = self._db.hold_row(f"{REMOVAL.select} WHERE removal_id = :removal_id", {"removal_id": removal_id})
        return None if row is None else _removal(row)

    def add(self, removal: Removal) -> None:
        self._db.many(ADD_REMOVAL.sql, [ADD_REMOVAL.values(removal)])

    def save(self, removal: Removal) -> None:
        self._db.run(SAVE_REMOVAL, asdict(removal))

    def page(
        self, *, seller_id: SellerId | None, status: RemovalStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Removal]:
        query = of_seller("removals", seller_id, status)
        return read_page(self._db, query, REMOVAL.select_rows, _removal, cursor=cursor, limit=limit)


class SqlDrift(Repository):
    def note(self, endpoint: str, paths: Iterable[str], item_no: ItemNo | None, now: datetime) -> None:
        given = {"endpoint": endpoint, "item_no": item_no, "now": now}
        self._db.many(NOTE_DRIFT, [given | {"path": path[:LONGEST_PATH]} for path in paths])

    def all(self) -> Sequence[UnknownField]:
        return [
            UnknownField(row[0], row[1], row[2], None if row[3] is None else ItemNo(row[3]), row[4], row[5])
            for row in self._db.rows(DRIFT)
        ]


def _case(row: AnyRow) -> Case:
    return Case(**CASE.by_name(row))


def _held(row: AnyRow) -> HeldPart:
    body = b"" if row[-1] is None else zstandard.ZstdDecompressor().decompress(row[-1])
    return HeldPart(body=body, **HELD_PART.by_name(row))


def _removal(row: AnyRow) -> Removal:
    return Removal(**REMOVAL.by_name(row))
