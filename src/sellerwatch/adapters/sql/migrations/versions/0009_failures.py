"""Failures as values, executions that wait to start, the state of the marketplace's endpoints, and removed agents."""

from __future__ import annotations

import hashlib
import json

from alembic import op
from sqlalchemy import Column, Index, inspect, text

from sellerwatch.adapters.sql.migrations.tables import create_index, create_table, drop_index, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import (
    BOOL,
    CODE,
    INT,
    LONG_TEXT,
    SELLER,
    SHA256,
    TEXT,
    TIME,
    UUID,
    WORD,
    may,
    need,
    row_id,
    varchar,
)

revision = "0009"
down_revision = "0008"

TASKS, EXECUTIONS, TOKENS = "crawler_tasks", "crawling_schedule_executions", "user_agent_token"
PENDING_INDEX = f"{EXECUTIONS}__idx_next_start_at"

# How the sentences of earlier versions began, and whom they blamed; the first that fits counts.
BEGINNINGS = (
    ("%The marketplace answered 401%", "AGENT"),
    ("%The marketplace answered 403%", "AGENT"),
    ("%The marketplace answered 429%", "AGENT"),
    ("%The marketplace answered 404%", "PRODUCT"),
    ("%The marketplace answered 410%", "PRODUCT"),
    ("%answer cannot be read%", "PARSER"),
    ("%The marketplace%", "MARKETPLACE"),
    ("%The request failed%", "MARKETPLACE"),
    ("the total could not be asked%", "MARKETPLACE"),
    ("cancelled%", "PERSON"),
)
CASES = " ".join(f"WHEN error_message LIKE '{beginning}' THEN '{blame}'" for beginning, blame in BEGINNINGS)

CONVERT = f"""
UPDATE {{table}} SET failure_code = 'RECORDED', failure_at = COALESCE(completed_at, created_at),
    failure_blame = CASE {CASES} ELSE 'OURSELVES' END, failure_facts = {{facts}}
WHERE error_message IS NOT NULL AND status <> 'COMPLETED'
"""
FACTS = {"sqlite": "json_object('text', error_message)", "mysql": "JSON_OBJECT('text', error_message)"}
CONVERT_NOTES = f"UPDATE {TASKS} SET note = SUBSTR(error_message, 1, 255) WHERE status = 'COMPLETED'"

RESTORE = "UPDATE {table} SET error_message = {text} WHERE failure_code IS NOT NULL"
# Codes are ASCII on MySQL, and beside one a sentence would have to be as well.
TEXTS = {
    "sqlite": "COALESCE(json_extract(failure_facts, '$.text'), failure_code)",
    "mysql": "COALESCE(JSON_UNQUOTE(JSON_EXTRACT(failure_facts, '$.text')), CONVERT(failure_code USING utf8mb4))",
}
RESTORE_NOTES = f"UPDATE {TASKS} SET error_message = note WHERE note IS NOT NULL"


# The newest removals on the audit trail, where they were looked up before they had a table.
REMOVALS = "SELECT at, state_before FROM audit WHERE action = 'agent.remove' ORDER BY id DESC LIMIT 1000"
ADD_REMOVED = "INSERT INTO removed_agents (user_agent_hash, removed_at) VALUES (:hash, :at)"

# Who started each run, from the audit trail, where it was looked up before it had a column.
STARTS = "SELECT actor, state_after FROM audit WHERE action = 'crawl.start'"
SET_STARTED_BY = f"UPDATE {EXECUTIONS} SET started_by = :actor WHERE execution_id = :id AND started_by IS NULL"


