"""A long list piece by piece in SQL, at a price that is known beforehand.

An index gives the order; what no index serves is looked at row by row, and at most `MOST_LOOKED_AT` rows for one piece.
So the last piece costs what the first does, and a filter that fits nothing cannot read the whole table in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sellerwatch.adapters.sql.statements import AnyRow, Db
from sellerwatch.kernel.paging import Cursor, Page

T = TypeVar("T")

MOST_LOOKED_AT = 5_000
#: Rows stand in the order of their numbers; their times, from several clocks, may disagree by so much.
SLACK = timedelta(minutes=1)


@dataclass(frozen=True)
class Walk:
    """What is walked. `within` is what an index serves in the wanted order, `only` (by column) what is looked at row by
    row; both use the names of `given`, and call the table `w`."""

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
        way = "DESC" if self.newest_first else "ASC"
        return f"ORDER BY w.{self.time} {way}, w.id {way}" if self.by_time else f"ORDER BY w.id {way}"

    def _behind(self, cursor: Cursor | None) -> list[str]:
        if cursor is None:
            return []
        sign = "<" if self.newest_first else ">"
        if not self.by_time:
            return [f"w.id {sign} :place_row"]
        # Not `(time, id) < (...)`: MySQL finds no cursor in an index by that.
        return [f"w.{self.time} {sign}= :place_at AND (w.{self.time} {sign} :place_at OR w.id {sign} :place_row)"]

    def ordered(self, cursor: Cursor | None, columns: str) -> str:
        """The rows behind a cursor, in order."""
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


def walk(db: Db, way: Walk, select: str, read: Callable[[AnyRow], T], *, cursor: Cursor | None, limit: int) -> Page[T]:
    """The next entries behind a cursor. `select` reads the entries by their `rows`, each with its number first."""
    given = {
        **way.given,
        "walk_limit": limit + 1,
        "walk_most": MOST_LOOKED_AT,
        "walk_last": MOST_LOOKED_AT - 1,
        "place_at": None if cursor is None else cursor.at,
        "place_row": None if cursor is None else cursor.row,
    }
    found = db.rows(way.chosen(cursor), given)
    rows = [row[0] for row in found[:limit]]
    by_row = {row[0]: row[1:] for row in db.rows(select, rows=rows)} if rows else {}
    content = [read(by_row[row]) for row in rows]
    if len(found) > limit:
        return Page(content, _place(db, way, rows[-1]))
    return Page(content, _end_of_looking(db, way, given, cursor) if way.only else None)


def like(text: str) -> str:
    """The pattern of everything that has this piece in it, for `LIKE ... ESCAPE '!'`."""
    plain = text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{plain}%"


def of_seller(table: str, seller_id: str | None, status: str | None) -> Walk:
    """One of the smaller lists: by seller and state, of which the first that is given finds the rows."""
    asked = {"seller_id": seller_id, "status": status}
    conditions = {name: f"w.{name} = :{name}" for name, value in asked.items() if value is not None}
    within = [conditions.pop(next(iter(conditions)))] if conditions else []
    return Walk(table, asked, within, conditions)


def _end_of_looking(db: Db, way: Walk, given: Mapping[str, Any], cursor: Cursor | None) -> Cursor | None:
    """Where the looking stopped before the list did; None when all of it was seen, or the rest is too old."""
    last = f"{way.ordered(cursor, 'w.id')} LIMIT 1 OFFSET :walk_last"
    row = db.value(last, given)
    end = None if row is None else _place(db, way, row)
    return None if end is None or (way.since is not None and end.at < way.since - SLACK) else end


def _place(db: Db, way: Walk, row: int) -> Cursor:
    return Cursor(db.value(f"SELECT {way.time} FROM {way.table} WHERE id = :row", {"row": row}), row)
