"""Access to the database: `transact` and `read` run a plain function on a database thread, all or nothing."""

from __future__ import annotations

import inspect
import random
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, overload

from sqlalchemy import Connection, Engine

from sellerwatch.adapters.sql.engine import (
    DRIVER_ERRORS,
    database_path,
    is_locked,
    is_lost,
    is_mysql,
    is_transient,
    is_unusable,
    unavailable,
)
from sellerwatch.adapters.sql.statements import READS_ONLY
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.store import ATransactionCannotAwait, Commits

T = TypeVar("T")

ATTEMPTS = 8
#: Seconds that a transaction waits for a database another writer holds: in the queue, and being tried again.
LOCKED_SECONDS = 5.0
PAUSE = Backoff(first=0.02, longest=1.0)


class Runner(Protocol):
    """Runs transactions: on threads in the service, inline where time is virtual."""

    async def run(self, function: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class ThreadRunner:
    """A few database threads. Each hop costs about 150 us of CPU, so transactions are grouped."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[[], T]) -> T:
        import asyncio  # noqa: PLC0415 - only the threaded runner needs a running loop

        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class InlineRunner:
    """Runs a transaction at once on the event loop: a simulation has no threads, so one seed gives one history."""

    async def run(self, function: Callable[[], T]) -> T:
        return function()

    def close(self) -> None:
        return None


class SqlStore:
    """Implements `kernel.store.Store`. SQLite has one writer, so writes queue in one thread. At a MySQL server several
    write at once; a transaction that deadlocks or loses its connection runs again.

    `rehearse` runs every `work` twice and rolls the first run back. Tests use it, so that a `work` that is not safe to
    run again (a captured list appended to, an id made inside) is noticed. `pulse` is called with the connection before
    each transaction. `commits` is given only for a database in memory, which no other process can write to: every store
    on it counts its commits there.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        writer: Runner,
        reader: Runner,
        *,
        rehearse: bool = False,
        pulse: Callable[[Connection], None] | None = None,
        commits: Commits | None = None,
    ) -> None:
        if commits is not None and (is_mysql(engine) or database_path(engine) is not None):
            raise ValueError("commits of other processes are not counted: only a database in memory has none")
        self._engine = engine
        self._clock = clock
        self._writer = writer
        self._reader = reader
        self._rehearse = rehearse
        self._pulse = pulse
        self._commits = commits
        self._luck = random.Random(0)  # noqa: S311 - spreads retries, guards nothing
        self._is_locked = False

    @overload
    def transact(  # type: ignore[overload-overlap]  # meant: the narrower one is the refusal
        self, work: Callable[[Transaction], Coroutine[Any, Any, Any]]
    ) -> ATransactionCannotAwait: ...

    @overload
    def transact(self, work: Callable[[Transaction], T]) -> Coroutine[Any, Any, T]: ...

    def transact(self, work: Callable[[Transaction], Any]) -> Any:
        """Run `work`, commit, return its value. Any error rolls back; another writer in the way is waited out."""
        return self._persist(lambda: self._once(work), self._writer, self._commits)

    @overload
    def read(  # type: ignore[overload-overlap]  # meant: the narrower one is the refusal
        self, work: Callable[[Transaction], Coroutine[Any, Any, Any]]
    ) -> ATransactionCannotAwait: ...

    @overload
    def read(self, work: Callable[[Transaction], T]) -> Coroutine[Any, Any, T]: ...

    def read(self, work: Callable[[Transaction], Any]) -> Any:
        """Run `work` on one consistent snapshot; nothing it did is kept."""
        return self._persist(lambda: self._look(work), self._reader)

    @property
    def commits(self) -> Commits | None:
        return self._commits

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def writer(self) -> Runner:
        return self._writer

    def close(self) -> None:
        """Wait for running transactions, then close every connection."""
        self._writer.close()
        self._reader.close()
        self._engine.dispose()

    async def _persist(self, once: Callable[[], T], runner: Runner, commits: Commits | None = None) -> T:
        tries = lost = 0
        give_up_at = self._clock.monotonic() + LOCKED_SECONDS

        def once_if_in_time() -> T:
            """Those that queued behind a locked database for too long do not wait once more, each on its own."""
            if self._is_locked and tries == 0 and self._clock.monotonic() >= give_up_at:
                raise unavailable(self._engine, sqlite3.OperationalError("database is locked"))
            return once()

        while True:
            try:
                result = await runner.run(once_if_in_time)
                self._is_locked = False
                if commits is not None:
                    commits.count()
                return result
            except DRIVER_ERRORS as error:
                tries += 1
                # A new connection is worth one more try; a server that is away is not waited for here.
                lost += is_lost(error)
                self._is_locked = is_locked(error)
                is_too_late = self._is_locked and self._clock.monotonic() >= give_up_at
                if not is_transient(error) or tries >= ATTEMPTS or lost > 1 or is_too_late:
                    if is_unusable(error):
                        raise unavailable(self._engine, error) from error
                    raise
                await self._clock.sleep(PAUSE.wait(tries, self._luck).total_seconds())

    def _once(self, work: Callable[[Transaction], T]) -> T:
        with self._engine.connect() as connection, _given_up_if_lost(connection):
            if self._pulse is not None:
                self._pulse(connection)
            if self._rehearse:
                with connection.begin() as rehearsal:
                    _plain(work(Transaction(connection)))
                    rehearsal.rollback()
            with connection.begin():
                return _plain(work(Transaction(connection)))

    def _look(self, work: Callable[[Transaction], T]) -> T:
        looking = self._engine.connect().execution_options(**{READS_ONLY: True})
        with looking as connection, _given_up_if_lost(connection), connection.begin() as view:
            try:
                return _plain(work(Transaction(connection)))
            finally:
                view.rollback()


@contextmanager
def _given_up_if_lost(connection: Connection) -> Iterator[None]:
    """Discard a lost connection: SQLAlchemy does not see errors of our own statements and would reuse it."""
    try:
        yield
    except DRIVER_ERRORS as error:
        if is_lost(error) and not connection.invalidated:
            connection.invalidate()
        raise


def _plain(result: T) -> T:
    """Refuse a coroutine as a result: a coroutine function as `work` would silently do nothing."""
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()
    if inspect.isawaitable(result) or inspect.isasyncgen(result) or inspect.isgenerator(result):
        raise TypeError("a transaction cannot await or yield: `work` must be a plain function")
    return result
