"""Takes a database to the schema this program needs, back again, and says where it stands.

Each step runs in a transaction of its own that begins by asking where the database stands. SQLite keeps that promise
for DDL too: a step that fails leaves nothing behind. MySQL commits after each piece of DDL, so there the steps are
written to be run again (`migrations/tables.py`). Two processes may upgrade at once: one waits
and then finds nothing to do.

    SchemaMissing       nothing of ours in it yet        -> db upgrade
    SchemaBehind        an earlier schema of ours        -> db upgrade
    SchemaUnknown       a newer or somebody else's       -> another program, or another database
    NoSuchRevision      asked to go down to nowhere

Alembic is imported only when a step is run: looking where the database stands, which every start does, must not pay
for it (11 MB, 0.3 s).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Literal

from sqlalchemy import Connection, Engine, column, inspect, select, table, text

from sellerwatch.adapters.sql.migrations import TableInTheWay
from sellerwatch.adapters.sql.statements import READS_ONLY
from sellerwatch.kernel.errors import Conflict, Invalid

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
    """The database was made by a newer program, or by somebody else's."""

    current: str
    head: str


@dataclass(eq=False)
class SchemaBusy(Conflict):
    """Another process has been upgrading this database for longer than we wait."""

    seconds: int


@dataclass(eq=False)
class NoSuchRevision(Invalid):
    """A revision to go down to that is not below where the database stands."""

    revision: str
    possible: tuple[str, ...]


@dataclass(frozen=True)
class SchemaStatus:
    """Where a database stands. `current` is None when it has no revision, `pending` what an upgrade would run."""

    current: str | None
    head: str
    pending: tuple[str, ...]
    state: State


def status(engine: Engine, migrations: Path = MIGRATIONS) -> SchemaStatus:
    """Looks and changes nothing."""
    with engine.connect().execution_options(**{READS_ONLY: True}) as connection:
        return _status(connection, history(migrations))


def require_current(engine: Engine, migrations: Path = MIGRATIONS) -> None:
    """Refuses a database whose schema is not exactly the one this program was written for."""
    found = status(engine, migrations)
    _require_known(found)
    if found.state == "empty":
        raise SchemaMissing
    if found.state == "behind":
        raise SchemaBehind(current=str(found.current), head=found.head)


def upgrade(engine: Engine, now: datetime, migrations: Path = MIGRATIONS) -> SchemaStatus:
    """Runs what is pending, step by step, and says where that led. `now` stamps the rows a step makes."""
    known = history(migrations)
    with _alone(engine) as connection:
        while True:
            with _transaction(connection):
                found = _status(connection, known)
                _require_known(found)
                if not found.pending:
                    return found
                try:
                    _run(connection, migrations, found.pending[0], "up", now)
                except TableInTheWay as it:
                    raise SchemaUnknown(current=f"table {it.table}", head=found.head) from it


def downgrade(engine: Engine, revision: str, migrations: Path = MIGRATIONS) -> SchemaStatus:
    """Goes back to `revision`, to `base` (nothing left), or one step with `-1`. What the tables held is lost."""
    known = history(migrations)
    with _alone(engine) as connection:
        with _transaction(connection):
            found = _status(connection, known)
            _require_known(found)
        target = _target(revision, found, known)
        while True:
            with _transaction(connection):
                found = _status(connection, known)
                if len(found.pending) >= len(known) - target:
                    return found
                _run(connection, migrations, "-1", "down", None)


def history(migrations: Path = MIGRATIONS) -> tuple[str, ...]:
    """All revisions, oldest first: what the names of the steps' files begin with."""
    return tuple(sorted(path.name.partition("_")[0] for path in (migrations / "versions").glob("[0-9]*_*.py")))


def _target(revision: str, found: SchemaStatus, known: Sequence[str]) -> int:
    """How many steps are left standing when the downgrade is done."""
    standing = len(known) - len(found.pending)
    if revision == "base":
        return 0
    if revision == "-1" and standing:
        return standing - 1
    if revision in known[:standing]:
        return known.index(revision) + 1
    raise NoSuchRevision(revision=revision, possible=("base", *known[:standing]))


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
    """A connection whose holder is the only one that migrates this database.

    On SQLite the write lock of each step's transaction does it. MySQL lets go of every lock at each piece of DDL, so
    there it is a named one for the whole of it, which goes with the connection if we die.
    """
    with _ONE_AT_A_TIME, engine.connect() as connection:
        if connection.dialect.name != "mysql":
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
    """A transaction that is really begun: Python's sqlite3 by itself begins none before DDL, and DDL then stays."""
    with connection.begin():
        raw = connection.connection.dbapi_connection
        if connection.dialect.name == "sqlite" and not getattr(raw, "in_transaction", True):
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield


def _run(
    connection: Connection, migrations: Path, revision: str, direction: Literal["up", "down"], now: datetime | None
) -> None:
    """One step, inside the caller's transaction; alembic notes the revision in the same."""
    from alembic.config import Config  # noqa: PLC0415 - see the module's word
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415 - see the module's word
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see the module's word

    script = ScriptDirectory(str(migrations))
    steps = script._upgrade_revs if direction == "up" else script._downgrade_revs
    config = Config(attributes={"now": now})
    environment = EnvironmentContext(config, script, fn=lambda current, _: steps(revision, current))
    environment.configure(connection=connection)
    environment.run_migrations()
