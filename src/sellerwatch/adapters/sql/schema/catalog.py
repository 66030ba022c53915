"""What the catalogue keeps beside the products: their history, and what is held until somebody has looked at it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, String, Text

from sellerwatch.adapters.sql.schema.types import (
    Code,
    Hash,
    LongBytes,
    PublicId,
    RowId,
    SellerKey,
    Time,
    count,
    row_id,
    table,
)

# One row for every state a product was found in. `changes` (zstd) leads from the state before to this one, from nothing
# where it was created: in the order of the ids they replay the product.
product_changes = table(
    "product_changes",
    row_id(),
    Column("product_id", PublicId, nullable=False),
    Column("item_no", BigInteger, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    Column("execution_id", PublicId),
    Column("outbox_id", PublicId),
    Column("event_type", Code, nullable=False),
    Column("version", Integer, nullable=False),
    Column("changes", LongBytes, nullable=False),
    Column("created_at", Time, nullable=False),
    Index("product_changes__idx_product_id", "product_id"),
)

# The hash of the body each part was last read from: an equal one is not read again. Apart from the products, because a
# body may change with every answer while the product does not.
body_hashes = table(
    "body_hashes",
    Column("item_no", RowId, primary_key=True, autoincrement=False),
    Column("detail_hash", Hash),
    Column("option_hash", Hash),
)

# What a run has found out so far: parts judged, fields changed, answers that could not be read, items of others, a
# pause. One row for each kind and name.
run_notes = table(
    "run_notes",
    row_id(),
    Column("execution_id", PublicId, nullable=False),
    Column("kind", Code, nullable=False),
    Column("name", String(255), nullable=False),
    count("number"),
    Index("run_notes__uq_execution_id_kind_name", "execution_id", "kind", "name", unique=True),
)

quarantine = table(
    "quarantine",
    row_id(),
    Column("case_id", PublicId, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    Column("execution_id", PublicId, nullable=False),
    Column("data_type", Code, nullable=False),
    Column("kind", Code, nullable=False),
    Column("field", String(255), nullable=False),
    Column("status", Code, nullable=False),
    Column("sample_item_no", BigInteger),
    Column("sample_before", Text),
    Column("sample_after", Text),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    Column("decided_by", String(100)),
    Index("quarantine__uq_case_id", "case_id", unique=True),
    Index("quarantine__idx_status", "status"),
    Index("quarantine__idx_seller_id_status", "seller_id", "status"),
)

# A part has at most one row: a newer body takes the place of the older. Of a dropped one the hash is left.
held_parts = table(
    "held_parts",
    row_id(),
    Column("item_no", BigInteger, nullable=False),
    Column("data_type", Code, nullable=False),
    Column("status", Code, nullable=False),
    Column("case_id", PublicId),
    Column("seller_id", SellerKey, nullable=False),
    Column("execution_id", PublicId, nullable=False),
    Column("hash", Hash, nullable=False),
    Column("raw_json", LongBytes),
    Column("created_at", Time, nullable=False),
    Index("held_parts__uq_item_no_data_type", "item_no", "data_type", unique=True),
    Index("held_parts__idx_execution_id_status", "execution_id", "status"),
    Index("held_parts__idx_case_id", "case_id"),
)

removals = table(
    "removals",
    row_id(),
    Column("removal_id", PublicId, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    Column("execution_id", PublicId, nullable=False),
    Column("reason", Code, nullable=False),
    Column("status", Code, nullable=False),
    count("told"),
    count("missing"),
    # Products not seen since then are what it is about.
    Column("unseen_since", Time, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("decided_at", Time),
    Column("decided_by", String(100)),
    Index("removals__uq_removal_id", "removal_id", unique=True),
    Index("removals__idx_status", "status"),
    Index("removals__idx_seller_id_status", "seller_id", "status"),
)

drift = table(
    "drift",
    row_id(),
    Column("endpoint", Code, nullable=False),
    Column("path", String(255), nullable=False),
    count("times"),
    Column("item_no", BigInteger),
    Column("first_seen_at", Time, nullable=False),
    Column("last_seen_at", Time, nullable=False),
    Index("drift__uq_endpoint_path", "endpoint", "path", unique=True),
)
