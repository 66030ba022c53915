"""What is MySQL's alone: its dialect, its months, its plans, its locks, and its server's clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import zstandard
from sqlalchemy import Connection, Engine, inspect
from tests.adapters.sql.test_query_plans import Ask
from tests.builders import NOW, StoppedClock, worker_id
from tests.outbox.delivery_world import SELLER
from tests.servers import MariaDb

from sellerwatch.adapters.sql import mysql
from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.mysql import MysqlDb
from sellerwatch.adapters.sql.server_clock import ASK_EVERY, ServerClock
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore, ThreadRunner
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.adapters.sql.usage_log_partitions import keep_months, partitions
from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, ProductId, SellerId, TaskId
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.oversight.retention import KeptRows

LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
POOL_TABLES = {
    "user_agent_pool",
    "user_agent_token",
    "token_usage_log",
    "circuit_breaker_state",
    "circuit_breaker_event",
    "rate_limit_bucket",
    "token_refresh_schedule",
}
LOG = """INSERT INTO token_usage_log (agent_id, is_success, is_rate_limited, is_429_error, request_timestamp)
VALUES (:agent, 1, 0, 0, :at)"""


@pytest.fixture
def on() -> str:
    return "mariadb"


def names(engine: Engine) -> list[str]:
    return [each.name for each in partitions(engine)]


SPELLED = {
    "SELECT a FROM t WHERE b = :b AND c IN (:c_0, :c_1)": "SELECT a FROM t WHERE b = %(b)s AND c IN (%(c_0)s, %(c_1)s)",
    "UPDATE t SET a = ? WHERE b = 'a ? :b 10%' AND c % 2 = 0": (
        "UPDATE t SET a = %s WHERE b = 'a ? :b 10%%' AND c %% 2 = 0"
    ),
    "INSERT INTO t (a, b)\nVALUES (:a, :b)\nON CONFLICT (a) DO NOTHING\n": (
        "INSERT IGNORE INTO t (a, b) VALUES (%(a)s, %(b)s)"
    ),
    "INSERT INTO t (a, n) VALUES (?, ?) ON CONFLICT (a) DO UPDATE SET n = t.n + excluded.n": (
        "INSERT INTO t (a, n) VALUES (%s, %s) ON DUPLICATE KEY UPDATE n = t.n + VALUES(n)"
    ),
}


@pytest.mark.parametrize("ours", SPELLED)
def test_a_statement_is_spelled_as_mysql_has_it_and_texts_in_it_are_left_alone(ours: str) -> None:
    assert mysql._parts(ours).whole.strip() == SPELLED[ours]


def test_the_schema_has_its_pool_tables_agents_and_months(engine: Engine) -> None:
    assert set(inspect(engine).get_table_names()) >= POOL_TABLES
    with engine.connect() as database:
        assert database.exec_driver_sql("SELECT COUNT(*) FROM user_agent_pool").scalar_one() == 100
    assert names(engine) == [*(f"p2026{month:02d}" for month in range(1, 13)), "p_future"]
    indexes = {index["name"] for table in POOL_TABLES for index in inspect(engine).get_indexes(table)}
    assert "token_usage_log__idx_429_errors" in indexes
    assert "user_agent_pool__idx_active_unblocked" in indexes


def test_months_are_cut_off_the_rest_before_they_begin_and_lose_no_line(engine: Engine) -> None:
    late = datetime(2027, 2, 10, tzinfo=UTC)
    with engine.connect() as connection, connection.begin():
        Transaction(connection).db.many(LOG, [{"agent": 1, "at": late}, {"agent": 2, "at": NOW}])
    assert keep_months(engine, datetime(2026, 11, 30, tzinfo=UTC), LONG_AGO) == 0
    assert names(engine)[-4:] == ["p202612", "p202701", "p202702", "p_future"]
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT COUNT(*) FROM token_usage_log PARTITION (p202702)").scalar_one()
    assert found == 1


def test_months_past_their_time_are_dropped_whole_and_doing_it_again_does_nothing(engine: Engine) -> None:
    with engine.connect() as connection, connection.begin():
        old = [{"agent": 1, "at": datetime(2026, month, 28, tzinfo=UTC)} for month in (1, 2, 3)]
        Transaction(connection).db.many(LOG, old)
    now = datetime(2026, 6, 15, tzinfo=UTC)
    for dropped in (2, 0):
        assert keep_months(engine, now, datetime(2026, 3, 15, tzinfo=UTC)) == dropped
        assert names(engine)[0] == "p202603"
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM token_usage_log").scalar_one() == 1


def test_a_range_of_times_looks_only_into_its_months(engine: Engine) -> None:
    asked = "SELECT COUNT(*) FROM token_usage_log WHERE request_timestamp BETWEEN '2026-05-02' AND '2026-06-02'"
    with engine.connect() as connection:
        (found,) = connection.exec_driver_sql(f"EXPLAIN PARTITIONS {asked}").mappings()
    assert found["partitions"] == "p202605,p202606"


class Recording(MysqlDb):
    """Notes what is asked, with its values in place."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, only_reads=True)
        self.sent: list[str] = []

    def _execute(self, lock: str, sql: str, params: Any, in_lists: Any) -> int:
        touched = super()._execute(lock, sql, params, in_lists)
        self.sent.append(str(self._cursor._executed))
        return touched


