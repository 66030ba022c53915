"""The one place that picks adapters. Nothing is opened at import; tests pass their own parts by keyword."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sellerwatch.adapters.sql.engine import check_reachable, database_path, make_engine, shown
from sellerwatch.adapters.sql.migrate import SchemaStatus, downgrade, require_current, status, upgrade
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore, ThreadRunner
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.clock import Clock, SystemClock
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.settings import Settings, load

READER_THREADS = 4


def open_engine(settings: Settings) -> Engine:
    """The configured database, opened once so that a wrong address is said before anything starts."""
    engine = make_engine(settings.database_url, synchronous=settings.sqlite_synchronous)
    check_reachable(engine)
    return engine


def open_store(settings: Settings, *, clock: Clock | None = None, inline: bool = False) -> SqlStore:
    """The store, on a schema this program knows. The embedded SQLite file is made and upgraded on the way."""
    clock = clock or SystemClock()
    engine = open_engine(settings)
    upgrade(engine, clock.now())
    require_current(engine)
    if inline:
        return SqlStore(engine, clock, InlineRunner(), InlineRunner())
    return SqlStore(engine, clock, ThreadRunner(1, "store-write"), ThreadRunner(READER_THREADS, "store-read"))


def schema_status(environment: Mapping[str, str]) -> tuple[str, SchemaStatus]:
    """Where the configured database stands; looking makes no file."""
    engine = make_engine(load(environment).settings.database_url)
    path = database_path(engine)
    if path is not None and not path.exists():
        return shown(engine), status(make_engine("sqlite://"))
    check_reachable(engine)
    return shown(engine), status(engine)


def upgrade_schema(environment: Mapping[str, str], actor: str) -> tuple[str | None, str | None]:
    """Up to what this program needs; says from where to where."""
    engine = open_engine(load(environment).settings)
    clock = SystemClock()
    before = status(engine).current
    after = upgrade(engine, clock.now()).current
    if before != after:
        _note(engine, AuditEntry(clock.now(), actor, "db.upgrade", "schema", str(after), note=f"from {before}"))
    return before, after


def downgrade_schema(environment: Mapping[str, str], to: str, actor: str) -> tuple[str | None, str | None]:
    """Down to a revision; the trail keeps it while the trail itself still stands."""
    engine = open_engine(load(environment).settings)
    before = status(engine).current
    after = downgrade(engine, to).current
    if before != after:
        with suppress(DBAPIError):
            _note(engine, AuditEntry(SystemClock().now(), actor, "db.downgrade", "schema", str(after), note=f"from {before}"))
    return before, after


def _note(engine: Engine, entry: AuditEntry) -> None:
    with engine.connect() as connection, connection.begin():
        Transaction(connection).audit.record(entry)
