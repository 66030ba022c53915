"""Backups as files: of SQLite a copy of the database, of MySQL what its dump program writes.

A backup is written under another name, checked, and renamed: a file with its own name is whole. Nobody else on the
machine can read it.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from sellerwatch.kernel.errors import Conflict, Failed, Invalid, NotFound

#: Pages that are copied before the program looks whether it was interrupted.
PAGES = 8_192
_CHUNK = 1 << 20
#: A chunk begins with the end of the one before: a match may stand across both.
_OVERLAP = 1 << 10
_DUMPED_REVISION = re.compile(rb"INSERT INTO `alembic_version`[^;]{0,200}?\('(\w+)'\)")
_DUMP_ENDS = b"-- Dump completed"
#: What is shown of what a program said when it failed.
_LONGEST_ANSWER = 500
DUMPERS, CLIENTS = ("mariadb-dump", "mysqldump"), ("mariadb", "mysql")

#: Called with a command before it is run.
Announce = Callable[[Sequence[str]], None]


@dataclass(eq=False)
class BackupExists(Conflict):
    """A file of that name exists, and was not to be replaced."""

    file: str


@dataclass(eq=False)
class BackupNotFound(NotFound):
    file: str


@dataclass(eq=False)
class NoBackup(Invalid):
    """The file is not a database of SQLite, or not a whole dump of MySQL."""

    file: str


@dataclass(eq=False)
class BackupDamaged(Failed):
    """The integrity check of a backup found something."""

    file: str
    found: str


@dataclass(eq=False)
class BackupFileFailed(Failed):
    """A file cannot be written or read."""

    file: str
    reason: str


@dataclass(eq=False)
class DatabaseInUse(Conflict):
    """Another program has the file of the database open."""

    file: str


@dataclass(eq=False)
class ProgramMissing(Failed):
    """No program of the server's package is on the path."""

    names: str


@dataclass(eq=False)
class ProgramFailed(Failed):
    """A program of the server's package failed."""

    name: str
    said: str


@contextmanager
def written(target: Path) -> Iterator[Path]:
    """Give a name beside `target` to write to; at the end of the block it becomes the target. Nothing is left of it if
    the block fails."""
    with _file_errors(target):
        handle, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".partial", dir=target.parent)
        os.close(handle)
    partial = Path(name)
    try:
        with _file_errors(target):
            yield partial
            _sync(partial)
            partial.replace(target)
            _sync(target.parent)
    finally:
        for left in (partial, *(partial.with_name(partial.name + end) for end in ("-wal", "-shm", "-journal"))):
            left.unlink(missing_ok=True)


@contextmanager
def _file_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupFileFailed(file=str(target), reason=error.strerror or str(error)) from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database that others write to, as it is at one moment."""
    with closing(_connect(source)) as old, closing(_connect(target)) as new:
        # One read of the whole copy: without it a writer makes the copy begin anew.
        old.execute("BEGIN")
        old.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        old.backup(new, pages=PAGES)
    make_one_file(target)


def make_one_file(path: Path) -> None:
    """Put everything into the file itself, none of it beside it. Refuse a file that another program has open."""
    with closing(_connect(path)) as database:
        try:
            mode = database.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            raise DatabaseInUse(file=str(path)) from error
        if mode != "delete":
            raise DatabaseInUse(file=str(path))


def check_sqlite(path: Path, shown: Path) -> str | None:
    """Check a copy page by page; return its revision. Refuse one that is damaged, or not a database; `shown` is the
    file that a refusal names."""
    try:
        with closing(_connect(path)) as database:
            found = damage_in(row[0] for row in database.execute("PRAGMA integrity_check(3)"))
            if found:
                raise BackupDamaged(file=str(shown), found="; ".join(found)[:_LONGEST_ANSWER])
            tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "alembic_version" not in tables:
                return None
            row = database.execute("SELECT version_num FROM alembic_version").fetchone()
            return None if row is None else str(row[0])
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB:
            raise NoBackup(file=str(shown)) from error
        raise BackupDamaged(file=str(shown), found=str(error)) from error


def damage_in(answers: Iterable[str]) -> list[str]:
    """Return what an integrity check found, line by line; nothing where all is well."""
    lines = [line for answer in answers for line in answer.splitlines()]
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def replace_sqlite(database: Path, restored: Path, aside: Path) -> None:
    """Put a restored file in the place of the database, which is kept under the name `aside`."""
    if database.exists():
        try:
            os.link(database, aside)
        except OSError:
            # A file system without links: for a moment there is no database.
            database.rename(aside)
        for end in ("-wal", "-shm"):
            # What could not be put into the file goes with it.
            with suppress(FileNotFoundError):
                database.with_name(database.name + end).rename(aside.with_name(aside.name + end))
    restored.replace(database)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=2)


def dump_mysql(url: URL, target: Path, announce: Announce) -> None:
    """Write a dump of a database at one moment, without locking anybody out."""
    program = _program(DUMPERS)
    options = ["--single-transaction", "--quick", "--hex-blob", "--no-tablespaces", "--default-character-set=utf8mb4"]
    if b"MariaDB" not in _run([program, "--version"]):
        # MySQL's own program would write settings of the server, which no other server takes.
        options.append("--set-gtid-purged=OFF")
    with _credentials(url) as credentials, target.open("wb") as out:
        _run([program, f"--defaults-file={credentials}", *options, str(url.database)], announce, out=out)


def check_dump(path: Path) -> str | None:
    """Return the revision of a dump. Refuse a file that is not one, or was cut off."""
    revision, tail = None, b""
    with path.open("rb") as dump:
        while chunk := dump.read(_CHUNK):
            read, tail = tail + chunk, chunk[-_OVERLAP:]
            match = _DUMPED_REVISION.search(read) if revision is None else None
            revision = revision if match is None else match[1].decode()
    if _DUMP_ENDS not in tail:
        raise NoBackup(file=str(path))
    return revision


def load_mysql(url: URL, file: Path, announce: Announce) -> None:
    """Run a dump on an empty database."""
    with _credentials(url) as credentials, file.open("rb") as dump:
        command = [_program(CLIENTS), f"--defaults-file={credentials}", "--default-character-set=utf8mb4"]
        _run([*command, str(url.database)], announce, into=dump)


def _program(names: Sequence[str]) -> str:
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    raise ProgramMissing(names=", ".join(names))


def _run(
    command: Sequence[str], announce: Announce = lambda _: None, *, out: object = subprocess.PIPE, into: object = None
) -> bytes:
    announce(command)
    done = subprocess.run(  # noqa: S603 - a program of the server's package, without a shell
        command,
        stdin=subprocess.DEVNULL if into is None else into,  # type: ignore[call-overload]
        stdout=out,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ProgramFailed(name=Path(command[0]).name, said=said[-_LONGEST_ANSWER:] or str(done.returncode))
    return bytes(done.stdout or b"")


@contextmanager
def _credentials(url: URL) -> Iterator[Path]:
    """Give a file that only this user can read with the address and the password: a command line is seen by everybody
    on the machine."""
    given = {"host": url.host, "port": url.port, "user": url.username, "password": url.password, "protocol": "TCP"}
    given |= {name.replace("_", "-"): str(value) for name, value in url.query.items()}
    lines = [f'{name}="{_escaped(str(value))}"' for name, value in given.items() if value is not None]
    handle, name = tempfile.mkstemp(prefix="sellerwatch-", suffix=".cnf")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(["[client]", *lines, ""]))
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