ROWS = 3_000
STOCK = {
    "crawler_tasks": "task_id, execution_id, seller_id, task_type, purpose, item_no, request_url, status, available_at,"
    " created_at, updated_at",
    "products": "product_id, item_no, seller_id, created_at, updated_at",
    "product_raw_data": "product_id, data_type, raw_hash, raw_json, created_at",
    "product_outbox": "outbox_id, product_id, item_no, seller_id, event_type, version, payload, status,"
    " next_attempt_at, created_at, updated_at",
    "crawling_schedule_executions": "execution_id, schedule_id, seller_id, status, started_at, created_at",
    "user_agent_token": "agent_id, token_value, token_fingerprint, key_id, issued_at, expires_at, is_active",
    "circuit_breaker_event": "agent_id, event_type, event_timestamp",
    "audit": "at, actor, action, subject_type, subject_id",
    "permits": "agent_id, worker_id, reserved_at, boot_id, boot_us, answered_boot_us",
}


def uuid(number: int) -> str:
    return f"{number:08x}-0000-7000-8000-000000000000"


def stock(n: int) -> dict[str, tuple[Any, ...]]:
    seller, status = f"s{n % 20}", ("WAITING", "COMPLETED", "FAILED")[n % 3]
    waits = "COMPLETED" if n % 50 else "WAITING"
    return {
        "crawler_tasks": (uuid(n), uuid(n % 20), seller, "PRODUCT_DETAIL", "CRAWL", n, "/x", status, NOW, NOW, NOW),
        "products": (uuid(n), n, seller, NOW, NOW),
        "product_raw_data": (uuid(n % 900), "DETAIL", "", zstandard.compress(b""), NOW),
        "product_outbox": (uuid(n), uuid(n), n, seller, "X", 1, "{}", waits, NOW, NOW, NOW),
        "crawling_schedule_executions": (uuid(n), uuid(n % 20), seller, "COMPLETED" if n % 50 else "RUNNING", NOW, NOW),
        "user_agent_token": (n % 100, "x", n.to_bytes(32, "big"), "k", NOW, NOW + n * timedelta(hours=1), n % 50 == 0),
        "circuit_breaker_event": (n % 100, "FAILURE", NOW + n * timedelta(hours=1)),
        "audit": (NOW + n * timedelta(hours=1), "kim", "x", "agent", uuid(n)),
        "permits": (1 + n % 100, uuid(1), NOW, "b", n, n if n % 50 else None),
    }


