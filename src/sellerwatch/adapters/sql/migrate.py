"""Upgrade and downgrade the schema of a database, and report which revision it has.

Each step runs in its own transaction, which begins by reading the current revision. On SQLite a failed step leaves
nothing behind. MySQL commits after each DDL statement, so steps are written to be run again (`migrations/tables.py`).
Of two processes that upgrade at once, one waits and then finds nothing to do.

    SchemaMissing       no schema yet                    -> db upgrade
    SchemaBehind        an earlier schema                -> db upgrade
    SchemaUnknown       a newer or a foreign schema      -> another program, or another database
    NoSuchRevision      the target of a downgrade does not exist

Alembic is imported only to run a step: reading the revision, at every start, must not cost 11 MB and 0.3 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal

from sqlalchemy import Connection, Engine, column, inspect, select, table, text

from sellerwatch.adapters.sql.engine import waiting_for_writers
from sellerwatch.adapters.sql.migrations import TableInTheWay
from sellerwatch.adapters.sql.statements import READS_ONLY
from sellerwatch.kernel.errors import Conflict, Invalid

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_SECONDS = 60

State = Literal["empty", "current", "behind", "unknown"]

_VERSION = table("alembic_version", column("version_num"))
_ONE_AT_A_TIME = Lock()  # alembic.op is one per process


@dataclass(eq=False)
class SchemaMissing(Conflict):
    """The database has no schema of ours yet."""


@dataclass(eq=False)
class SchemaBehind(Conflict):
    """The database is at an earlier schema than this program needs."""

    current: str
    head: str


@dataclass(eq=False)
class SchemaUnknown(Conflict):
    """The schema was made by a newer version, or by another program."""

    current: str
    head: str


#: A step's own revision and the one before it; the first step has none.
_LINK = re.compile(r'^revision = "(\w+)"\ndown_revision = (?:"(\w+)"|None)$', re.MULTILINE)


@dataclass(eq=False)
class SchemaBusy(Conflict):
    """Another process has been upgrading this database for longer than we wait."""

    seconds: int


@dataclass(eq=False)
class NoSuchRevision(Invalid):
    """The target of a downgrade is not below the current revision."""

    revision: str
    possible: tuple[str, ...]


@dataclass(frozen=True)
class SchemaStatus:
    """The schema of a database. `current` is None without a revision; `pending` are the steps an upgrade would run."""

    current: str | None
    head: str
    pending: tuple[str, ...]
    state: State


def status(engine: Engine, migrations: Path = MIGRATIONS) -> SchemaStatus:
    """Return the schema of a database without changing anything."""
    with engine.connect().execution_options(**{READS_ONLY: True}) as connection:
        return _status(connection, history(migrations))


def require_current(engine: Engine, migrations: Path = MIGRATIONS) -> None:
    """Refuse a database whose schema is not the one this version was written for."""
    found = status(engine, migrations)
    _require_known(found)
    if found.state == "empty":
        raise SchemaMissing
    if found.state == "behind":
        raise SchemaBehind(current=str(found.current), head=found.head)


def upgrade(engine: Engine, now: datetime, migrations: Path = MIGRATIONS) -> SchemaStatus:
    """Run the pending steps one by one and return what changed. `now` stamps the rows that a step creates."""
    known = history(migrations)
    with _alone(engine) as connection:
        steps = _Steps(connection, migrations)
        while True:
            with _transaction(connection):
                found = _status(connection, known)
                _require_known(found)
                if not found.pending:
                    return found
                try:
                    steps.run(found.pending[0], "up", now)
                except TableInTheWay as it:
                    raise SchemaUnknown(current=f"table {it.table}", head=found.head) from it


def downgrade(engine: Engine, revision: str, migrations: Path = MIGRATIONS) -> SchemaStatus:
    """Go back to `revision`, to `base` (nothing left), or one step with `-1`. The data in dropped tables is lost."""
    known = history(migrations)
    with _alone(engine) as connection:
        with _transaction(connection):
            found = _status(connection, known)
            _require_known(found)
        target = _target(revision, found, known)
        steps = _Steps(connection, migrations)
        while True:
            with _transaction(connection):
                found = _status(connection, known)
                if len(found.pending) >= len(known) - target:
                    return found
                steps.run("-1", "down")


def downgrade_at_once(engine: Engine, revision: str, migrations: Path = MIGRATIONS) -> tuple[str, str]:
    """Run all steps of a downgrade in one transaction, each on the schema as it is before the first: for a script of
    them (`script.py`). Return where it begins and ends."""
    known = history(migrations)
    with _alone(engine) as connection, _transaction(connection):
        found = _status(connection, known)
        _require_known(found)
        target = ("base", *known)[_target(revision, found, known)]
        _Steps(connection, migrations).run(target, "down")
        return str(found.current), target


def history(migrations: Path = MIGRATIONS) -> tuple[str, ...]:
    """Return all revisions, oldest first. Each step names the one before it; its own number says nothing about that."""
    found = [_LINK.search(path.read_text("utf-8")) for path in (migrations / "versions").glob("[0-9]*_*.py")]
    after = {link[2]: link[1] for link in found if link is not None}
    known: list[str] = []
    while (revision := after.get(known[-1] if known else None)) is not None:
        known.append(revision)
    return tuple(known)


def _target(revision: str, found: SchemaStatus, known: Sequence[str]) -> int:
    """Return how many steps are left after the downgrade."""
    applied = len(known) - len(found.pending)
    if revision == "base":
        return 0
    if revision == "-1" and applied:
        return applied - 1
    if revision in known[:applied]:
        return known.index(revision) + 1
    raise NoSuchRevision(revision=revision, possible=("base", *known[:applied]))


def _status(connection: Connection, known: Sequence[str]) -> SchemaStatus:
    head = known[-1]
    tables = inspect(connection).get_table_names()
    if _VERSION.name not in tables:
        # An SQLite file is ours alone. On a MySQL server our tables may share a database; a clash of names shows later.
        foreign = tables if connection.dialect.name == "sqlite" else ()
        if foreign:
            return SchemaStatus(f"table {sorted(foreign)[0]}", head, (), "unknown")
        return SchemaStatus(None, head, tuple(known), "empty")
    noted = sorted(connection.scalars(select(_VERSION.c.version_num)))
    if not noted:
        return SchemaStatus(None, head, tuple(known), "empty")
    if len(noted) > 1 or noted[0] not in known:
        return SchemaStatus(", ".join(noted), head, (), "unknown")
    pending = tuple(known[known.index(noted[0]) + 1 :])
    return SchemaStatus(noted[0], head, pending, "behind" if pending else "current")


def _require_known(found: SchemaStatus) -> None:
    if found.state == "unknown":
        raise SchemaUnknown(current=str(found.current), head=found.head)


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """Open a connection that is the only one to migrate this database.

    On SQLite the write lock of each step's transaction is enough, waited for as long as another process may take to
    migrate. MySQL releases every lock at each DDL statement, so a named lock is held for all steps; it goes with the
    connection if this process dies.
    """
    with _ONE_AT_A_TIME, engine.connect() as connection:
        if connection.dialect.name != "mysql":
            with waiting_for_writers(connection, LOCK_SECONDS):
                yield connection
            return
        name = {"name": f"sellerwatch.migrate.{engine.url.database}"[:64], "seconds": LOCK_SECONDS}
        with connection.begin():
            if connection.execute(text("SELECT GET_LOCK(:name, :seconds)"), name).scalar() != 1:
                raise SchemaBusy(seconds=LOCK_SECONDS)
        try:
            yield connection
        finally:
            with connection.begin():
                connection.execute(text("DO RELEASE_LOCK(:name)"), name)


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    """Begin a transaction explicitly: Python's sqlite3 begins none before DDL, which would then stay after a
    failure."""
    with connection.begin():
        raw = connection.connection.dbapi_connection
        if connection.dialect.name == "sqlite" and not getattr(raw, "in_transaction", True):
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield


class _Steps:
    """Runs steps inside the caller's transaction; alembic records the revision in the same transaction.

    Alembic loads the modules of all steps at the first one; they are dropped with this object."""

    def __init__(self, connection: Connection, migrations: Path) -> None:
        self._connection = connection
        self._migrations = migrations
        self._script: ScriptDirectory | None = None

    def run(self, revision: str, direction: Literal["up", "down"], now: datetime | None = None) -> None:
        from alembic.config import Config  # noqa: PLC0415 - see the module's word
        from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415 - see the module's word
        from alembic.script import ScriptDirectory  # noqa: PLC0415 - see the module's word

        self._script = script = self._script or ScriptDirectory(str(self._migrations))
        steps = script._upgrade_revs if direction == "up" else script._downgrade_revs
        environment = EnvironmentContext(
            Config(attributes={"now": now}), script, fn=lambda current, _: steps(revision, current)
        )
        environment.configure(connection=self._connection)
        environment.run_migrations()
