"""The catalogue's own tables: history, hashes of bodies, what a run found out, quarantine, removals, drift."""

from __future__ import annotations

from sqlalchemy import Column, Index

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import (
    BIG,
    CODE,
    INT,
    LONG_BYTES,
    MD5,
    ROW_ID,
    SELLER,
    TEXT,
    TIME,
    UUID,
    may,
    need,
    row_id,
    varchar,
)

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    _what_changed()
    _what_is_held()


def downgrade() -> None:
    drop_tables("drift", "removals", "held_parts", "quarantine", "run_notes", "body_hashes", "product_changes")


def _what_changed() -> None:
    create_table(
        "product_changes",
        row_id(),
        need("product_id", UUID),
        need("item_no", BIG),
        need("seller_id", SELLER),
        may("execution_id", UUID),
        may("outbox_id", UUID),
        need("event_type", CODE),
        need("version", INT),
        need("changes", LONG_BYTES),
        need("created_at", TIME),
        Index("product_changes__idx_product_id", "product_id"),
    )
    create_table(
        "body_hashes",
        Column("item_no", ROW_ID, primary_key=True, autoincrement=False),
        may("detail_hash", MD5),
        may("option_hash", MD5),
    )
    create_table(
        "run_notes",
        row_id(),
        need("execution_id", UUID),
        need("kind", CODE),
        need("name", varchar(255)),
        need("number", INT, 0),
        unique("run_notes__uq_execution_id_kind_name", "execution_id", "kind", "name"),
    )
    create_table(
        "drift",
        row_id(),
        need("endpoint", CODE),
        need("path", varchar(255)),
        need("times", INT, 0),
        may("item_no", BIG),
        need("first_seen_at", TIME),
        need("last_seen_at", TIME),
        unique("drift__uq_endpoint_path", "endpoint", "path"),
    )


def _what_is_held() -> None:
    create_table(
        "quarantine",
        row_id(),
        need("case_id", UUID),
        need("seller_id", SELLER),
        need("execution_id", UUID),
        need("data_type", CODE),
        need("kind", CODE),
        need("field", varchar(255)),
        need("status", CODE),
        may("sample_item_no", BIG),
        may("sample_before", TEXT),
        may("sample_after", TEXT),
        need("created_at", TIME),
        need("updated_at", TIME),
        may("decided_by", varchar(100)),
        unique("quarantine__uq_case_id", "case_id"),
        Index("quarantine__idx_status", "status"),
        Index("quarantine__idx_seller_id_status", "seller_id", "status"),
    )
    create_table(
        "held_parts",
        row_id(),
        need("item_no", BIG),
        need("data_type", CODE),
        need("status", CODE),
        may("case_id", UUID),
        need("seller_id", SELLER),
        need("execution_id", UUID),
        need("hash", MD5),
        may("raw_json", LONG_BYTES),
        need("created_at", TIME),
        unique("held_parts__uq_item_no_data_type", "item_no", "data_type"),
        Index("held_parts__idx_execution_id_status", "execution_id", "status"),
        Index("held_parts__idx_case_id", "case_id"),
    )
    create_table(
        "removals",
        row_id(),
        need("removal_id", UUID),
        need("seller_id", SELLER),
        need("execution_id", UUID),
        need("reason", CODE),
        need("status", CODE),
        need("told", INT, 0),
        need("missing", INT, 0),
        need("unseen_since", TIME),
        need("created_at", TIME),
        may("decided_at", TIME),
        may("decided_by", varchar(100)),
        unique("removals__uq_removal_id", "removal_id"),
        Index("removals__idx_status", "status"),
        Index("removals__idx_seller_id_status", "seller_id", "status"),
    )
