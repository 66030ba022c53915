"""Delivery: the channel of each outbox, a row for every try, and indexes that know who is first in line."""

from __future__ import annotations

from sqlalchemy import Index

from sellerwatch.adapters.sql.migrations.tables import create_index, create_table, drop_index, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import BOOL, CODE, INT, TEXT, TIME, UUID, may, need, row_id, varchar

revision = "0006"
down_revision = "0005"

LINES = (("product_outbox", "product_id"), ("scheduler_outbox", "schedule_id"))


def upgrade() -> None:
    create_table(
        "outbox_channels",
        row_id(),
        need("outbox", CODE),
        need("state", CODE),
        need("failure_count", INT, start=0),
        need("opening_count", INT, start=0),
        may("most_in_flight", INT),
        may("opened_at", TIME),
        may("closed_at", TIME),
        may("not_before", TIME),
        may("probe_outbox_id", UUID),
        may("reason", TEXT),
        may("next_send_at", TIME),
        may("paused_at", TIME),
        may("paused_by", varchar(100)),
        need("updated_at", TIME),
        unique("outbox_channels__uq_outbox", "outbox"),
    )
    create_table(
        "outbox_attempts",
        row_id(),
        need("outbox", CODE),
        need("outbox_id", UUID),
        need("try_number", INT),
        need("attempted_at", TIME),
        may("duration_ms", INT),
        may("http_status_code", INT),
        need("verdict", CODE),
        need("is_counted", BOOL),
        may("answer", TEXT),
        Index("outbox_attempts__idx_outbox_id", "outbox_id"),
    )
    for table, subject in LINES:
        create_index(table, f"{table}__idx_{subject}_id_status", subject, "id", "status")
        drop_index(table, f"{table}__idx_{subject}")


def downgrade() -> None:
    for table, subject in LINES:
        create_index(table, f"{table}__idx_{subject}", subject)
        drop_index(table, f"{table}__idx_{subject}_id_status")
    drop_tables("outbox_attempts", "outbox_channels")
