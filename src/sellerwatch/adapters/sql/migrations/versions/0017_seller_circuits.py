"""When the receiver last accepted something, the circuits of sellers at it, and an index that finds each seller's due
messages."""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect

from sellerwatch.adapters.sql.migrations.tables import create_index, create_table, drop_index, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import CODE, INT, SELLER, TEXT, TIME, UUID, may, need, row_id

revision = "0017"
down_revision = "0016"

CHANNELS, CIRCUITS = "outbox_channels", "outbox_seller_circuits"
OUTBOXES = ("product_outbox", "scheduler_outbox")
TIMES = ("probed_at", "rest_until", "accepted_at", "failed_at")
PROBE = "probe_outbox_id"


def upgrade() -> None:
    create_table(
        CIRCUITS,
        row_id(),
        need("outbox", CODE),
        need("seller_id", SELLER),
        need("state", CODE),
        need("failure_count", INT, start=0),
        may("failing_since", TIME),
        need("opening_count", INT, start=0),
        may("opened_at", TIME),
        may("not_before", TIME),
        may("reason", TEXT),
        need("updated_at", TIME),
        unique(f"{CIRCUITS}__uq_outbox_seller_id", "outbox", "seller_id"),
    )
    for name in TIMES:
        if name not in _columns():
            op.add_column(CHANNELS, may(name, TIME))
    if PROBE in _columns():
        op.drop_column(CHANNELS, PROBE)
    for table in OUTBOXES:
        create_index(table, _index(table), "status", "seller_id", "next_attempt_at")


def downgrade() -> None:
    for table in OUTBOXES:
        drop_index(table, _index(table))
    if PROBE not in _columns():
        op.add_column(CHANNELS, may(PROBE, UUID))
    for name in TIMES:
        if name in _columns():
            op.drop_column(CHANNELS, name)
    drop_tables(CIRCUITS)


def _columns() -> set[str]:
    return {column["name"] for column in inspect(op.get_bind()).get_columns(CHANNELS)}


def _index(table: str) -> str:
    return f"{table}__idx_status_seller_id_next_attempt_at"
