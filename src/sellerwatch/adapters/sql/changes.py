"""The feed of changes in SQL. A row names a change; its values are in the entry of the history that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.deltas import Deltas
from sellerwatch.adapters.sql.history import LONGEST_FIELD, read_changes
from sellerwatch.adapters.sql.paging import PageQuery, read_page
from sellerwatch.adapters.sql.statements import AnyRow, Db, Repository
from sellerwatch.catalog.changes import ChangeFilter, FoundProducts, ListedChange
from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId
from sellerwatch.kernel.paging import Cursor, Page

ROW = """
SELECT c.id, c.item_no, p.name, c.seller_id, c.kind, c.field, h.event_type, h.changes, h.base_id, c.created_at,
    c.execution_id
FROM changes c JOIN product_changes h ON h.id = c.history_id LEFT JOIN products p ON p.item_no = c.item_no
WHERE c.id IN (:rows)
"""

# A product that is new in a run is not counted as changed too.
FOUND = """
SELECT COALESCE(SUM(is_new), 0), COALESCE(SUM(is_new = 0 AND is_gone = 0), 0), COALESCE(SUM(is_gone), 0) FROM (
    SELECT MAX(kind = 'new') AS is_new, MAX(kind = 'gone') AS is_gone FROM changes
    WHERE execution_id = :execution_id GROUP BY item_no) AS items
"""

# Listed by the run, both parts read since it began and taken in, and nothing differed. From the products: they are half
# as many as the tasks and a third as large.
UNCHANGED = """
SELECT COUNT(*) FROM products WHERE seller_id = :seller_id AND last_seen_execution = :execution_id
    AND detail_read_at >= :since AND option_read_at >= :since
    AND item_no NOT IN (SELECT item_no FROM changes WHERE execution_id = :execution_id)
"""

BY_KIND = """
SELECT kind, COUNT(*) FROM changes
WHERE seller_id = :seller_id AND created_at >= :since AND created_at < :until GROUP BY kind
"""


class SqlChanges(Repository):
    def __init__(self, db: Db, deltas: Deltas) -> None:
        super().__init__(db)
        self._deltas = deltas

    def page(self, choice: ChangeFilter, cursor: Cursor | None, limit: int) -> Page[ListedChange]:
        page = read_page(self._db, _way(choice), ROW, tuple, cursor=cursor, limit=limit)
        texts = self._deltas.unpack([(row[6], row[7]) for row in page.content], "product_changes")
        return Page([_listed(row, text) for row, text in zip(page.content, texts, strict=True)], page.next)

    def found_by(self, execution_id: ExecutionId, seller_id: SellerId, since: datetime) -> FoundProducts:
        given = {"execution_id": execution_id, "seller_id": seller_id, "since": since}
        new, changed, gone = map(int, self._db.row(FOUND, given) or (0, 0, 0))
        return FoundProducts(new, changed, gone, int(self._db.value(UNCHANGED, given)))

    def count_by_kind(self, seller_id: SellerId, since: datetime, until: datetime) -> Mapping[ChangeKind, int]:
        rows = self._db.rows(BY_KIND, {"seller_id": seller_id, "since": since, "until": until})
        return {ChangeKind(kind): number for kind, number in rows}


def _way(choice: ChangeFilter) -> PageQuery:
    """Go by the index of the run or of the seller; what neither serves is looked at row by row."""
    kinds = {f"kind_{number}": str(kind) for number, kind in enumerate(choice.kinds)}
    asked = {
        "execution_id": choice.execution_id and "w.execution_id = :execution_id",
        "seller_id": choice.seller_id and "w.seller_id = :seller_id",
        "kind": kinds and f"w.kind IN ({', '.join(f':{name}' for name in kinds)})",
        "item_no": choice.item_no and "w.item_no = :item_no",
        "created_at": " AND ".join(_times(choice)),
    }
    only = {name: condition for name, condition in asked.items() if condition}
    given: dict[str, Any] = {**_values(choice), **kinds}
    if choice.execution_id is not None:
        found_by = ["execution_id", *(["kind"] if len(kinds) == 1 else [])]
        return PageQuery("changes", given, [only.pop(name) for name in found_by], only)
    if choice.seller_id is not None:
        found_by = ["seller_id", *(["kind"] if len(kinds) == 1 else []), "created_at"]
        within = [only.pop(name) for name in found_by if name in only]
        return PageQuery("changes", given, within, only, by_time=True)
    return PageQuery("changes", given, (), only, since=choice.since)


def _values(choice: ChangeFilter) -> dict[str, Any]:
    return {
        "execution_id": choice.execution_id,
        "seller_id": choice.seller_id,
        "item_no": choice.item_no,
        "since": choice.since,
        "until": choice.until,
    }


def _times(choice: ChangeFilter) -> Iterable[str]:
    if choice.since is not None:
        yield "w.created_at >= :since"
    if choice.until is not None:
        yield "w.created_at < :until"


def _listed(row: AnyRow, text: bytes) -> ListedChange:
    item_no, name, seller_id, kind, field, event, _, _, at, execution_id = row
    before = after = None
    if ProductEvent(event) is ProductEvent.UPDATED:
        found = next((change for change in read_changes(text) if change.field[:LONGEST_FIELD] == field), None)
        before, after = (None, None) if found is None else (found.before, found.after)
    return ListedChange(
        item_no=ItemNo(item_no),
        name=name,
        seller_id=SellerId(seller_id),
        kind=ChangeKind(kind),
        field=field,
        before=before,
        after=after,
        at=at,
        execution_id=None if execution_id is None else ExecutionId(execution_id),
    )
