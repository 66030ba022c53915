"""MySQL 8 and MariaDB: opening a connection, the meaning of errors, and our statements in their dialect.

Imported only where such a database is configured. A transaction that writes is READ COMMITTED: each statement sees what
others have committed, and no gap is locked. Rows that must not change meanwhile are locked by name (`Db.hold`, in the
order of docs/scale.md). A transaction that reads is a snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pymysql
from pymysql.constants import CLIENT, CR, ER, FIELD_TYPE
from pymysql.converters import conversions
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from sellerwatch.adapters.sql.statements import NONE, AnyRow, Db, Given, Params, bound

CONNECT_SECONDS = 5
#: A server that is silent for longer than this within one statement counts as gone.
READ_SECONDS = 30
#: Shorter than that, so that the server refuses a transaction that waits for a row.
LOCK_WAIT_SECONDS = 10

# Strict: what does not fit is an error, not cut off. Ids of one INSERT follow one another, so a step of one.
_SESSION = f"""SET SESSION time_zone = '+00:00', innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS},
    lock_wait_timeout = {LOCK_WAIT_SECONDS},
    auto_increment_increment = 1, auto_increment_offset = 1,
    sql_mode = 'STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO'"""

_WRITES = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT"

#: Some MB below the smallest max_allowed_packet that servers come with.
_LONGEST = 1_000_000
_STATEMENTS_AT_ONCE = 200

_TIMES_KNOWN = 4_096

_SHUT_DOWN = 1053
_KILLED = 1927
_IDLE_TOO_LONG = 4031
_LOST = frozenset(
    {
        0,
        CR.CR_SERVER_GONE_ERROR,
        CR.CR_SERVER_LOST,
        CR.CR_SERVER_LOST_EXTENDED,
        _SHUT_DOWN,
        _KILLED,
        _IDLE_TOO_LONG,
    }
)
# A duplicate means that somebody else was faster between our look and our INSERT: run again, the look finds it.
_RUN_AGAIN = frozenset({ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.DUP_ENTRY})
_UNUSABLE = {
    CR.CR_CONN_HOST_ERROR: "no server answers there; start it, or mend SELLERWATCH_DATABASE_URL",
    CR.CR_UNKNOWN_HOST: "there is no such host; mend SELLERWATCH_DATABASE_URL",
    ER.ACCESS_DENIED_ERROR: "the server refuses this user or password; mend SELLERWATCH_DATABASE_URL",
    ER.DBACCESS_DENIED_ERROR: "this user may not use that database; GRANT it the rights, or mend "
    "SELLERWATCH_DATABASE_URL",
    ER.BAD_DB_ERROR: "the server has no such database; make it with CREATE DATABASE ... CHARACTER SET utf8mb4",
    ER.CON_COUNT_ERROR: "the server has no connection left; raise its max_connections",
    ER.DISK_FULL: "the server's disk is full",
    ER.RECORD_FILE_FULL: "the server's disk is full",
    ER.OPTION_PREVENTS_STATEMENT: "the server takes no writes; it is read-only",
    ER.LOCK_DEADLOCK: "others were in the way again and again",
    ER.LOCK_WAIT_TIMEOUT: "somebody holds a row for too long",
    **dict.fromkeys(_LOST, "the connection was lost"),
}


def open_engine(url: URL, connections: int, *, patient: bool) -> Engine:
    """Return an engine. `patient`: a statement, such as a change of a large table, may take any time."""
    engine = create_engine(
        url.set(drivername="mysql+pymysql"),
        pool_size=connections,
        max_overflow=2,
        pool_timeout=READ_SECONDS,
        # One packet to and fro each time a connection is taken from the pool: after a restart of the server, dead
        # connections are replaced.
        pool_pre_ping=True,
        pool_use_lifo=True,
        connect_args={
            "charset": "utf8mb4",
            "collation": "utf8mb4_bin",
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": None if patient else READ_SECONDS,
            "write_timeout": READ_SECONDS,
            "client_flag": CLIENT.MULTI_STATEMENTS | CLIENT.FOUND_ROWS,
            "conv": _conversions(),
        },
    )
    event.listen(engine, "connect", lambda connection, _: _prepare(connection))
    return engine


def begin_snapshot(connection: Connection) -> None:
    cursor = connection.connection.cursor()
    with _raised():
        cursor.execute(_SNAPSHOT)
        cursor.nextset()
    cursor.close()


def is_lost(error: object) -> bool:
    """Return whether the connection is gone; it is then unknown whether its last statement took effect."""
    return _code(error) in _LOST if isinstance(error, pymysql.Error) else isinstance(error, OSError)


def may_run_again(error: object) -> bool:
    return isinstance(error, pymysql.Error) and (_code(error) in _RUN_AGAIN or is_lost(error))


def trouble(error: object) -> str | None:
    """Return what is wrong with the server and how to fix it; None where the statement is at fault."""
    return _UNUSABLE.get(_code(error)) if isinstance(error, pymysql.Error) else None


class MysqlDb(Db):
    """`Db` for MySQL: the same statements and parameters, in its dialect."""

    __slots__ = ("_only_reads",)

    shared = True

    def __init__(self, connection: Connection, *, only_reads: bool) -> None:
        super().__init__(connection)
        self._only_reads = only_reads

    def rows(self, sql: str, params: Params = NONE, **in_lists: Sequence[Any]) -> Sequence[AnyRow]:
        return self._found("", sql, params, in_lists)

    def hold(self, sql: str, params: Params = NONE, **in_lists: Sequence[Any]) -> Sequence[AnyRow]:
        return self._found("" if self._only_reads else " FOR UPDATE", sql, params, in_lists)

    def take(self, sql: str, params: Params = NONE, **in_lists: Sequence[Any]) -> Sequence[AnyRow]:
        return self._found("" if self._only_reads else " FOR UPDATE SKIP LOCKED", sql, params, in_lists)

    def run(self, sql: str, params: Params = NONE, **in_lists: Sequence[Any]) -> int:
        return self._execute("", sql, params, in_lists)

    def many(self, sql: str, params: Iterable[Given]) -> int:
        """Run the statement for many rows: an INSERT as one statement, else many in one packet. Round trips cost
        most."""
        rows = list(params)
        if not rows:
            return 0
        parts = _parts(sql)
        texts = self._inserts(parts, rows) if parts.is_bulk else self._packets(parts, rows)
        touched = 0
        with _raised():
            for text in texts:
                touched += self._cursor.execute(text)
                while self._cursor.nextset():
                    touched += self._cursor.rowcount
        return touched

    def insert(self, sql: str, params: Sequence[Given]) -> range:
        """Run one INSERT; the server assigns consecutive ids."""
        (text,) = self._inserts(_parts(sql), list(params), longest=16 * _LONGEST)
        with _raised():
            self._cursor.execute(text)
        first: int = self._cursor.lastrowid
        return range(first, first + len(params))

    def highest(self, table: str) -> int:
        """Return the highest id, deleted rows left out: only an INSERT learns the server's counter."""
        key = "agent_id" if table == "user_agent_pool" else "id"
        return int(self.value(f"SELECT MAX({key}) FROM {table}") or 0)

    def _found(self, lock: str, sql: str, params: Params, in_lists: Any) -> Sequence[AnyRow]:
        self._execute(lock, sql, params, in_lists)
        found: Sequence[AnyRow] = self._cursor.fetchall()
        return found

    def _execute(self, lock: str, sql: str, params: Params, in_lists: Any) -> int:
        sql, given = bound(sql, params, in_lists)
        with _raised():
            touched: int = self._cursor.execute(_parts(sql).whole + lock, given)
        return touched

    def _inserts(self, parts: _Parts, rows: Sequence[Any], longest: int = _LONGEST) -> Iterator[str]:
        values: list[str] = []
        length = 0
        for row in rows:
            value = self._cursor.mogrify(parts.values, row)
            if values and length + len(value) > longest:
                yield f"{parts.head}{','.join(values)}{parts.tail}"
                values, length = [], 0
            values.append(value)
            length += len(value)
        yield f"{parts.head}{','.join(values)}{parts.tail}"

    def _packets(self, parts: _Parts, rows: Sequence[Any]) -> Iterator[str]:
        for first in range(0, len(rows), _STATEMENTS_AT_ONCE):
            piece = rows[first : first + _STATEMENTS_AT_ONCE]
            yield ";".join(self._cursor.mogrify(parts.whole, row) for row in piece)


