"""Open the configured database, for a service or for the length of a command."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

from sqlalchemy import Engine

from sellerwatch.adapters.permit_marker import PermitMarkerFile
from sellerwatch.adapters.sql.engine import (
    DRIVER_ERRORS,
    answering,
    check_reachable,
    database_path,
    make_engine,
    shown,
)
from sellerwatch.adapters.sql.losses import LostData, lost_data
from sellerwatch.adapters.sql.migrate import (
    SchemaMissing,
    SchemaStatus,
    downgrade,
    history,
    require_current,
    status,
    upgrade,
)
from sellerwatch.adapters.sql.script import DowngradeScript, downgrade_script
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore, ThreadRunner
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.adapters.sql.usage_log_partitions import Partition, partitions
from sellerwatch.agents.recount import log_repairs, recount_buckets
from sellerwatch.kernel.clock import EPOCH, SHARED, Clock, SystemClock
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.settings.load import load
from sellerwatch.settings.model import Settings

READER_THREADS = 4
#: Of one process at a MySQL server: several write at once there. With its readers it stays well below 50 connections.
MYSQL_WRITERS = 8
MYSQL_READERS = 8
#: Who upgrades an embedded database when it is opened, on the audit trail.
MADE_BY = "service"


def open_engine(settings: Settings, *, patient: bool = False) -> Engine:
    """Open the configured database and check that it answers."""
    connections = MYSQL_WRITERS + MYSQL_READERS if settings.is_mysql else READER_THREADS * 2
    engine = make_engine(
        settings.database_url, synchronous=settings.sqlite_synchronous, connections=connections, patient=patient
    )
    check_reachable(engine)
    return engine


def open_clock(settings: Settings) -> Clock:
    """Return the clock that all processes on this database share: the machine's, or the database server's."""
    if not settings.is_mysql:
        return SystemClock()
    from sellerwatch.adapters.sql.server_clock import ServerClock  # noqa: PLC0415 - with a MySQL server

    engine = make_engine(settings.database_url, connections=1)
    try:
        return ServerClock(engine)
    finally:
        engine.dispose()


def open_store(settings: Settings, *, clock: Clock | None = None, inline: bool = False, make: bool = False) -> SqlStore:
    """Open the store, on a schema that this version knows. With `make`, an embedded SQLite file is created and
    upgraded; the schema of a server is changed by `db upgrade` only."""
    clock = clock or open_clock(settings)
    path = database_path(make_engine(settings.database_url))
    if path is not None and path.parent.is_dir() and not path.exists() and not make:
        # Opening it would create it.
        raise SchemaMissing
    engine = open_engine(settings)
    with answering(engine):
        if make and not settings.is_mysql:
            upgrade_to_head(engine, clock.now(), MADE_BY)
        require_current(engine)
    pulse = getattr(clock, "pulse", None)
    if inline:
        return SqlStore(engine, clock, InlineRunner(), InlineRunner(), pulse=pulse)
    writers, readers = (MYSQL_WRITERS, MYSQL_READERS) if settings.is_mysql else (1, READER_THREADS)
    writing, reading = ThreadRunner(writers, "store-write"), ThreadRunner(readers, "store-read")
    return SqlStore(engine, clock, writing, reading, pulse=pulse)


def lost_permits(settings: Settings, highest: int) -> bool:
    """Return whether the database has fewer permits than were assigned: it was restored from an older copy."""
    path = database_path(make_engine(settings.database_url))
    return path is not None and PermitMarkerFile(path).read() > highest


class SharedClock:
    """The clock that machines share, read from this machine's wall clock: exact enough for commands."""

    boot_id = SHARED

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return (self._clock.now() - EPOCH).total_seconds()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


def pool_clock(settings: Settings, clock: Clock) -> Clock:
    """Return the clock by which the windows of the pool are counted."""
    return clock if settings.redis_url is None else SharedClock(clock)


def schema_head() -> str:
    """Return the schema revision that this version needs."""
    return history()[-1]


def disk_left(settings: Settings) -> int | None:
    """Return the free bytes where the database is; None in memory."""
    path = database_path(make_engine(settings.database_url))
    return None if path is None else shutil.disk_usage(path.parent).free


def schema_status(environment: Mapping[str, str]) -> tuple[str, SchemaStatus]:
    """Return the schema of the configured database, without creating a file."""
    settings = load(environment).settings
    with opened(settings) as engine:
        return shown(make_engine(settings.database_url)), status(engine)


def upgrade_schema(environment: Mapping[str, str], actor: str) -> tuple[str | None, str | None]:
    """Upgrade to the revision that this version needs; return where it began and ended."""
    clock = SystemClock()
    with opened(load(environment).settings, make=True) as engine:
        before = status(engine).current
        after = upgrade_to_head(engine, clock.now(), actor)
        if before != after:
            _note(engine, AuditEntry(clock.now(), actor, "db.upgrade", "schema", str(after), note=f"from {before}"))
    return before, after


def upgrade_to_head(engine: Engine, now: datetime, actor: str) -> str | None:
    """Upgrade, and count the agents' budgets again after a step: they are derived from the permits."""
    before = status(engine).current
    after = upgrade(engine, now).current
    if before != after:
        with engine.connect() as connection, connection.begin():
            log_repairs(len(recount_buckets(Transaction(connection), actor, now)))
    return after


def lost_by_downgrade(environment: Mapping[str, str], to: str) -> Sequence[LostData]:
    """Return what a downgrade to a revision would take away, without changing anything."""
    with opened(load(environment).settings) as engine:
        return lost_data(engine, to, SystemClock().now())


def downgrade_schema(environment: Mapping[str, str], to: str, actor: str) -> tuple[str | None, str | None]:
    """Downgrade to a revision. The audit trail records it before the trail itself is dropped."""
    now = SystemClock().now()
    with opened(load(environment).settings) as engine:
        before = status(engine).current
        after = downgrade(engine, to).current
        if before != after:
            with suppress(*DRIVER_ERRORS):
                _note(engine, AuditEntry(now, actor, "db.downgrade", "schema", str(after), note=f"from {before}"))
    return before, after


def script_of_downgrade(environment: Mapping[str, str], to: str) -> DowngradeScript:
    """Return a downgrade to a revision as a SQL script for the mysql client, without changing anything."""
    with opened(load(environment).settings) as engine:
        return downgrade_script(engine, to)


def log_partitions(environment: Mapping[str, str]) -> tuple[str, bool, list[Partition]]:
    """Return which database it is, whether its usage log is partitioned, and the partitions."""
    settings = load(environment).settings
    with opened(settings) as engine:
        return shown(make_engine(settings.database_url)), settings.is_mysql, partitions(engine)


@contextmanager
def opened(settings: Settings, *, make: bool = False) -> Iterator[Engine]:
    """Open the configured database for the length of a command; an empty one in memory where none exists and none is
    made."""
    path = database_path(make_engine(settings.database_url))
    there = make or path is None or path.exists()
    engine = open_engine(settings, patient=True) if there else make_engine("sqlite://")
    try:
        with answering(engine):
            yield engine
    finally:
        engine.dispose()


def _note(engine: Engine, entry: AuditEntry) -> None:
    with engine.connect() as connection, connection.begin():
        record_audit(Transaction(connection), entry)
