"""Back up the configured database and restore a backup: the commands `db backup` and `db restore`."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Engine, inspect
from sqlalchemy.exc import SQLAlchemyError

from sellerwatch.adapters.sql.backup_file import (
    Announce,
    BackupExists,
    BackupNotFound,
    check_dump,
    check_sqlite,
    copy_sqlite,
    dump_mysql,
    load_mysql,
    make_one_file,
    replace_sqlite,
    written,
)
from sellerwatch.adapters.sql.engine import DatabaseUnavailable, database_path, make_engine, shown
from sellerwatch.adapters.sql.migrate import SchemaMissing, SchemaUnknown, history, status
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.compose.database import open_engine, opened, pool_clock, upgrade_to_head
from sellerwatch.compose.rules import pool_rules
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.kernel.clock import Clock, SystemClock, moment
from sellerwatch.kernel.errors import Conflict, Invalid, SellerwatchError
from sellerwatch.kernel.ids import Ids, ReplayableIds
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.operations.restore import adopt_backup
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.oversight.backups import LastBackup
from sellerwatch.settings.load import load
from sellerwatch.settings.model import Settings


@dataclass(eq=False)
class NoDatabaseFile(Invalid):
    """A database in memory has no backups."""


@dataclass(eq=False)
class UnknownBackup(Conflict):
    """The schema of a backup was made by a newer version, or by another program."""

    file: str
    current: str
    head: str


@dataclass(eq=False)
class ProcessesAlive(Conflict):
    """Processes work with the database that a restore would replace."""

    processes: str


@dataclass(eq=False)
class DatabaseNotEmpty(Conflict):
    """A backup of MySQL is restored into an empty database only."""

    where: str


@dataclass(frozen=True)
class MadeBackup:
    file: Path
    bytes: int
    seconds: float
    revision: str
    #: The database keeps when it was made. It has no place for it before its upgrade, or while another writes for long.
    is_recorded: bool = True


@dataclass(frozen=True)
class RestoredBackup:
    """`revision` is that of the backup, which was upgraded where it is not this program's. `aside` is the database of
    before; None where there was none."""

    database: str
    revision: str
    aside: Path | None
    events_given_up: int
    products: int


def back_up(environment: Mapping[str, str], actor: str, file: Path, *, force: bool, announce: Announce) -> MadeBackup:
    """Write a backup of the configured database, also while a service runs. The database keeps when, and with which
    result."""
    settings, clock = load(environment).settings, SystemClock()
    path = database_path(make_engine(settings.database_url))
    if path is None and not settings.is_mysql:
        raise NoDatabaseFile
    with opened(settings) as engine:
        found = status(engine)
        if found.current is None:
            raise SchemaMissing
        if found.state == "unknown":
            raise SchemaUnknown(current=found.current, head=found.head)
        if file.exists() and not force:
            raise BackupExists(file=str(file))
        began = clock.monotonic()
        try:
            with written(file) as partial:
                if path is None:
                    dump_mysql(engine.url, partial, announce)
                    revision = check_dump(partial)
                else:
                    copy_sqlite(path, partial)
                    revision = check_sqlite(partial, file)
                size = partial.stat().st_size
        except SellerwatchError as error:
            failed = {"failed_at": clock.now(), "error_code": error.code, "error_facts": error.facts}
            _keep(engine, lambda last: replace(last, **failed))  # type: ignore[arg-type]
            raise
        made = MadeBackup(file, size, clock.monotonic() - began, str(revision))
        last = LastBackup(clock.now(), str(file.absolute()), size, made.seconds, made.revision)
        entry = AuditEntry(clock.now(), actor, "db.backup", "database", "database", after=_facts(made))
        return replace(made, is_recorded=_keep(engine, lambda _: last, entry))


def _facts(made: MadeBackup) -> dict[str, object]:
    return {"file": str(made.file.absolute()), "bytes": made.bytes, "revision": made.revision}


def _keep(engine: Engine, change: Callable[[LastBackup], LastBackup], entry: AuditEntry | None = None) -> bool:
    """Keep the result in the database, if it has a place for it; return whether it did."""
    if status(engine).state != "current":
        return False
    with suppress(SQLAlchemyError, sqlite3.Error), engine.connect() as connection, connection.begin():
        tx = Transaction(connection)
        tx.backups.save(change(tx.backups.last() or LastBackup()))
        if entry is not None:
            record_audit(tx, entry)
        return True
    return False


def restore(environment: Mapping[str, str], actor: str, file: Path, *, announce: Announce) -> RestoredBackup:
    """Make a backup the configured database. Nothing of the database of before is lost."""
    settings, clock = load(environment).settings, SystemClock()
    if not file.is_file():
        raise BackupNotFound(file=str(file))
    path = database_path(make_engine(settings.database_url))
    if settings.is_mysql:
        return _restore_mysql(settings, actor, file, clock, announce)
    if path is None:
        raise NoDatabaseFile
    return _restore_sqlite(settings, actor, file, path, clock)


def _restore_sqlite(settings: Settings, actor: str, file: Path, path: Path, clock: Clock) -> RestoredBackup:
    is_there = path.exists()
    if is_there:
        _require_no_process(settings, clock)
    aside = path.with_name(f"{path.name}.before-{clock.now():%Y%m%dT%H%M%SZ}")
    restored = path.with_name(f"{path.name}.restored")
    try:
        with written(restored) as partial:
            shutil.copyfile(file, partial)
            revision = _known(check_sqlite(partial, file), file)
            engine = make_engine(f"sqlite:///{partial}")
            try:
                given_up, products = _adopt(engine, settings, actor, file, clock)
            finally:
                engine.dispose()
            make_one_file(partial)
        if is_there:
            _close_up(path)
        replace_sqlite(path, restored, aside)
    finally:
        restored.unlink(missing_ok=True)
    return RestoredBackup(
        shown(make_engine(settings.database_url)), revision, aside if is_there else None, given_up, products
    )


def _close_up(path: Path) -> None:
    """Put what stands beside the file into it; a broken one stays as it is."""
    with suppress(sqlite3.DatabaseError):
        make_one_file(path)


def _restore_mysql(settings: Settings, actor: str, file: Path, clock: Clock, announce: Announce) -> RestoredBackup:
    with opened(settings) as engine:
        if inspect(engine).get_table_names():
            raise DatabaseNotEmpty(where=shown(engine))
        revision = _known(check_dump(file), file)
        load_mysql(engine.url, file, announce)
        given_up, products = _adopt(engine, settings, actor, file, clock)
        return RestoredBackup(shown(engine), revision, None, given_up, products)


def _known(revision: str | None, file: Path) -> str:
    known = history()
    if revision not in known:
        raise UnknownBackup(file=str(file), current=revision or "-", head=known[-1])
    return revision


def _adopt(engine: Engine, settings: Settings, actor: str, file: Path, clock: Clock) -> tuple[int, int]:
    upgrade_to_head(engine, clock.now(), actor)
    ids = ReplayableIds(Ids(clock, random.Random(os.urandom(16)))).replay()  # noqa: S311 - ids, no secrets
    context = OperationContext(actor, moment(pool_clock(settings, clock)), ids)
    with engine.connect() as connection, connection.begin():
        return adopt_backup(Transaction(connection), context, pool_rules(settings), file.name)


def _require_no_process(settings: Settings, clock: Clock) -> None:
    """Refuse while a process has a heartbeat in the database. One that cannot be read has none."""
    try:
        engine = open_engine(settings)
    except DatabaseUnavailable:
        return
    try:
        with suppress(SQLAlchemyError, sqlite3.Error), engine.connect() as connection, connection.begin():
            since = clock.now() - timedelta(seconds=settings.visibility_seconds)
            alive = Transaction(connection).workers.alive(since)
            if alive:
                raise ProcessesAlive(processes=", ".join(map(_process, alive)))
    finally:
        engine.dispose()


def _process(worker: WorkerInfo) -> str:
    return f"{worker.role} ({worker.host}, pid {worker.pid})"