@dataclass(frozen=True)
class _Parts:
    """A statement in MySQL's dialect. Of an INSERT also the parts before, inside and after its values."""

    whole: str
    head: str = ""
    values: str = ""
    tail: str = ""

    @property
    def is_bulk(self) -> bool:
        return bool(self.values) and "%" not in self.tail


_INSERT = re.compile(r"\s*(INSERT INTO .+? VALUES )(\([^()]*\))(.*)", re.DOTALL)
_SPELLING = re.compile(
    r"""'(?:[^']|'')*' | :(?P<name>\w+) | (?P<mark>\?) | (?P<percent>%) | excluded\.(?P<excluded>\w+)
    | \s* ON\ CONFLICT\ \([^)]*\)\ DO\ (?P<clash>NOTHING|UPDATE\ SET)""",
    re.VERBOSE,
)


@lru_cache(1_024)
def _parts(sql: str) -> _Parts:
    ignores = "DO NOTHING" in sql
    found = _INSERT.fullmatch(" ".join(sql.split())) if "INSERT INTO" in sql else None
    if found is None:
        return _Parts(_in_dialect(sql))
    head, values, tail = (_in_dialect(part) for part in found.groups())
    if ignores:
        head = head.replace("INSERT INTO", "INSERT IGNORE INTO", 1)
    return _Parts(f"{head}{values}{tail}", head, values, tail)


