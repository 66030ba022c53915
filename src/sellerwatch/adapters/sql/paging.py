"""Read one page of a long list in SQL, at a bounded cost.

An index gives the order. A condition that no index serves is checked row by row, on at most `MAX_ROWS_SCANNED` rows for
a page. So the last page costs what the first does, and a filter that matches nothing cannot read the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sellerwatch.adapters.sql.statements import AnyRow, Db
from sellerwatch.kernel.paging import Cursor, Page

T = TypeVar("T")

MAX_ROWS_SCANNED = 5_000
#: Rows stand in the order of their numbers; their times, from several clocks, may disagree by up to this much.
SLACK = timedelta(minutes=1)


@dataclass(frozen=True)
class PageQuery:
    """The list to read. `within` are conditions that an index serves in the wanted order; `only`, by column, are
    conditions that are checked row by row. Both use the parameters in `given` and name the table `w`."""

    table: str
    given: Mapping[str, Any]
    within: Sequence[str] = ()
    only: Mapping[str, str] = field(default_factory=dict)
    time: str = "created_at"
    by_time: bool = False
    newest_first: bool = True
    since: datetime | None = None

    @property
    def _order(self) -> str:
        direction = "DESC" if self.newest_first else "ASC"
        return f"ORDER BY w.{self.time} {direction}, w.id {direction}" if self.by_time else f"ORDER BY w.id {direction}"

    def _behind(self, cursor: Cursor | None) -> list[str]:
        if cursor is None:
            return []
        sign = "<" if self.newest_first else ">"
        if not self.by_time:
            return [f"w.id {sign} :place_row"]
        # Not `(time, id) < (...)`: MySQL finds no cursor in an index by that.
        return [f"w.{self.time} {sign}= :place_at AND (w.{self.time} {sign} :place_at OR w.id {sign} :place_row)"]

    def ordered(self, cursor: Cursor | None, columns: str) -> str:
        """Return a SELECT of the rows after a cursor, in order."""
        conditions = [*self.within, *self._behind(cursor)]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {columns} FROM {self.table} w {where} {self._order}"

    def chosen(self, cursor: Cursor | None) -> str:
        if not self.only:
            return f"{self.ordered(cursor, 'w.id')} LIMIT :walk_limit"
        needed = dict.fromkeys(["id", *([self.time] if self.by_time else []), *self.only])
        columns = ", ".join(f"w.{name} AS {name}" for name in needed)
        looked_at = f"{self.ordered(cursor, columns)} LIMIT :walk_most"
        order = self._order
        return f"SELECT w.id FROM ({looked_at}) w WHERE {' AND '.join(self.only.values())} {order} LIMIT :walk_limit"


def read_page(
    db: Db, query: PageQuery, select: str, read: Callable[[AnyRow], T], *, cursor: Cursor | None, limit: int
) -> Page[T]:
    """Return the next entries after a cursor. `select` reads entries by their `rows`; each begins with its row
    number."""
    given = {
        **query.given,
        "walk_limit": limit + 1,
        "walk_most": MAX_ROWS_SCANNED,
        "walk_last": MAX_ROWS_SCANNED - 1,
        "place_at": None if cursor is None else cursor.at,
        "place_row": None if cursor is None else cursor.row,
    }
    found = db.rows(query.chosen(cursor), given)
    rows = [row[0] for row in found[:limit]]
    by_row = {row[0]: row[1:] for row in db.rows(select, rows=rows)} if rows else {}
    content = [read(by_row[row]) for row in rows]
    if len(found) > limit:
        return Page(content, _cursor_of(db, query, rows[-1]))
    return Page(content, _end_of_scan(db, query, given, cursor) if query.only else None)


def like(text: str) -> str:
    """Return the pattern of every text that contains this one, for `LIKE ... ESCAPE '!'`."""
    plain = text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{plain}%"


def of_seller(table: str, seller_id: str | None, status: str | None) -> PageQuery:
    """Return the query for a short list by seller and status; the first of the two that is given uses the index."""
    asked = {"seller_id": seller_id, "status": status}
    conditions = {name: f"w.{name} = :{name}" for name, value in asked.items() if value is not None}
    within = [conditions.pop(next(iter(conditions)))] if conditions else []
    return PageQuery(table, asked, within, conditions)


def _end_of_scan(db: Db, query: PageQuery, given: Mapping[str, Any], cursor: Cursor | None) -> Cursor | None:
    """Return where the scan stopped before the end of the list; None at the end, or where the rest is too old."""
    last = f"{query.ordered(cursor, 'w.id')} LIMIT 1 OFFSET :walk_last"
    row = db.value(last, given)
    end = None if row is None else _cursor_of(db, query, row)
    return None if end is None or (query.since is not None and end.at < query.since - SLACK) else end


def _cursor_of(db: Db, query: PageQuery, row: int) -> Cursor:
    return Cursor(db.value(f"SELECT {query.time} FROM {query.table} WHERE id = :row", {"row": row}), row)
