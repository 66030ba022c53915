"""How a database is opened, and where the engines differ (`mysql.py` is the other engine).

SQLite uses `isolation_level=None` and an explicit `BEGIN IMMEDIATE`: under the driver's implicit transactions, a read
that turns into a write is not isolated. WAL lets readers go on while the writer works. Times are stored as text of a
fixed width, so that they sort, and are read as aware times in UTC.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import StaticPool

from sellerwatch.adapters.sql.statements import READS_ONLY
from sellerwatch.catalog.product import PartType, ProductEvent
from sellerwatch.crawling.task import Purpose, TaskStatus, TaskType
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.store import StoreFailed

#: How long one try waits for another writer; a transaction tries again (`store.LOCKED_SECONDS`).
BUSY_TIMEOUT_MS = 2000
_TIMES_KNOWN = 4_096
#: What is text to a database: of the kinds that a crawl writes for every request.
_TEXTS: tuple[type[str], ...] = (TaskType, TaskStatus, Purpose, PartType, ProductEvent)

# SQLite's primary result codes; the extended ones have more above the low byte.
_UNUSABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)

#: What a database may raise, whichever way it was asked.
DRIVER_ERRORS = (DBAPIError, sqlite3.Error)


@dataclass(eq=False)
class DatabaseUnavailable(StoreFailed):
    """The database cannot be opened or does not answer."""

    where: str
    problem: str


@dataclass(eq=False)
class InvalidDatabaseUrl(Invalid):
    problem: str


def make_engine(url: str, *, synchronous: str = "NORMAL", connections: int = 8, patient: bool = False) -> Engine:
    """Return an engine for `sqlite:///path` or `mysql://user:password@host:port/database`, without opening or creating
    anything. `patient`: a statement at the server may take any time."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise InvalidDatabaseUrl(problem="it is no database address, such as sqlite:///sellerwatch.db") from None
    if parsed.drivername == "mysql":
        if not parsed.host or not parsed.database or any(not name.startswith("ssl") for name in parsed.query):
            raise InvalidDatabaseUrl(problem="a MySQL address is mysql://user:password@host:port/database")
        from sellerwatch.adapters.sql import mysql  # noqa: PLC0415 - only with MySQL

        engine = mysql.open_engine(parsed, connections, patient=patient)
        event.listen(engine, "begin", _begin)
        return engine
    if parsed.get_backend_name() != "sqlite":
        raise InvalidDatabaseUrl(
            problem=f"{parsed.get_backend_name()} is not served; use sqlite:///path, or mysql:// for MySQL and MariaDB"
        )
    if parsed.drivername != "sqlite" or parsed.host or parsed.username or parsed.query:
        raise InvalidDatabaseUrl(problem="an SQLite address is sqlite:///path and nothing more")
    _teach_sqlite()
    options: dict[str, Any] = {
        "native_datetime": True,
        "connect_args": {"detect_types": sqlite3.PARSE_DECLTYPES, "check_same_thread": False, "timeout": 0},
    }
    if parsed.database in (None, "", ":memory:"):
        options["poolclass"] = StaticPool
    else:
        options |= {"pool_size": connections, "max_overflow": 2}
    engine = create_engine(parsed, **options)
    event.listen(engine, "connect", lambda connection, _: _prepare(connection, synchronous))
    event.listen(engine, "begin", _begin)
    return engine


def check_reachable(engine: Engine) -> None:
    """Open the database once; refuse it in one sentence where that fails. An SQLite file is created."""
    path = database_path(engine)
    if path is not None and not path.parent.is_dir():
        raise DatabaseUnavailable(where=shown(engine), problem=f"the folder {path.parent} does not exist")
    if path is not None and path.exists() and not os.access(path, os.W_OK):
        raise DatabaseUnavailable(where=shown(engine), problem="the file is not writable")
    if path is not None and not path.exists() and not os.access(path.parent, os.W_OK):
        raise DatabaseUnavailable(where=shown(engine), problem=f"the folder {path.parent} is not writable")
    if path is not None and not path.exists():
        with suppress(OSError):
            # SQLite gives its other files the same mode. Others on the machine read nothing of it. Where no file can
            # be made, SQLite says so below.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with answering(engine), engine.connect().execution_options(**{READS_ONLY: True}) as connection:
        connection.exec_driver_sql("SELECT 1" if is_mysql(engine) else "SELECT count(*) FROM sqlite_master")


@contextmanager
def answering(engine: Engine) -> Iterator[None]:
    """Raise `DatabaseUnavailable` for a database that is locked, full, broken or gone. A wrong statement stays a
    bug."""
    try:
        yield
    except DRIVER_ERRORS as error:
        if not is_unusable(error):
            raise
        raise unavailable(engine, error) from error


def unavailable(engine: Engine, error: Exception) -> DatabaseUnavailable:
    """Return the refusal in one sentence. The server's own message is left out: it may name users and addresses."""
    return DatabaseUnavailable(where=shown(engine), problem=_trouble(error) or str(cause_of(error)))


def is_mysql(engine: Engine) -> bool:
    return engine.dialect.name == "mysql"


