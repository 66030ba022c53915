"""The one door: all or nothing, run again when another is in the way, never awaiting."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine
from tests.builders import NOW, StoppedClock

from sellerwatch.adapters.sql import engine as engine_module
from sellerwatch.adapters.sql import store as store_module
from sellerwatch.adapters.sql.engine import DRIVER_ERRORS, DatabaseUnavailable, make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore, ThreadRunner
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.store import Commits
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop, run_virtually

ADD = "INSERT INTO activity (at, kind, data) VALUES (:at, :kind, :data)"
KOREAN = "스톤아일랜드 반팔 🧥🇰🇷 e\u0301"


def add(tx: Transaction, kind: str, *, at: datetime = NOW, data: str | None = None) -> None:
    tx.db.run(ADD, {"at": at, "kind": kind, "data": data})


def kinds(tx: Transaction) -> list[str]:
    return [row[0] for row in tx.db.rows("SELECT kind FROM activity ORDER BY id")]


class SteppingClock(StoppedClock):
    """Sleeps until the test says go on, and tells the test that somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = asyncio.Event()
        self.go_on = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asleep.set()
        await self.go_on.wait()
        await super().sleep(seconds)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself does not wait for a lock, so that all waiting is the store's."""
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT_MS", 0)


@pytest.fixture
def another(database_file: Path) -> Iterator[sqlite3.Connection]:
    """Another program on the same file."""
    connection = sqlite3.connect(database_file, isolation_level=None)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", ["store", "inline_store"])
async def test_a_transaction_commits_and_returns_its_value(name: str, request: pytest.FixtureRequest) -> None:
    store: SqlStore = request.getfixturevalue(name)

    def work(tx: Transaction) -> str:
        add(tx, "done")
        return "value"

    assert await store.transact(work) == "value"
    assert await store.read(kinds) == ["done"]


@pytest.mark.parametrize("name", ["store", "inline_store"])
async def test_an_error_rolls_everything_back_and_reaches_the_caller(name: str, request: pytest.FixtureRequest) -> None:
    store: SqlStore = request.getfixturevalue(name)

    def work(tx: Transaction) -> None:
        add(tx, "half")
        raise LookupError("in the middle")

    with pytest.raises(LookupError, match="in the middle"):
        await store.transact(work)
    assert await store.read(kinds) == []


