"""Rows that are too old to be kept: exactly those go, on both engines, and their size is about what is said."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.adapters.sql.test_query_plans import plans
from tests.builders import DAY, NOW, execution_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.engine import is_mysql, make_engine
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.oversight.retention import BYTES_PER_ROW, KeptRows

BEFORE = NOW - 30 * DAY
OLD, YOUNG = BEFORE - timedelta(seconds=1), BEFORE + timedelta(seconds=1)

Made = tuple[Any, ...]
RNG = random.Random(1)


def an_id() -> str:
    return str(uuid.UUID(int=RNG.getrandbits(128)))


def a_request(n: int, at: datetime, is_success: int = 1) -> Made:
    return (n % 100, n % 100, 200, 120 + n % 50, is_success, 0, 0, at, f"seller_{n % 200}")


def a_token_row(n: int, expires_at: datetime, is_active: int = 0) -> Made:
    issued_at = expires_at - timedelta(hours=2)
    return (
        n % 100,
        "x" * 380,
        RNG.randbytes(32),
        "k1",
        "x" * 88,
        "x" * 64,
        issued_at,
        expires_at,
        is_active,
    )


def an_event(n: int, at: datetime, kind: str = "FAILURE") -> Made:
    return (n % 100, kind, "CLOSED", None, at, "TOO_MANY", 429)


def a_task_row(n: int, at: datetime, status: str = "COMPLETED", run: str = execution_id(1)) -> Made:
    url = f"https://m.web.mustit.co.kr/mustit-api/facade-api/v1/item/{n}/detail/top"
    return (an_id(), run, "seller_1", "PRODUCT_DETAIL", "CRAWL", n, url, status, at, at, at, at, at, an_id(), n % 100)


def an_entry(n: int, at: datetime) -> Made:
    after = '{"status": "SUSPENDED", "suspendedUntil": "2026-11-19T22:07:07.076652+00:00", "reason": "by cli:kim"}'
    before = '{"status": "AVAILABLE", "suspendedUntil": null, "reason": null}'
    return (at, "cli:kim", "agent.suspend", "agent", an_id(), before, after)


COLUMNS = {
    KeptRows.REQUESTS: "agent_id, token_id, http_status_code, response_time_ms, is_success, is_rate_limited,"
    " is_429_error, request_timestamp, seller_id",
    KeptRows.TOKENS: "agent_id, token_value, token_fingerprint, key_id, nid, mustit_uid, issued_at, expires_at,"
    " is_active",
    KeptRows.CIRCUIT_EVENTS: "agent_id, event_type, from_state, to_state, event_timestamp, outcome, http_status_code",
    KeptRows.TASKS: "task_id, execution_id, seller_id, task_type, purpose, item_no, request_url, status, available_at,"
    " created_at, started_at, completed_at, updated_at, worker_id, agent_id",
    KeptRows.AUDIT: "at, actor, action, subject_type, subject_id, state_before, state_after",
}
#: What goes of each kind, and what stays.
OLD_ROWS: dict[KeptRows, list[Made]] = {
    KeptRows.REQUESTS: [a_request(1, OLD), a_request(2, OLD, is_success=0)],
    KeptRows.TOKENS: [a_token_row(1, OLD)],
    KeptRows.CIRCUIT_EVENTS: [an_event(1, OLD, kind) for kind in ("STATE_CHANGE", "FAILURE", "SUCCESS")],
    KeptRows.TASKS: [a_task_row(1, OLD), a_task_row(2, OLD, "FAILED")],
    KeptRows.AUDIT: [an_entry(1, OLD)],
}
YOUNG_ROWS: dict[KeptRows, list[Made]] = {
    KeptRows.REQUESTS: [a_request(3, YOUNG), a_request(4, YOUNG, is_success=0)],
    KeptRows.TOKENS: [a_token_row(2, YOUNG), a_token_row(3, OLD, is_active=1)],
    KeptRows.CIRCUIT_EVENTS: [an_event(4, YOUNG)],
    KeptRows.TASKS: [
        a_task_row(3, YOUNG),
        *(a_task_row(4 + n, OLD, status) for n, status in enumerate(("WAITING", "PUBLISHED", "IN_PROGRESS", "RETRY"))),
        # Of a run that is still going.
        a_task_row(9, OLD, run=execution_id(2)),
    ],
    KeptRows.AUDIT: [an_entry(2, YOUNG)],
}
RUN = """
INSERT INTO crawling_schedule_executions (execution_id, schedule_id, seller_id, status, started_at, created_at)
VALUES (:id, :id, 'seller_1', :status, :at, :at)
"""


def add(tx: Transaction, kind: KeptRows, rows: list[Made]) -> None:
    marks = ", ".join("?" for _ in rows[0])
    tx.db.many(f"INSERT INTO {kind} ({COLUMNS[kind]}) VALUES ({marks})", rows)  # noqa: S608


def within(engine: Engine, work: Callable[[Transaction], Any]) -> Any:
    with engine.connect() as connection, connection.begin():
        return work(Transaction(connection))


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("kind", KeptRows)
def test_old_rows_are_counted_found_and_deleted_and_no_others(migrated: Engine, kind: KeptRows) -> None:
    def prepare(tx: Transaction) -> None:
        for number, status in ((1, "COMPLETED"), (2, "RUNNING")):
            tx.db.run(RUN, {"id": execution_id(number), "status": status, "at": OLD})
        add(tx, kind, OLD_ROWS[kind])
        add(tx, kind, YOUNG_ROWS[kind])

    within(migrated, prepare)
    is_by_month = is_mysql(migrated) and kind is KeptRows.REQUESTS
    expected = 0 if is_by_month else len(OLD_ROWS[kind])
    assert within(migrated, lambda tx: tx.old_rows.count(kind, BEFORE)) == expected
    assert len(within(migrated, lambda tx: tx.old_rows.find(kind, BEFORE, 1))) == min(expected, 1)
    found = within(migrated, lambda tx: tx.old_rows.find(kind, BEFORE, 100))
    assert len(found) == expected
    assert within(migrated, lambda tx: tx.old_rows.delete(kind, found)) == expected
    kept = within(migrated, lambda tx: tx.db.value(f"SELECT COUNT(*) FROM {kind}"))  # noqa: S608
    assert kept == len(YOUNG_ROWS[kind]) + (len(OLD_ROWS[kind]) if is_by_month else 0)


@pytest.mark.parametrize("on", ["mariadb"])
def test_where_months_are_dropped_whole_months_are_counted(migrated: Engine) -> None:
    month = BEFORE.replace(day=1)
    rows = [a_request(1, month - DAY), a_request(2, month - DAY, is_success=0), a_request(3, month + DAY)]
    within(migrated, lambda tx: add(tx, KeptRows.REQUESTS, rows))
    assert within(migrated, lambda tx: tx.old_rows.count(KeptRows.REQUESTS, month + 5 * DAY)) == 2
    assert within(migrated, lambda tx: tx.old_rows.find(KeptRows.REQUESTS, NOW, 100)) == []


@pytest.mark.parametrize("on", ["sqlite"])
def test_the_oldest_audit_entries_are_found_from_the_first_on(migrated: Engine) -> None:
    found = plans(migrated, lambda tx: tx.old_rows.find(KeptRows.AUDIT, BEFORE, 100))
    assert "TEMP B-TREE" not in found, "the first hundred are read in the order of their numbers, and no more"


@pytest.mark.parametrize("on", ["sqlite"])
def test_a_step_costs_the_same_whatever_the_size_of_the_log(migrated: Engine) -> None:
    """Nobody else can write while rows are deleted: with the whole log looked through, that was 0.8 s at 2,000,000
    rows."""
    costs = []
    for size in (1_000, 5_000):
        rows = [a_request(n, OLD - timedelta(seconds=n), is_success=n % 10 > 0) for n in range(size)]
        within(migrated, lambda tx, rows=rows: add(tx, KeptRows.REQUESTS, rows))  # type: ignore[misc]
        found = within(migrated, lambda tx: tx.old_rows.find(KeptRows.REQUESTS, BEFORE, 500))
        assert len(found) == 500
        costs.append(instructions(migrated, lambda tx, found=found: tx.old_rows.delete(KeptRows.REQUESTS, found)))  # type: ignore[misc]
    assert costs[1] == pytest.approx(costs[0], rel=0.05)


def instructions(engine: Engine, work: Callable[[Transaction], Any]) -> int:
    """How many instructions of SQLite's machine a transaction takes."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    with engine.connect() as connection, connection.begin():
        raw: Any = connection.connection.driver_connection
        raw.set_progress_handler(count, 1)
        work(Transaction(connection))
        raw.set_progress_handler(None, 0)
    return counted


