"""Resyncs, and the order in which products changed."""

from __future__ import annotations

from sqlalchemy import Index

from sellerwatch.adapters.sql.migrations.tables import create_index, create_table, drop_index, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import BIG, CODE, INT, SELLER, TIME, UUID, may, need, row_id, varchar

revision = "0012"
down_revision = "0013"

PRODUCTS = "products"
UPDATED = f"{PRODUCTS}__idx_updated_at"


def upgrade() -> None:
    create_table(
        "resyncs",
        row_id(),
        need("resync_id", UUID),
        may("open_key", SELLER),
        may("seller_id", SELLER),
        may("since", TIME),
        need("status", CODE),
        need("total", INT),
        need("last_row", BIG),
        need("after_row", BIG, start=0),
        need("written", INT, start=0),
        need("backlog", INT, start=0),
        need("requested_by", varchar(255)),
        need("created_at", TIME),
        need("measured_at", TIME),
        may("ended_at", TIME),
        may("ended_by", varchar(255)),
        unique("resyncs__uq_resync_id", "resync_id"),
        unique("resyncs__uq_open_key", "open_key"),
        Index("resyncs__idx_seller_id", "seller_id"),
        Index("resyncs__idx_status", "status"),
    )
    create_index(PRODUCTS, UPDATED, "updated_at")


def downgrade() -> None:
    drop_index(PRODUCTS, UPDATED)
    drop_tables("resyncs")