async def test_a_broken_rule_of_the_database_rolls_back_what_came_before_it(store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        add(tx, "half")
        for _ in range(2):
            tx.db.run("INSERT INTO job_leases (job) VALUES ('same')")

    with pytest.raises(sqlite3.IntegrityError):
        await store.transact(work)
    assert await store.read(kinds) == []


async def test_the_store_goes_on_after_an_error(store: SqlStore) -> None:
    with pytest.raises(ZeroDivisionError):
        await store.transact(lambda _: 1 / 0)
    await store.transact(lambda tx: add(tx, "after"))
    assert await store.read(kinds) == ["after"]


@pytest.mark.parametrize("name", ["store", "inline_store"])
async def test_reading_keeps_nothing(name: str, request: pytest.FixtureRequest) -> None:
    store: SqlStore = request.getfixturevalue(name)

    def work(tx: Transaction) -> list[str]:
        add(tx, "scribble")
        return kinds(tx)

    assert await store.read(work) == ["scribble"]
    assert await store.read(kinds) == []


async def test_a_read_sees_one_snapshot_though_others_commit_meanwhile(
    store: SqlStore, another: sqlite3.Connection
) -> None:
    def work(tx: Transaction) -> Sequence[list[str]]:
        before = kinds(tx)
        another.execute("INSERT INTO activity (at, kind) VALUES ('2026-01-01 00:00:00.000000', 'meanwhile')")
        return before, kinds(tx)

    inline = SqlStore(store._engine, StoppedClock(), InlineRunner(), InlineRunner())
    assert await inline.read(work) == ([], [])
    assert await store.read(kinds) == ["meanwhile"]


async def test_rehearsing_runs_work_twice_and_keeps_only_the_second(store: SqlStore) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> int:
        runs.append(len(kinds(tx)))
        add(tx, "once")
        return len(runs)

    assert await store.transact(work) == 2
    assert runs == [0, 0]
    assert await store.read(kinds) == ["once"]


async def test_without_rehearsing_work_runs_once(engine: Engine) -> None:
    store = SqlStore(engine, StoppedClock(), InlineRunner(), InlineRunner())
    runs: list[int] = []
    await store.transact(lambda _: runs.append(1))
    assert runs == [1]


@pytest.mark.parametrize("name", ["store", "inline_store"])
@pytest.mark.parametrize("verb", ["transact", "read"])
async def test_a_work_that_awaits_is_refused_and_writes_nothing(
    name: str, verb: str, request: pytest.FixtureRequest
) -> None:
    store: SqlStore = request.getfixturevalue(name)

    async def work(tx: Transaction) -> None:
        add(tx, "never")

    async def streams(tx: Transaction) -> Any:
        add(tx, "never")
        yield

    def lazy(tx: Transaction) -> Iterator[None]:
        add(tx, "never")
        yield

    def leaks(tx: Transaction) -> Any:
        add(tx, "before")
        return work(tx)

    for refused in (work, streams, lazy, leaks):
        with pytest.raises(TypeError, match="plain function"):
            await cast("Any", getattr(store, verb))(refused)
    assert await store.read(kinds) == []


@pytest.mark.usefixtures("impatient")
async def test_a_busy_database_is_waited_out_off_the_database_thread(
    engine: Engine, another: sqlite3.Connection
) -> None:
    clock = SteppingClock()
    store = SqlStore(engine, clock, ThreadRunner(1, "w"), ThreadRunner(1, "r"))
    another.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(store.transact(lambda tx: add(tx, "in the end")))
    await clock.asleep.wait()
    assert await store.read(kinds) == []
    another.execute("ROLLBACK")
    clock.go_on.set()
    await waiting
    assert await store.read(kinds) == ["in the end"]
    store.close()


@pytest.mark.usefixtures("impatient")
def test_on_virtual_time_a_busy_database_costs_no_real_time(database_file: Path, another: sqlite3.Connection) -> None:
    loop = VirtualLoop()
    engine = make_engine(f"sqlite:///{database_file}")
    store = SqlStore(engine, VirtualClock(loop), InlineRunner(), InlineRunner())

    async def main() -> float:
        another.execute("BEGIN IMMEDIATE")
        loop.call_later(0.1, another.execute, "ROLLBACK")
        await store.transact(lambda tx: add(tx, "later"))
        return loop.time()

    assert run_virtually(main(), loop=loop) >= 0.1
    store.close()


@pytest.mark.usefixtures("impatient")
async def test_a_database_locked_for_good_ends_in_one_sentence(engine: Engine, another: sqlite3.Connection) -> None:
    clock = StoppedClock()
    store = SqlStore(engine, clock, InlineRunner(), InlineRunner())
    another.execute("BEGIN IMMEDIATE")
    runs: list[int] = []
    with pytest.raises(DatabaseUnavailable) as refused:
        await store.transact(lambda _: runs.append(1))
    assert str(refused.value) == f"The database {engine.url} cannot be used: database is locked."
    assert runs == []
    assert clock.now() > NOW


@pytest.mark.usefixtures("impatient")
async def test_writes_on_a_locked_file_wait_a_bounded_time_however_many_queue(
    engine: Engine, another: sqlite3.Connection
) -> None:
    clock, tries = StoppedClock(), 0

    class OneTryTakesTwoSeconds(InlineRunner):
        """One writer thread: transactions queue before it, and each try of one waits for the lock."""

        turn = asyncio.Lock()

        async def run(self, function: Any) -> Any:
            nonlocal tries
            async with self.turn:
                await asyncio.sleep(0)
                try:
                    return function()
                except DRIVER_ERRORS:
                    tries += 1
                    clock.time += timedelta(seconds=2)
                    raise

    runner = OneTryTakesTwoSeconds()
    store = SqlStore(engine, clock, runner, runner)
    another.execute("BEGIN IMMEDIATE")
    writes = [store.transact(kinds) for _ in range(30)]
    ended = await asyncio.gather(*writes, return_exceptions=True)
    assert {type(each) for each in ended} == {DatabaseUnavailable}
    assert tries <= 6
    assert clock.now() - NOW < timedelta(seconds=15)
    another.execute("ROLLBACK")
    assert await store.transact(kinds) == []


@pytest.mark.usefixtures("impatient")
async def test_the_pauses_before_running_again_grow_and_are_bounded(
    engine: Engine, another: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    class Noting(StoppedClock):
        async def sleep(self, seconds: float) -> None:
            pauses.append(seconds)

    monkeypatch.setattr(store_module, "ATTEMPTS", 12)
    another.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseUnavailable):
        await SqlStore(engine, Noting(), InlineRunner(), InlineRunner()).transact(kinds)
    assert len(pauses) == 11
    assert pauses[0] < pauses[2] < pauses[4]
    assert max(pauses) <= store_module.PAUSE.longest


async def test_a_full_disk_is_said_in_one_sentence_and_loses_nothing_committed(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: add(tx, "safe"))

    def work(tx: Transaction) -> None:
        tx.db.run("PRAGMA max_page_count=1")
        for _ in range(50):
            add(tx, "too much", data="x" * 100_000)

    with pytest.raises(DatabaseUnavailable, match="disk is full"):
        await inline_store.transact(work)
    assert await inline_store.read(kinds) == ["safe"]


async def test_writes_of_many_coroutines_serialise_without_loss(store: SqlStore) -> None:
    def increment(tx: Transaction) -> None:
        seen = tx.db.value("SELECT count(*) FROM activity")
        add(tx, str(seen))

    await asyncio.gather(*(store.transact(increment) for _ in range(40)))
    assert await store.read(kinds) == [str(n) for n in range(40)]


async def test_two_stores_on_one_file_do_not_lose_one_anothers_writes(store: SqlStore, database_file: Path) -> None:
    def increment(tx: Transaction) -> None:
        add(tx, str(tx.db.value("SELECT count(*) FROM activity")))

    engine = make_engine(f"sqlite:///{database_file}")
    second = SqlStore(engine, StoppedClock(), ThreadRunner(1, "w"), ThreadRunner(1, "r"))
    await asyncio.gather(*(one.transact(increment) for one in [store, second] * 15))
    assert await store.read(kinds) == [str(n) for n in range(30)]
    second.close()


async def test_readers_do_not_wait_for_the_writer(store: SqlStore) -> None:
    writing, release = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        add(tx, "slow")
        writing.set()
        assert release.wait(600)

    write = asyncio.create_task(store.transact(work))
    assert await asyncio.to_thread(writing.wait, 30)
    assert await asyncio.gather(*(store.read(kinds) for _ in range(8))) == [[]] * 8
    release.set()
    await write
    assert await store.read(kinds) == ["slow"]


async def test_closing_waits_for_the_transaction_that_is_running(store: SqlStore, another: sqlite3.Connection) -> None:
    writing, release = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        add(tx, "last")
        writing.set()
        assert release.wait(600)

    write = asyncio.create_task(store.transact(work))
    assert await asyncio.to_thread(writing.wait, 30)
    closing = asyncio.create_task(asyncio.to_thread(store.close))
    release.set()
    await write
    await closing
    assert another.execute("SELECT kind FROM activity").fetchall() == [("last",)]


SEOUL = timezone(timedelta(hours=9))
MOMENTS = (
    datetime(2026, 11, 15, 6, 4, 5, 123456, tzinfo=UTC),
    datetime(2026, 11, 15, 6, 4, 5, tzinfo=UTC),
    datetime(2026, 11, 15, 6, 4, 5, 120000, tzinfo=UTC),
    datetime(2026, 11, 15, 0, 0, tzinfo=SEOUL),
    datetime(2026, 11, 15, 15, 4, 5, 123457, tzinfo=SEOUL),
    datetime(999, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
)


async def test_times_come_back_aware_in_utc_to_the_microsecond_and_sort_as_they_are_stored(store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        tx.db.many(ADD, ({"at": moment, "kind": "moment", "data": None} for moment in MOMENTS))

    await store.transact(work)
    rows = await store.read(lambda tx: tx.db.rows("SELECT at FROM activity ORDER BY at"))
    assert [row[0] for row in rows] == sorted(MOMENTS)
    assert {row[0].tzinfo for row in rows} == {UTC}


async def test_a_time_out_of_an_expression_can_be_had_too(store: SqlStore) -> None:
    await store.transact(lambda tx: add(tx, "one"))
    earliest = await store.read(lambda tx: tx.db.value("SELECT MIN(at) FROM activity"))
    assert engine_module.time_of(earliest) == NOW
    assert engine_module.time_of(None) is None
    assert engine_module.time_of(NOW) is NOW


async def test_a_time_without_a_zone_is_refused(store: SqlStore) -> None:
    with pytest.raises(ValueError, match="without a zone"):
        await store.transact(lambda tx: add(tx, "local", at=NOW.replace(tzinfo=None)))
    assert await store.read(kinds) == []


async def test_korean_and_emoji_survive(store: SqlStore) -> None:
    await store.transact(lambda tx: add(tx, "text", data=KOREAN))
    assert await store.read(lambda tx: tx.db.value("SELECT data FROM activity")) == KOREAN


@pytest.mark.parametrize(
    ("asked", "found"), [([], []), (["a"], ["a"]), (["a", "c", "missing"], ["a", "c"]), (["' OR 1=1 --"], [])]
)
async def test_a_statement_takes_a_list_of_any_length(store: SqlStore, asked: list[str], found: list[str]) -> None:
    def work(tx: Transaction) -> None:
        tx.db.many(ADD, [{"at": NOW, "kind": kind, "data": None} for kind in "abc"])
        tx.db.many(ADD, [])

    await store.transact(work)
    query = "SELECT kind FROM activity WHERE at = :at AND kind IN (:kinds) ORDER BY kind"
    rows = await store.read(lambda tx: tx.db.rows(query, {"at": NOW}, kinds=asked))
    assert [row[0] for row in rows] == found


async def test_a_statement_says_how_many_rows_it_touched(store: SqlStore) -> None:
    await store.transact(lambda tx: tx.db.many(ADD, [{"at": NOW, "kind": k, "data": None} for k in "abc"]))
    remove = "DELETE FROM activity WHERE kind IN (:kinds)"
    assert await store.transact(lambda tx: tx.db.run(remove, kinds=["a", "b", "z"])) == 2


async def test_no_row_is_none(store: SqlStore) -> None:
    assert await store.read(lambda tx: tx.db.row("SELECT 1 FROM activity")) is None
    assert await store.read(lambda tx: tx.db.value("SELECT 1 FROM activity")) is None


async def test_commits_are_counted_and_reads_and_failures_are_not() -> None:
    commits = Commits()
    store = SqlStore(make_engine("sqlite://"), StoppedClock(), InlineRunner(), InlineRunner(), commits=commits)
    await store.transact(lambda tx: tx.db.run("CREATE TABLE things (name TEXT)"))
    await store.read(lambda tx: tx.db.rows("SELECT name FROM things"))
    with pytest.raises(ZeroDivisionError):
        await store.transact(lambda _: 1 // 0)
    assert (commits.number, store.commits) == (1, commits)
    store.close()


def test_commits_are_refused_where_other_processes_could_write(tmp_path: Path) -> None:
    engine = make_engine(f"sqlite:///{tmp_path / 'shared.db'}")
    with pytest.raises(ValueError, match="only a database in memory"):
        SqlStore(engine, StoppedClock(), InlineRunner(), InlineRunner(), commits=Commits())
