"""Named statements: SQL as text with `:name` parameters, passed to the driver.

SQLAlchemy opens connections, pools them and ends transactions; a statement does not pass through it, because its result
objects cost more than most of our statements do. Names are for readers: the driver gets `?` and tuples, because it
would look up every name for every row.

A statement is written once, in the SQL that SQLite and MySQL share plus SQLite's `ON CONFLICT`. `mysql.py` has the same
class for MySQL; it translates a text when it is first used. SQLite has one writer, so rows need no lock there; on MySQL
`hold` and `take` lock them.
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

#: For statements without parameters; never changed.
NONE: Params = {}

#: Execution option of a connection that only reads: its transaction takes no write lock.
READS_ONLY = "sellerwatch_reads_only"


class Db:
    """One connection inside one transaction. A parameter named in `in_list` is a list: `IN (:items)` takes any
    number."""

    __slots__ = ("_cursor",)

    #: Others may write between two of our statements; here they cannot.
    shared = False

    def __init__(self, connection: Connection) -> None:
        self._cursor: Any = connection.connection.cursor()

    def rows(self, sql: str, params: Params = NONE, **in_lists: Sequence[Any]) -> Sequence[AnyRow]:
        self._cursor.execute(*bound(sql, params, in_lists))
        found: Sequence[AnyRow] = self._cursor.fetchall()
        return found

    #: Rows that are about to be changed, locked until this transaction ends.
    hold = rows
    #: The same, without rows that another transaction has locked: they are skipped, not waited for.
    take = rows

    def row(self, sql: str, params: Params = NONE) -> AnyRow | None:
        """Return the first row and close the statement."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def hold_row(self, sql: str, params: Params = NONE) -> AnyRow | None:
        found = self.hold(sql, params)
        return found[0] if found else None

    def value(self, sql: str, params: Params = NONE) -> Any:
        found = self.rows(sql, params)
        return found[0][0] if found else None

    def run(self, sql: str, params: Params = NONE, **in_lists: Sequence[Any]) -> int:
        """Run the statement and return the number of rows it touched."""
        touched: int = self._cursor.execute(*bound(sql, params, in_lists)).rowcount
        return touched

    def many(self, sql: str, params: Iterable[Given]) -> int:
        """Run the statement for many rows in one call of the driver; return the number of rows it touched."""
        rows: list[Any] = list(params)
        if not rows:
            return 0
        if isinstance(rows[0], dict):
            sql, values = _positional(sql)
            rows = list(map(values, rows))
        touched: int = self._cursor.executemany(sql, rows).rowcount
        return touched

    def insert(self, sql: str, params: Sequence[Given]) -> range:
        """Insert rows and return their ids, which are consecutive inside SQLite's one write transaction."""
        self.many(sql, params)
        last = self.value("SELECT last_insert_rowid()")
        return range(last - len(params) + 1, last + 1)

    def highest(self, table: str) -> int:
        """Return the highest id that a table ever assigned, deleted rows included. Its ids must never be reused."""
        return int(self.value("SELECT seq FROM sqlite_sequence WHERE name = :table", {"table": table}) or 0)


class Repository:
    """A table, or several that belong together, inside one transaction. What each does is documented at its port."""

    def __init__(self, db: Db) -> None:
        self._db = db


# What is quoted is no name.
_NAME = re.compile(r"'[^']*'|:([a-z]\w*)")


@lru_cache(512)
def _positional(sql: str) -> tuple[str, Callable[[Params], AnyRow]]:
    """Return the statement with a `?` for every name, and a function that reads their values from the parameters."""
    text, names = _with_lists(sql, ())
    # Of one name alone itemgetter gives the value and no tuple of it.
    values = itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[name] for name in names)
    return text, cast("Callable[[Params], AnyRow]", values)


@lru_cache(512)
def _with_lists(sql: str, lengths: tuple[tuple[str, int], ...]) -> tuple[str, tuple[str, ...]]:
    """Return the statement with one `?` for a name and as many as needed for a list, and the names in order."""
    names: list[str] = []
    marks = {name: ", ".join("?" * length) or "NULL" for name, length in lengths}

    def marked(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        names.append(found[1])
        return marks.get(found[1], "?")

    return _NAME.sub(marked, sql), tuple(names)


def _filled(items: Sequence[Any]) -> Sequence[Any]:
    """Return the items filled up to the next power of two."""
    if not items:
        return items
    lacking = (1 << (len(items) - 1).bit_length()) - len(items)
    return [*items, *[items[-1]] * lacking]


def bound(sql: str, params: Params, in_lists: Mapping[str, Sequence[Any]]) -> tuple[str, AnyRow]:
    """Return the statement with a `?` for every name, and the values in order. Lists are filled up with their last
    item, so that few different texts reach the driver's statement cache."""
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
    """Return the `Db` for the engine of this connection."""
    if connection.dialect.name != "mysql":
        return Db(connection)
    from sellerwatch.adapters.sql.mysql import MysqlDb  # noqa: PLC0415 - only with MySQL

    return MysqlDb(connection, only_reads=bool(connection.get_execution_options().get(READS_ONLY)))