@pytest.fixture(scope="module")
def stocked(mariadb: MariaDb, mariadb_template: str) -> Iterator[Engine]:
    """Thousands of rows in the tables that grow: a plan that looks at all of them would be a dear one."""
    url = mariadb.copy(mariadb_template)
    engine = make_engine(url)
    with engine.connect() as connection, connection.begin():
        for table, columns in STOCK.items():
            marks = ", ".join("?" for _ in columns.split(","))
            insert = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
            Transaction(connection).db.many(insert, [stock(n)[table] for n in range(1, ROWS)])
    with engine.connect() as connection:
        connection.exec_driver_sql(f"ANALYZE TABLE {', '.join(STOCK)}").all()
    yield engine
    engine.dispose()
    mariadb.drop(url)


ONE = ExecutionId(uuid(1))
PLANS: dict[str, tuple[Ask, str]] = {
    "ready tasks of a run": (lambda tx: tx.task_claims.ready(ONE, NOW, 50), "crawler_tasks__idx_execution_id_status"),
    "tasks by their ids": (
        lambda tx: tx.task_claims.attempts_held(worker_id(1), [TaskId(uuid(n)) for n in range(1, 9)]),
        "crawler_tasks__uq_task_id",
    ),
    "products by item": (lambda tx: tx.products.of_items([ItemNo(n) for n in range(1, 9)]), "products__uq_item_no"),
    "products in the order of their changes": (
        lambda tx: tx.product_queries.page(seller_id=None, state=None, cursor=None, limit=20, updated=(NOW, NOW)),
        "products__idx_updated_at",
    ),
    "the newest raw parts": (
        lambda tx: tx.bodies.latest_raws([ProductId(uuid(1))]),
        "product_raw_data__idx_product_id_data_type",
    ),
    "messages that are due": (
        lambda tx: tx.delivery_queue(OutboxKind.PRODUCT).due(NOW, SellerId("s1"), 20),
        "product_outbox__idx_status_seller_id_next_attempt_at",
    ),
    "messages of a subject": (
        lambda tx: tx.product_outbox.latest_of(ProductId(uuid(1)), 10),
        "product_outbox__idx_product_id_id_status",
    ),
    "old tasks": (lambda tx: tx.old_rows.find(KeptRows.TASKS, NOW, 50), "crawler_tasks__idx_status_created_at"),
    "old events of circuits": (
        lambda tx: tx.old_rows.find(KeptRows.CIRCUIT_EVENTS, NOW, 50),
        "circuit_breaker_event__idx_event_type",
    ),
    "old tokens": (lambda tx: tx.old_rows.find(KeptRows.TOKENS, NOW, 50), "user_agent_token__idx_expires"),
    "old entries of the audit trail": (lambda tx: tx.old_rows.find(KeptRows.AUDIT, NOW, 50), "PRIMARY"),
    "permits without an answer": (lambda tx: tx.permits.unanswered(), "permits__idx_answered_boot_us"),
    "429s of an agent": (lambda tx: tx.usage_log.last_hour(1, NOW), "token_usage_log__idx_user_agent_time"),
}


@pytest.mark.parametrize("name", PLANS)
def test_hot_questions_find_their_rows_by_their_index(stocked: Engine, name: str) -> None:
    ask, index = PLANS[name]
    with stocked.connect() as connection, connection.begin() as nothing_is_kept:
        tx = Transaction(connection)
        tx.db = db = Recording(connection)
        ask(tx)
        plans = [
            row
            for sent in tuple(db.sent)
            for row in connection.exec_driver_sql(f"EXPLAIN {sent.replace('%', '%%')}").mappings()
        ]
        nothing_is_kept.rollback()
    assert index in {row["key"] for row in plans}
    whole = [row for row in plans if row["type"] == "ALL" and not row["table"].startswith("<")]
    assert not whole


def test_whoever_takes_tasks_takes_them_in_the_order_of_the_index_and_passes_over_what_is_held(stocked: Engine) -> None:
    with stocked.connect() as here, stocked.connect() as there, here.begin() as mine, there.begin() as theirs:
        first = Transaction(here).task_claims.ready(ONE, NOW, 10)
        second = Transaction(there).task_claims.ready(ONE, NOW, 10)
        theirs.rollback()
        mine.rollback()
    assert len(first) == len(second) == 10
    assert not {task.task_id for task in first} & {task.task_id for task in second}