def upgrade() -> None:
    engine = op.get_bind().dialect.name
    for table in (TASKS, EXECUTIONS):
        _add(table, *_failure())
    _add(TASKS, may("note", varchar(255)))
    _add(EXECUTIONS, need("start_tries", INT, start=0), may("next_start_at", TIME), may("started_by", varchar(100)))
    _add(TOKENS, need("is_rejected", BOOL, start=0), need("is_replacement", BOOL, start=0))
    for table in (TASKS, EXECUTIONS):
        if "error_message" in _columns(table):
            op.get_bind().execute(text(CONVERT.format(table=table, facts=FACTS[engine])))
            if table == TASKS:
                op.get_bind().execute(text(CONVERT_NOTES))
            op.drop_column(table, "error_message")
    create_index(EXECUTIONS, PENDING_INDEX, "next_start_at")
    create_table(
        "marketplace_circuits",
        row_id(),
        need("endpoint", CODE),
        need("state", CODE),
        need("opening_count", INT, start=0),
        may("since", TIME),
        may("not_before", TIME),
        may("probe_worker_id", UUID),
        may("closed_at", TIME),
        may("most_at_once", INT),
        *_failure(),
        need("recent_failures", LONG_TEXT),
        may("away_since", TIME),
        need("failed_subjects", LONG_TEXT),
        need("updated_at", TIME),
        unique("marketplace_circuits__uq_endpoint", "endpoint"),
    )
    create_table(
        "marketplace_pauses",
        row_id(),
        need("scope", SELLER),
        need("paused_at", TIME),
        need("paused_by", varchar(100)),
        Index("marketplace_pauses__uq_scope", "scope", unique=True),
    )
    _create_removed_agents()
    _fill_started_by()


def downgrade() -> None:
    drop_tables("removed_agents")
    drop_tables("marketplace_pauses", "marketplace_circuits")
    drop_index(EXECUTIONS, PENDING_INDEX)
    engine = op.get_bind().dialect.name
    for table in (TASKS, EXECUTIONS):
        _add(table, may("error_message", TEXT))
        if "failure_code" in _columns(table):
            op.get_bind().execute(text(RESTORE.format(table=table, text=TEXTS[engine])))
    if "note" in _columns(TASKS):
        op.get_bind().execute(text(RESTORE_NOTES))
    for table in (TASKS, EXECUTIONS):
        _drop(table, "failure_code", "failure_blame", "failure_facts", "failure_at")
    _drop(TASKS, "note")
    _drop(EXECUTIONS, "start_tries", "next_start_at", "started_by")
    _drop(TOKENS, "is_rejected", "is_replacement")


def _create_removed_agents() -> None:
    database = op.get_bind()
    create_table(
        "removed_agents",
        row_id(),
        need("user_agent_hash", SHA256),
        need("removed_at", TIME),
        unique("removed_agents__uq_user_agent_hash", "user_agent_hash"),
    )
    if database.execute(text("SELECT COUNT(*) FROM removed_agents")).scalar():
        return
    newest: dict[bytes, object] = {}
    for at, state in database.execute(text(REMOVALS)):
        before = json.loads(state or "{}")
        if before.get("requestsInWindow") and "userAgent" in before:
            newest.setdefault(hashlib.sha256(before["userAgent"].encode()).digest(), at)
    for user_agent_hash, at in newest.items():
        database.execute(text(ADD_REMOVED), {"hash": user_agent_hash, "at": at})


def _fill_started_by() -> None:
    database = op.get_bind()
    for actor, state in database.execute(text(STARTS)).all():
        execution_id = json.loads(state or "{}").get("executionId")
        if execution_id is not None:
            database.execute(text(SET_STARTED_BY), {"actor": actor[:100], "id": execution_id})


def _failure() -> tuple[Column[object], ...]:
    return (
        may("failure_code", WORD),
        may("failure_blame", CODE),
        may("failure_facts", TEXT),
        may("failure_at", TIME),
    )


def _columns(table: str) -> set[str]:
    return {column["name"] for column in inspect(op.get_bind()).get_columns(table)}


def _add(table: str, *columns: Column[object]) -> None:
    present = _columns(table)
    for column in columns:
        if column.name not in present:
            op.add_column(table, column)


def _drop(table: str, *names: str) -> None:
    present = _columns(table)
    for name in names:
        if name in present:
            op.drop_column(table, name)
