"""Resends: delivered events that are sent again, and what the receiver answered."""

from __future__ import annotations

from sqlalchemy import Index

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import (
    BIG,
    CODE,
    INT,
    LONG_TEXT,
    SELLER,
    TEXT,
    TIME,
    UUID,
    may,
    need,
    row_id,
    varchar,
)

revision = "0015"
down_revision = "0012"


def upgrade() -> None:
    create_table(
        "resends",
        row_id(),
        need("resend_id", UUID),
        need("status", CODE),
        need("outbox_ids", LONG_TEXT),
        may("seller_id", SELLER),
        may("event_type", CODE),
        may("item_no", BIG),
        may("since", TIME),
        may("until", TIME),
        need("total", INT),
        need("last_row", BIG),
        need("after_row", BIG, start=0),
        need("accepted", INT, start=0),
        need("refused", INT, start=0),
        need("failed", INT, start=0),
        need("failures", INT, start=0),
        may("accepted_at", TIME),
        may("not_before", TIME),
        may("problem", TEXT),
        need("requested_by", varchar(255)),
        need("created_at", TIME),
        may("ended_at", TIME),
        may("ended_by", varchar(255)),
        unique("resends__uq_resend_id", "resend_id"),
        Index("resends__idx_status", "status"),
    )
    create_table(
        "resent_events",
        row_id(),
        need("resend_id", UUID),
        need("outbox_id", UUID),
        need("answer", CODE),
        need("tries", INT),
        need("tried_at", TIME),
        need("duration_ms", INT),
        may("http_status_code", INT),
        may("text", TEXT),
        may("next_try_at", TIME),
        unique("resent_events__uq_resend_id_outbox_id", "resend_id", "outbox_id"),
        Index("resent_events__idx_resend_id_next_try_at", "resend_id", "next_try_at"),
        Index("resent_events__idx_tried_at", "tried_at"),
    )


def downgrade() -> None:
    drop_tables("resent_events", "resends")