def test_a_row_takes_about_as_much_room_as_is_said(migrated_template: Path, tmp_path: Path) -> None:
    """An operator decides by it whether to shorten the time: it may be off by a quarter."""
    number = 3_000
    makers: dict[KeptRows, Callable[[int, datetime], Made]] = {
        KeptRows.REQUESTS: a_request,
        KeptRows.TOKENS: a_token_row,
        KeptRows.CIRCUIT_EVENTS: an_event,
        KeptRows.TASKS: a_task_row,
        KeptRows.AUDIT: an_entry,
    }
    engine = make_engine(f"sqlite:///{tmp_path}/sizes.db")
    (tmp_path / "sizes.db").write_bytes(migrated_template.read_bytes())
    for kind, make in makers.items():
        before = pages(engine)
        rows = [make(n, NOW + n * timedelta(milliseconds=37)) for n in range(number)]
        within(engine, lambda tx, kind=kind, rows=rows: add(tx, kind, rows))  # type: ignore[misc]
        assert (pages(engine) - before) / number == pytest.approx(BYTES_PER_ROW[kind], rel=0.25), kind
    engine.dispose()


def pages(engine: Engine) -> int:
    """The bytes of the file, without what is free in it."""
    with engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.rollback()
        raw.execute("VACUUM")
        return int(raw.execute("PRAGMA page_count").fetchone()[0] * raw.execute("PRAGMA page_size").fetchone()[0])
