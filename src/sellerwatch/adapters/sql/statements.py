"""Named statements: SQL as text with `:name` parameters, given to the driver itself.

SQLAlchemy opens, pools and ends; a statement does not pass through it. Its result objects would cost more than most of
our statements do. Names are for those who read: run for many rows a statement is given to the driver with `?` and
tuples, since it would look every name up anew for every row.

Statements are written once, in what SQLite and MySQL share and SQLite's own `ON CONFLICT`; `mysql.py` has the same
class for the other engine, which turns each text into its dialect the first time it is used. Where SQLite's one writer
makes a row ours by itself, the others are kept from it by name: `hold` and `take`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeVar, cast

from sqlalchemy import Connection

Params = Mapping[str, Any]
AnyRow = tuple[Any, ...]
Given = TypeVar("Given", Params, AnyRow)

#: For statements without parameters; nobody changes it.
NONE: Params = {}

#: Execution option of a connection that only reads: its transaction takes no write lock.
READS_ONLY = "sellerwatch_reads_only"


class Db:
    """One connection inside one transaction. `in_list` names are lists: `IN (:items)` takes as many as are given."""

    __slots__ = ("_cursor",)

    #: Others may be writing in between two of our statements; here nobody is.
    shared = False

    def __init__(self, connection: Connection) -> None:
        self._cursor: Any = connection.connection.cursor()

    def rows(self, sql: str, params: Params = NONE, **in_lists: Sequence[Any]) -> Sequence[AnyRow]:
        if in_lists:
            sql, params = expanded(sql, params, in_lists)
        self._cursor.execute(sql, params)
        found: Sequence[AnyRow] = self._cursor.fetchall()
        return found

    #: Rows that are about to be changed: nobody else changes them before this transaction ends.
    hold = rows
    #: The same, of rows that nobody holds: what others are at is passed over, not waited for.
    take = rows

    def row(self, sql: str, params: Params = NONE) -> AnyRow | None:
        """The first row; the statement is over then, so that none is left open."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def hold_row(self, sql: str, params: Params = NONE) -> AnyRow | None:
        found = self.hold(sql, params)
        return found[0] if found else None

    def value(self, sql: str, params: Params = NONE) -> Any:
        found = self.rows(sql, params)
        return found[0][0] if found else None

    def run(self, sql: str, params: Params = NONE, **in_lists: Sequence[Any]) -> int:
        """Rows touched."""
        if in_lists:
            sql, params = expanded(sql, params, in_lists)
        touched: int = self._cursor.execute(sql, params).rowcount
        return touched

    def many(self, sql: str, params: Iterable[Given]) -> int:
        """The same statement for many rows, in one call of the driver; says how many rows it touched."""
        rows: list[Any] = list(params)
        if not rows:
            return 0
        if isinstance(rows[0], dict):
            sql, values = _positional(sql)
            rows = list(map(values, rows))
        touched: int = self._cursor.executemany(sql, rows).rowcount
        return touched

    def insert(self, sql: str, params: Sequence[Given]) -> range:
        """Insert rows and say their ids: inside SQLite's one writing transaction they follow one another."""
        self.many(sql, params)
        last = self.value("SELECT last_insert_rowid()")
        return range(last - len(params) + 1, last + 1)

    def highest(self, table: str) -> int:
        """The highest id a table that never reuses one has given, rows since deleted included."""
        return int(self.value("SELECT seq FROM sqlite_sequence WHERE name = :table", {"table": table}) or 0)


_NAME = re.compile(r":([a-z]\w*)")


@lru_cache(256)
def _positional(sql: str) -> tuple[str, Callable[[Params], AnyRow]]:
    """The statement with a `?` for every name, and what takes their values out of a row."""
    names = _NAME.findall(sql)
    # Of one name alone itemgetter gives the value and no tuple of it.
    values = itemgetter(*names) if len(names) > 1 else lambda row: (row[names[0]],)
    return _NAME.sub("?", sql), cast("Callable[[Params], AnyRow]", values)


def open_db(connection: Connection) -> Db:
    """For the engine that the connection leads to."""
    if connection.dialect.name != "mysql":
        return Db(connection)
    from sellerwatch.adapters.sql.mysql import MysqlDb  # noqa: PLC0415 - the driver is for those who use it

    return MysqlDb(connection, only_reads=bool(connection.get_execution_options().get(READS_ONLY)))


def expanded(sql: str, params: Params, in_lists: Mapping[str, Sequence[Any]]) -> tuple[str, dict[str, Any]]:
    """The lists are filled up with their last item to a few lengths: few texts, which the driver knows by then."""
    values = dict(params)
    for name, items in in_lists.items():
        length = 1 << (len(items) - 1).bit_length() if items else 0
        sql, marks = _marked(sql, name, length)
        values.update(zip(marks, [*items, *[items[-1]] * (length - len(items))] if items else (), strict=True))
    return sql, values


@lru_cache(256)
def _marked(sql: str, name: str, length: int) -> tuple[str, tuple[str, ...]]:
    marks = tuple(f"{name}_{i}" for i in range(length))
    return sql.replace(f"(:{name})", f"({', '.join(f':{mark}' for mark in marks) or 'NULL'})"), marks
