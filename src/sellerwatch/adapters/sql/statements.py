"""Named statements: SQL as text with `:name` parameters, given to the driver itself.

SQLAlchemy opens, pools and ends; a statement does not pass through it. Its result objects would cost more than most of
our statements do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

Params = Mapping[str, Any]
AnyRow = tuple[Any, ...]

_NONE: Params = {}


class Db:
    """One connection inside one transaction. `in_list` names are lists: `IN (:items)` takes as many as are given."""

    __slots__ = ("_cursor",)

    def __init__(self, connection: Connection) -> None:
        self._cursor: Any = connection.connection.cursor()

    def rows(self, sql: str, params: Params = _NONE, **in_lists: Sequence[Any]) -> Sequence[AnyRow]:
        if in_lists:
            sql, params = _expanded(sql, params, in_lists)
        self._cursor.execute(sql, params)
        found: Sequence[AnyRow] = self._cursor.fetchall()
        return found

    def row(self, sql: str, params: Params = _NONE) -> AnyRow | None:
        """The first row; the statement is over then, so that none is left open."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def value(self, sql: str, params: Params = _NONE) -> Any:
        found = self.rows(sql, params)
        return found[0][0] if found else None

    def run(self, sql: str, params: Params = _NONE, **in_lists: Sequence[Any]) -> int:
        """Rows touched."""
        if in_lists:
            sql, params = _expanded(sql, params, in_lists)
        touched: int = self._cursor.execute(sql, params).rowcount
        return touched

    def many(self, sql: str, params: Iterable[Params]) -> int:
        """The same statement for many rows, in one call of the driver; says how many rows it touched."""
        rows = list(params)
        touched: int = self._cursor.executemany(sql, rows).rowcount if rows else 0
        return touched

    def insert(self, sql: str, params: Sequence[Params]) -> range:
        """Insert rows and say their ids: inside SQLite's one writing transaction they follow one another."""
        self.many(sql, params)
        last = self.value("SELECT last_insert_rowid()")
        return range(last - len(params) + 1, last + 1)


def _expanded(sql: str, params: Params, in_lists: Mapping[str, Sequence[Any]]) -> tuple[str, dict[str, Any]]:
    values = dict(params)
    for name, items in in_lists.items():
        marks = [f"{name}_{i}" for i in range(len(items))]
        sql = sql.replace(f"(:{name})", f"({', '.join(f':{mark}' for mark in marks) or 'NULL'})")
        values.update(zip(marks, items, strict=True))
    return sql, values