async def together(url: str, number: int, work: Callable[[int], Callable[[Transaction], Any]]) -> list[Any]:
    """The same at the same moment, by so many with connections of their own."""
    clock = SystemClock()
    engines = [make_engine(url, connections=2) for _ in range(number)]
    stores = [SqlStore(engine, clock, ThreadRunner(1, "test-write"), InlineRunner()) for engine in engines]
    begin = threading.Barrier(number)

    def at_once(n: int) -> Callable[[Transaction], Any]:
        once = work(n)
        began = False

        def run(tx: Transaction) -> Any:
            nonlocal began
            if not began:
                began = True
                begin.wait(600)
            return once(tx)

        return run

    try:
        return list(await asyncio.gather(*(store.transact(at_once(n)) for n, store in enumerate(stores))))
    finally:
        for store in stores:
            store.close()


def message(number: int) -> Message:
    return Message(
        outbox_id=OutboxId(f"{number:08x}-0000-7000-8000-000000000000"),
        subject_id=ProductId(f"{number % 40:08x}-0000-7000-8000-00000000000f"),
        seller_id=SELLER,
        event_type="PRODUCT_UPDATED",
        payload=b"{}",
        created_at=NOW,
        next_attempt_at=NOW,
        item_no=ItemNo(1 + number % 40),
        version=1,
    )


async def test_sixteen_senders_never_claim_a_message_twice_nor_two_of_a_subject(database_url: str) -> None:
    store = SqlStore(make_engine(database_url), StoppedClock(), InlineRunner(), InlineRunner())
    await store.transact(lambda tx: tx.product_outbox.add_all([message(n) for n in range(1, 81)]))

    def claim(number: int) -> Callable[[Transaction], list[Message]]:
        def work(tx: Transaction) -> list[Message]:
            taken = [
                each.send(worker_id(number + 1)) for each in tx.delivery_queue(OutboxKind.PRODUCT).due(NOW, SELLER, 5)
            ]
            tx.product_outbox.move(taken, NOW)
            return taken

        return work

    found = [each for taken in await together(database_url, 16, claim) for each in taken]
    assert len({each.outbox_id for each in found}) == len(found)
    assert len({each.subject_id for each in found}) == len(found)
    assert len(found) > 5
    store.close()


async def test_of_sixteen_that_want_a_lease_one_gets_it(database_url: str) -> None:
    def take(number: int) -> Callable[[Transaction], bool]:
        return lambda tx: tx.leases.take("job", f"worker {number}", NOW + timedelta(minutes=5), NOW)

    assert sum(await together(database_url, 16, take)) == 1
    assert sum(await together(database_url, 16, lambda n: lambda tx: tx.leases.take("job", "late", NOW, NOW))) == 0


async def test_what_several_look_for_and_then_insert_is_found_by_the_slower_ones(database_url: str) -> None:
    """A look and an INSERT are two steps here: who is second meets the unique index, runs again, and finds it."""

    def make(number: int) -> Callable[[Transaction], str]:
        def work(tx: Transaction) -> str:
            found = tx.db.value("SELECT owner FROM job_leases WHERE job = 'same'")
            if found is None:
                tx.db.run("INSERT INTO job_leases (job, owner) VALUES ('same', :owner)", {"owner": f"worker {number}"})
                return f"worker {number}"
            return str(found)

        return work

    assert len(set(await together(database_url, 8, make))) == 1


async def test_deadlocks_are_run_again_until_everybody_is_done(database_url: str) -> None:
    store = SqlStore(make_engine(database_url), StoppedClock(), InlineRunner(), InlineRunner())
    for job in ("a", "b"):
        await store.transact(lambda tx, job=job: tx.leases.take(job, "0", NOW, NOW))  # type: ignore[misc]

    def cross(number: int) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            for job in ("ab", "ba")[number % 2]:
                tx.db.run("UPDATE job_leases SET owner = owner + 1 WHERE job = :job", {"job": job})

        return work

    await together(database_url, 8, cross)
    assert await store.read(lambda tx: tx.db.rows("SELECT owner FROM job_leases")) == (("8",), ("8",))
    store.close()


