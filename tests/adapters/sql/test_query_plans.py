"""The hot queries find their rows by the index that is there for them: no scan of a table, no sorting of its rows."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

# Queries as the repositories ask them -> the index that must serve them.
HOT = {
    "claim tasks": (
        (
            "SELECT id FROM crawler_tasks WHERE status = 'PUBLISHED' AND available_at <= :t"
            " ORDER BY available_at, id LIMIT 50"
        ),
        "crawler_tasks__idx_status_available_at_id",
    ),
    "tasks of a seller, newest first": (
        "SELECT * FROM crawler_tasks WHERE seller_id = :x ORDER BY created_at DESC LIMIT 20",
        "crawler_tasks__idx_seller_id_created_at",
    ),
    "open tasks of a run": (
        "SELECT count(*) FROM crawler_tasks WHERE execution_id = :x AND status = 'WAITING'",
        "COVERING INDEX crawler_tasks__idx_execution_id_status",
    ),
    "tasks by status and age": (
        "SELECT min(created_at) FROM crawler_tasks WHERE status = 'FAILED'",
        "COVERING INDEX crawler_tasks__idx_status_created_at",
    ),
    "outbox due": (
        (
            "SELECT id FROM product_outbox WHERE status = 'WAITING' AND next_attempt_at <= :t"
            " ORDER BY next_attempt_at, id LIMIT 50"
        ),
        "product_outbox__idx_status_next_attempt_at",
    ),
    "outbox lag": (
        "SELECT min(created_at) FROM product_outbox WHERE status = 'WAITING'",
        "COVERING INDEX product_outbox__idx_status_created_at",
    ),
    "outbox of a product, in order": (
        "SELECT * FROM product_outbox WHERE product_id = :x ORDER BY id",
        "product_outbox__idx_product_id",
    ),
    "scheduler outbox due": (
        (
            "SELECT id FROM scheduler_outbox WHERE status = 'WAITING' AND next_attempt_at <= :t"
            " ORDER BY next_attempt_at, id LIMIT 50"
        ),
        "scheduler_outbox__idx_status_next_attempt_at",
    ),
    "schedules due": (
        "SELECT * FROM crawling_schedules WHERE status = 'ACTIVE' AND next_run_at <= :t ORDER BY next_run_at",
        "crawling_schedules__idx_status",
    ),
    "the open run of a seller": (
        "SELECT * FROM crawling_schedule_executions WHERE open_seller_id = :x",
        "crawling_schedule_executions__uq_open_seller_id",
    ),
    "runs of a seller, newest first": (
        "SELECT * FROM crawling_schedule_executions WHERE seller_id = :x ORDER BY started_at DESC LIMIT 20",
        "crawling_schedule_executions__idx_seller_id_started_at",
    ),
    "a product by its number": ("SELECT * FROM products WHERE item_no = :x", "products__uq_item_no"),
    "complete products of a seller": (
        "SELECT * FROM products WHERE seller_id = :x AND is_complete = 1",
        "products__idx_seller_id_is_complete",
    ),
    "the newest raw part": (
        "SELECT raw_json FROM product_raw_data WHERE product_id = :x AND data_type = 'DETAIL' ORDER BY id DESC LIMIT 1",
        "product_raw_data__idx_product_id_data_type",
    ),
    "suspended agents to recover": (
        "SELECT * FROM user_agent_pool WHERE status = 'SUSPENDED' AND suspended_until <= :t",
        "user_agent_pool__idx_active_unblocked",
    ),
    "circuits that are not closed": (
        "SELECT * FROM circuit_breaker_state WHERE circuit_state IN ('OPEN', 'HALF_OPEN')",
        "circuit_breaker_state__idx_state_failure",
    ),
    "429s in the last hour per agent": (
        (
            "SELECT agent_id, count(*) FROM token_usage_log WHERE is_429_error = 1 AND request_timestamp >= :t"
            " GROUP BY agent_id"
        ),
        "COVERING INDEX token_usage_log__idx_429_errors",
    ),
    "tokens to refresh": (
        (
            "SELECT * FROM token_refresh_schedule WHERE is_enabled = 1 AND next_refresh_time <= :t"
            " ORDER BY next_refresh_time"
        ),
        "token_refresh_schedule__idx_next_refresh",
    ),
    "permits in an agent's window": (
        "SELECT count(*) FROM permits WHERE agent_id = :x AND answered_at > :t",
        "permits__idx_agent_id_answered_at",
    ),
    "permits without an answer": (
        "SELECT count(*) FROM permits WHERE agent_id = :x AND answered_at IS NULL",
        "permits__idx_agent_id_answered_at",
    ),
    "processes whose heartbeat lapsed": (
        "SELECT * FROM workers WHERE heartbeat_at < :t",
        "workers__idx_heartbeat_at",
    ),
    "audit of a subject, newest first": (
        "SELECT * FROM audit WHERE subject_type = 'seller' AND subject_id = :x ORDER BY id DESC LIMIT 50",
        "audit__idx_subject_type_subject_id_id",
    ),
}
# These group or sort a handful of rows, so a sort on top of the index is right.
SORTING = {
    "tasks of a seller by day": (
        "SELECT status, count(*) FROM crawler_tasks WHERE seller_id = :x AND created_at >= :t GROUP BY status",
        "COVERING INDEX crawler_tasks__idx_seller_id_created_at",
    ),
    "agents to lend, healthiest first": (
        "SELECT * FROM user_agent_pool WHERE status = 'AVAILABLE' ORDER BY health_score DESC, last_used_at",
        "user_agent_pool__idx_active_unblocked",
    ),
}


def plan(engine: Engine, query: str) -> str:
    with engine.connect() as database:
        rows = database.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", {"x": "1", "t": "2026-02-03 04:05:06.000000"})
        return "\n".join(row.detail for row in rows)


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_is_served_by_its_index_alone(migrated: Engine, name: str) -> None:
    query, index = HOT[name]
    found = plan(migrated, query)
    assert index in found
    assert "SCAN" not in found
    assert "TEMP B-TREE" not in found


@pytest.mark.parametrize("name", SORTING)
def test_a_small_report_finds_its_rows_by_an_index(migrated: Engine, name: str) -> None:
    query, index = SORTING[name]
    found = plan(migrated, query)
    assert index in found
    assert "SCAN" not in found
