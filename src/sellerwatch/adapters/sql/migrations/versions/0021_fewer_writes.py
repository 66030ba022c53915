"""Fewer index entries to write for each request; see docs/decisions/0026-texts-stored-once.md.

An index that no query used goes. On SQLite four others leave out the rows that no query finds by them: completed tasks
of a run, and requests that succeeded. MySQL has no such indexes.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from sellerwatch.adapters.sql.migrations.tables import create_index, drop_index

revision = "0021"
down_revision = "0020"

TASKS, LOG = "crawler_tasks", "token_usage_log"
UNUSED = (TASKS, f"{TASKS}__idx_status_available_at_id", "status", "available_at", "id")
#: Table, name, columns, and which rows an index has on SQLite.
SMALLER = (
    (TASKS, f"{TASKS}__idx_execution_id_status", ("execution_id", "status", "available_at"), "status <> 'COMPLETED'"),
    (LOG, f"{LOG}__idx_429_errors", ("is_429_error", "agent_id", "request_timestamp"), "is_429_error = 1"),
    (LOG, f"{LOG}__idx_rate_limit", ("is_rate_limited", "request_timestamp"), "is_rate_limited = 1"),
    (LOG, f"{LOG}__idx_http_status", ("http_status_code", "request_timestamp"), "http_status_code <> 200"),
)


def upgrade() -> None:
    drop_index(UNUSED[0], UNUSED[1])
    if op.get_bind().dialect.name == "sqlite":
        for table, name, columns, rows in SMALLER:
            drop_index(table, name)
            op.create_index(name, table, columns, sqlite_where=text(rows))


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table, name, columns, _ in SMALLER:
            drop_index(table, name)
            create_index(table, name, *columns)
    create_index(*UNUSED)