class Machine(StoppedClock):
    """`trip`: how long each question to the server takes, by this machine's clock."""

    def __init__(self, trip: float = 0.0) -> None:
        super().__init__()
        self.seconds = 1000.0
        self.trip = trip

    def monotonic(self) -> float:
        self.seconds += self.trip
        return self.seconds


def test_two_machines_at_one_server_go_by_one_clock_whatever_theirs_say(engine: Engine) -> None:
    first, second = Machine(), Machine()
    second.seconds = 777_777.0
    here, there = ServerClock(engine, first), ServerClock(engine, second)
    assert here.boot_id == there.boot_id
    assert abs(here.monotonic() - there.monotonic()) < 5
    assert abs((here.now() - SystemClock().now()).total_seconds()) < 5


def test_a_servers_clock_that_was_set_back_stands_still_and_never_goes_back(engine: Engine) -> None:
    machine = Machine()
    clock = ServerClock(engine, machine)
    times = [clock.monotonic()]
    with engine.connect() as connection:
        with connection.begin():
            connection.exec_driver_sql(f"SET timestamp = {times[0] - 3600}")
        machine.seconds += ASK_EVERY
        clock.pulse(connection)
        times += [clock.monotonic()]
        machine.seconds += 100
        times += [clock.monotonic()]
        connection.invalidate()
    assert times[1] == times[2]
    assert all(earlier <= later for earlier, later in pairwise(times))


def test_a_servers_clock_that_was_set_forward_fills_every_window_for_one_window(engine: Engine) -> None:
    machine = Machine()
    clock = ServerClock(engine, machine)
    before = clock.monotonic()
    with engine.connect() as connection:
        with connection.begin():
            connection.exec_driver_sql(f"SET timestamp = {before + 7200}")
        machine.seconds += ASK_EVERY
        clock.pulse(connection)
        connection.invalidate()
    assert clock.monotonic() > before + 7000
    with engine.connect() as connection:
        (full,) = connection.exec_driver_sql("SELECT DISTINCT full_until_us FROM rate_limit_bucket").scalars()
    assert full > (before + 7200 + 3590) * 1_000_000


def test_a_server_that_was_silent_for_a_while_is_not_taken_for_one_whose_clock_was_set(engine: Engine) -> None:
    """It answers at the end of a long trip: the middle of that is far from when it did."""
    machine = Machine()
    clock = ServerClock(engine, machine)
    before = clock.monotonic()
    with engine.connect() as connection:
        with connection.begin():
            connection.exec_driver_sql(f"SET timestamp = {before + ASK_EVERY + 75}")
        machine.seconds += ASK_EVERY
        machine.trip = 25.0
        clock.pulse(connection)
        machine.trip = 0.0
        connection.invalidate()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT MAX(full_until_us) FROM rate_limit_bucket").scalar_one() is None


def test_a_server_far_away_still_corrects_the_clock(engine: Engine) -> None:
    machine = Machine(trip=0.2)
    clock = ServerClock(engine, machine)
    machine.seconds += ASK_EVERY
    ahead = clock._ahead
    with engine.connect() as connection:
        clock.pulse(connection)
    assert clock._ahead != ahead


async def test_what_happened_is_told_in_order_though_a_lower_number_is_committed_later(database_url: str) -> None:
    engine = make_engine(database_url)
    now = SystemClock().now()
    reader = SqlStore(engine, StoppedClock(), InlineRunner(), InlineRunner())

    async def told() -> list[str]:
        return [activity.kind for _, activity in await reader.read(lambda tx: tx.activity.after(0, 10))]

    await reader.transact(lambda tx: tx.activity.add(Activity(now, "first")))
    with engine.connect() as slow, slow.begin():
        Transaction(slow).activity.add(Activity(now, "second"))
        await reader.transact(lambda tx: tx.activity.add(Activity(now, "third")))
        assert await told() == ["first"]
    assert await told() == ["first", "second", "third"]
    reader.close()
