"""Real servers for tests, each private to the process that starts it: a free loopback port, a folder of its own.

A server can be stopped, killed and started again on the same port, with or without what it held: that is how tests show
what its loss does. A program that is missing fails the test and says the command that brings it; nothing is skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pymysql
from scripts.get_servers import found

START_WITHIN = 600.0


def program(name: str) -> str:
    where = found(name)
    if where is None:
        raise AssertionError(f"{name} is missing: run python scripts/get_servers.py")
    return where


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A process on a port. Subclasses say the command and when it answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True

    def start(self) -> None:
        self._log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            self.command(),
            env=os.environ | self.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        until = time.monotonic() + START_WITHIN
        while not self._up():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{type(self).__name__} did not start:\n{self._said()}")
            time.sleep(0.03)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(by)
            try:
                self._process.wait(START_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(START_WITHIN)
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def freeze(self) -> None:
        """Alive and silent: what a hung server or a lost network looks like from outside."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # It goes on for a moment: its threads are stopped one after the other, and one may still answer.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _up(self) -> bool:
        try:
            return self.answers()
        except (OSError, pymysql.Error):
            return False

    def _said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]


class MariaDb(Server):
    """One server, many databases: `database()` makes an empty one and says its address."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._made = 0

    def command(self) -> list[str]:
        data = self.folder / "data"
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        if not data.exists():
            subprocess.run(
                [
                    *[program("mariadb-install-db"), "--no-defaults", f"--datadir={data}"],
                    *["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--force"],
                    *as_root,
                ],
                check=True,
                capture_output=True,
                timeout=START_WITHIN,
            )
        return [
            *[program("mariadbd"), "--no-defaults", *as_root, f"--datadir={data}", f"--tmpdir={self.folder}"],
            *[f"--socket={self.folder}/s", f"--pid-file={self.folder}/p", f"--port={self.port}"],
            *["--bind-address=127.0.0.1", "--skip-log-bin", "--skip-name-resolve"],
            *["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-buffer-pool-size=64M"],
            *["--performance-schema=0", "--character-set-server=utf8mb4"],
        ]

    def answers(self) -> bool:
        self.connect().close()
        return True

    def connect(self, database: str | None = None) -> pymysql.Connection[pymysql.cursors.Cursor]:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=database, connect_timeout=2, autocommit=True
        )

    def database(self) -> str:
        self._made += 1
        name = f"t{self._made}"
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return f"mysql://root@127.0.0.1:{self.port}/{name}"

    def copy(self, template: str) -> str:
        """A database like another one, with what that holds; its rows are few."""
        url = self.database()
        name = url.rpartition("/")[2]
        with self.connect() as connection, connection.cursor() as cursor:
            self._copy_tables(cursor, template, name)
        return url

    def _copy_tables(self, cursor: pymysql.cursors.Cursor, template: str, name: str) -> None:
        cursor.execute(f"SHOW TABLES FROM {template}")
        for (table,) in cursor.fetchall():
            cursor.execute(f"CREATE TABLE {name}.{table} LIKE {template}.{table}")
            cursor.execute(f"INSERT INTO {name}.{table} SELECT * FROM {template}.{table}")  # noqa: S608

    def refill(self, url: str, template: str) -> None:
        """Give a copy the template's rows again, which takes a tenth of another copy. Of its tables, only those of
        another revision are seen to differ: it is emptied then."""
        name = url.rpartition("/")[2]
        with self.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM alembic_version UNION ALL SELECT * FROM {template}.alembic_version")  # noqa: S608
            revisions = cursor.fetchall()
            if len(revisions) != 2 or revisions[0] != revisions[1]:
                cursor.execute(f"DROP DATABASE {name}")
                cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
                self._copy_tables(cursor, template, name)
                return
            cursor.execute(f"SHOW TABLES FROM {template}")
            tables = [table for (table,) in cursor.fetchall()]
            filled = [
                f"SELECT '{table}' FROM dual WHERE EXISTS (SELECT 1 FROM {of}.{table})"  # noqa: S608
                for of in (name, template)
                for table in tables
            ]
            cursor.execute(" UNION ".join(filled))
            for (table,) in cursor.fetchall():
                cursor.execute(f"TRUNCATE TABLE {table}")
                cursor.execute(f"INSERT INTO {table} SELECT * FROM {template}.{table}")  # noqa: S608

    def drop(self, url: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {url.rpartition('/')[2]}")


class Redis(Server):
    """Keeps nothing on disk: started again, it is empty."""

    def command(self) -> list[str]:
        return [
            *[program("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""],
            *["--appendonly", "no", "--dir", str(self.folder)],
        ]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


class Aws(Server):
    """The emulator of SQS and EventBridge."""

    def command(self) -> list[str]:
        return [str(Path(sys.executable).parent / "ministack")]

    def environment(self) -> dict[str, str]:
        # PYTHONWARNINGS of a test run are not the emulator's business.
        return {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(self.port), "PYTHONWARNINGS": ""}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running(kind: type[Server], within: Path | None = None) -> Iterator[Server]:
    """A started server that is gone afterwards, with its folder. The folder's path is short: sockets demand it. In
    memory where there is a place for that (or `within` another folder): making a schema waits for the disk a hundred
    times."""
    in_memory = Path("/dev/shm")  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="sw-", dir=within or (in_memory if os.access(in_memory, os.W_OK) else None)))
    server = kind(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
