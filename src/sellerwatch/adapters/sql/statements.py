"""Named statements: SQL as text with `:name` parameters, given to the driver itself.

SQLAlchemy opens, pools and ends; a statement does not pass through it. Its result objects would cost more than most of
our statements do. Names are for those who read: the driver is given `?` and tuples, since it would look every name up
anew for every row, and in a list of hundreds search for each from the first.

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
        self._cursor.execute(*bound(sql, params, in_lists))
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
        touched: int = self._cursor.execute(*bound(sql, params, in_lists)).rowcount
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


# What is quoted is no name.
_NAME = re.compile(r"'[^']*'|:([a-z]\w*)")


@lru_cache(512)
def _positional(sql: str) -> tuple[str, Callable[[Params], AnyRow]]:
    """The statement with a `?` for every name, and what takes their values out of a row."""
    text, names = _with_lists(sql, ())
    # Of one name alone itemgetter gives the value and no tuple of it.
    values = itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[name] for name in names)
    return text, cast("Callable[[Params], AnyRow]", values)


@lru_cache(512)
def _with_lists(sql: str, lengths: tuple[tuple[str, int], ...]) -> tuple[str, tuple[str, ...]]:
    """The statement with a `?` for every name, or as many as a list of that name has, and the names in their order."""
    names: list[str] = []
    marks = {name: ", ".join("?" * length) or "NULL" for name, length in lengths}

    def marked(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        names.append(found[1])
        return marks.get(found[1], "?")

    return _NAME.sub(marked, sql), tuple(names)


def _filled(items: Sequence[Any]) -> Sequence[Any]:
    """To the next power of two."""
    if not items:
        return items
    lacking = (1 << (len(items) - 1).bit_length()) - len(items)
    return [*items, *[items[-1]] * lacking]


def bound(sql: str, params: Params, in_lists: Mapping[str, Sequence[Any]]) -> tuple[str, AnyRow]:
    """The statement with a `?` for every name, and the values in their order. Lists are filled up with their last item
    to a few lengths: few texts, which the driver knows by then."""
    if not in_lists:
        text, values = _positional(sql)
        return text, values(params)
    filled = {name: _filled(items) for name, items in in_lists.items()}
    text, names = _with_lists(sql, tuple((name, len(items)) for name, items in filled.items()))
    given: list[Any] = []
    for name in names:
        given += filled[name] if name in filled else (params[name],)
    return text, tuple(given)


def open_db(connection: Connection) -> Db:
    """For the engine that the connection leads to."""
    if connection.dialect.name != "mysql":
        return Db(connection)
    from sellerwatch.adapters.sql.mysql import MysqlDb  # noqa: PLC0415 - the driver is for those who use it

    return MysqlDb(connection, only_reads=bool(connection.get_execution_options().get(READS_ONLY)))