def _in_dialect(sql: str) -> str:
    return _SPELLING.sub(_respelled, sql)


def _respelled(match: re.Match[str]) -> str:
    if match["name"]:
        return f"%({match['name']})s"
    if match["mark"]:
        return "%s"
    if match["percent"]:
        return "%%"
    if match["excluded"]:
        return f"VALUES({match['excluded']})"
    if match["clash"] == "NOTHING":
        return ""
    if match["clash"]:
        return " ON DUPLICATE KEY UPDATE"
    return match[0].replace("%", "%%")


@contextmanager
def _raised() -> Iterator[None]:
    """Raise the driver's errors as SQLAlchemy does, so that callers catch one kind."""
    try:
        yield
    except pymysql.Error as error:
        raise DBAPIError.instance(None, None, error, pymysql.Error) from error


def _code(error: object) -> int:
    args = getattr(error, "args", ())
    return args[0] if args and isinstance(args[0], int) else 0


def _prepare(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SESSION)
        cursor.execute(_WRITES)


def _conversions() -> dict[Any, Any]:
    return {
        **conversions,
        datetime: _time_as_text,
        FIELD_TYPE.DATETIME: _time_from_text,
        FIELD_TYPE.TIMESTAMP: _time_from_text,
        # SUM and AVG are decimals here; nothing of ours is.
        FIELD_TYPE.DECIMAL: _number,
        FIELD_TYPE.NEWDECIMAL: _number,
    }


@lru_cache(_TIMES_KNOWN)
def _as_text(time: datetime) -> str:
    if time.tzinfo is None:
        raise ValueError(f"a time without a zone: {time!r}")
    return f"'{time.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'microseconds')}'"


def _time_as_text(time: datetime, _: object = None) -> str:
    return _as_text(time)


@lru_cache(_TIMES_KNOWN)
def _time_from_text(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
