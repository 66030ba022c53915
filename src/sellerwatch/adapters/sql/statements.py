"""Named statements: SQL as text with `:name` parameters, run by the driver without an ORM or a compiler in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

Params = Mapping[str, Any]
AnyRow = Row[*tuple[Any, ...]]


class Db:
    """One connection inside one transaction. `in_list` names are lists: `IN (:items)` takes as many as are given."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, params: Params | None = None, **in_lists: Sequence[Any]) -> Sequence[AnyRow]:
        statement, values = _expanded(sql, params or {}, in_lists)
        return self._connection.exec_driver_sql(statement, values).fetchall()

    def row(self, sql: str, params: Params | None = None) -> AnyRow | None:
        return self._connection.exec_driver_sql(sql, dict(params or {})).fetchone()

    def value(self, sql: str, params: Params | None = None) -> Any:
        found = self.row(sql, params)
        return None if found is None else found[0]

    def run(self, sql: str, params: Params | None = None, **in_lists: Sequence[Any]) -> int:
        """Rows touched."""
        statement, values = _expanded(sql, params or {}, in_lists)
        return self._connection.exec_driver_sql(statement, values).rowcount

    def many(self, sql: str, params: Iterable[Params]) -> int:
        """The same statement for many rows, in one call of the driver; says how many rows it touched."""
        rows = [dict(p) for p in params]
        return self._connection.exec_driver_sql(sql, rows).rowcount if rows else 0

    def insert(self, sql: str, params: Sequence[Params]) -> range:
        """Insert rows and say their ids: inside SQLite's one writing transaction they follow one another."""
        self.many(sql, params)
        last = self._connection.exec_driver_sql("SELECT last_insert_rowid()").scalar_one()
        return range(last - len(params) + 1, last + 1)


def _expanded(sql: str, params: Params, in_lists: Mapping[str, Sequence[Any]]) -> tuple[str, dict[str, Any]]:
    values = dict(params)
    for name, items in in_lists.items():
        marks = [f"{name}_{i}" for i in range(len(items))]
        sql = sql.replace(f"(:{name})", f"({', '.join(f':{mark}' for mark in marks) or 'NULL'})")
        values.update(zip(marks, items, strict=True))
    return sql, values