def database_path(engine: Engine) -> Path | None:
    """Return the file of an SQLite database; None in memory or at a server."""
    name = engine.url.database
    return None if is_mysql(engine) or name in (None, "", ":memory:") else Path(str(name)).absolute()


@contextmanager
def waiting_for_writers(connection: Connection, seconds: int) -> Iterator[None]:
    """Let each transaction of an SQLite connection wait that long for another writer, instead of BUSY_TIMEOUT_MS."""
    _set_busy_timeout(connection, seconds * 1000)
    try:
        yield
    finally:
        _set_busy_timeout(connection, BUSY_TIMEOUT_MS)


def _set_busy_timeout(connection: Connection, milliseconds: int) -> None:
    # On the driver's own cursor: SQLAlchemy would begin a transaction first.
    cursor = connection.connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={milliseconds}")
    cursor.close()


def shown(engine: Engine) -> str:
    """Return the configured address without its password."""
    return engine.url.set(drivername=engine.dialect.name).render_as_string(hide_password=True)


def cause_of(error: Exception) -> BaseException | None:
    """Return the driver's own error; errors on opening and ending a transaction wrap it."""
    return error.orig if isinstance(error, DBAPIError) else error


def is_transient(error: Exception) -> bool:
    """Return whether the same transaction can be run again: another writer was in the way and nothing was done."""
    cause = cause_of(error)
    if isinstance(cause, sqlite3.Error):
        return is_locked(error)
    from sellerwatch.adapters.sql import mysql  # noqa: PLC0415 - as in make_engine

    return mysql.may_run_again(cause)


def is_locked(error: Exception) -> bool:
    """Return whether another writer held the SQLite file."""
    cause = cause_of(error)
    return isinstance(cause, sqlite3.OperationalError) and ("locked" in str(cause) or "busy" in str(cause))


def is_lost(error: Exception) -> bool:
    """Return whether the connection to the server broke and cannot be used any more."""
    cause = cause_of(error)
    if isinstance(cause, sqlite3.Error):
        return False
    from sellerwatch.adapters.sql import mysql  # noqa: PLC0415 - as in make_engine

    return mysql.is_lost(cause)


def is_unusable(error: Exception) -> bool:
    """Return whether the database or the machine is at fault, not the statement."""
    return getattr(cause_of(error), "sqlite_errorcode", 0) & 0xFF in _UNUSABLE or _trouble(error) is not None


def _trouble(error: Exception) -> str | None:
    cause = cause_of(error)
    if cause is None or isinstance(cause, sqlite3.Error):
        return None
    from sellerwatch.adapters.sql import mysql  # noqa: PLC0415 - as in make_engine

    return mysql.trouble(cause)


def time_of(value: Any) -> datetime | None:
    """Return the time in an expression such as MIN(created_at), whose type the driver does not know."""
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


def _prepare(connection: Any, synchronous: str) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    # The journal's mode is written into the file, so it is set only where the file is ours: new, or migrated by us.
    tables = {name for (name,) in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        # Bodies and events fill whole pages: fewer and larger ones are cheaper to write. Only a new file takes it.
        cursor.execute("PRAGMA page_size=4096")
    if not tables or "alembic_version" in tables:
        cursor.execute("PRAGMA journal_mode=WAL")
    for pragma in (
        f"synchronous={synchronous}",
        "temp_store=MEMORY",
        # Pages that many groups write again and again reach the file once in a while, not with every fourth group.
        "wal_autocheckpoint=8000",
        "cache_size=-8000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    reads_only = connection.get_execution_options().get(READS_ONLY)
    if connection.dialect.name == "mysql":
        if reads_only:
            from sellerwatch.adapters.sql import mysql  # noqa: PLC0415 - as in make_engine

            mysql.begin_snapshot(connection)
        return
    # On the driver's own cursor: SQLAlchemy's way costs a third of a small transaction.
    cursor = connection.connection.cursor()
    cursor.execute("BEGIN" if reads_only else "BEGIN IMMEDIATE")
    cursor.close()


def _teach_sqlite() -> None:
    """Register our adapters with the sqlite3 module, for the whole process.

    For every value that is not exactly a str, int or float the driver first looks for an adapter, raising and catching
    an exception if there is none. With one registered, a None costs a third; a batch writes thousands.
    """
    sqlite3.register_adapter(datetime, _time_as_text)
    sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]  # finds nothing: None, without a call of ours
    sqlite3.register_adapter(bytes, bytes)
    sqlite3.register_adapter(bool, int)
    for kind in _TEXTS:
        sqlite3.register_adapter(kind, str.__str__)
    sqlite3.register_converter("DATETIME", _time_from_text)


# A group writes the same few times into all its rows, and they are read together: most are known from the row before.
@lru_cache(_TIMES_KNOWN)
def _time_as_text(time: datetime) -> str:
    if time.tzinfo is None:
        raise ValueError(f"a time without a zone: {time!r}")
    # What is in UTC already, as nearly all are, only loses the zone at its end.
    at = time if time.tzinfo is UTC else time.astimezone(UTC)
    return at.isoformat(" ", "microseconds")[:-6]


@lru_cache(_TIMES_KNOWN)
def _time_from_text(text: bytes) -> datetime:
    return datetime.fromisoformat(text.decode()).replace(tzinfo=UTC)
