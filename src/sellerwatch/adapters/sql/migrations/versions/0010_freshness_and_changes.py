"""When parts were read, what changed, what each run found, figures of days, and whether a seller is late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import zstandard
from alembic import op
from sqlalchemy import Column, Index, inspect, text

from sellerwatch.adapters.sql.migrations.tables import create_index, create_table, drop_index, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import (
    BIG,
    CODE,
    INT,
    REAL,
    SELLER,
    TIME,
    UUID,
    WORD,
    may,
    need,
    row_id,
    varchar,
)

revision = "0010"
down_revision = "0009"

EXECUTIONS, PRODUCTS, LOG, OUTBOX = "crawling_schedule_executions", "products", "token_usage_log", "product_outbox"
COUNTS = ("new_products", "changed_products", "gone_products", "unchanged_products")
READ = ("detail_read_at", "option_read_at")
SENT_INDEX = f"{OUTBOX}__idx_seller_id_sent_at"

# The nearest that is known: a run that listed a product read its parts soon afterwards.
FILL_READ = """
UPDATE products SET detail_read_at = CASE WHEN detail_data_hash IS NOT NULL THEN last_seen_at END,
    option_read_at = CASE WHEN option_data_hash IS NOT NULL THEN last_seen_at END
"""

HISTORY = """
SELECT id, item_no, seller_id, execution_id, event_type, changes, created_at FROM product_changes
WHERE id > :after ORDER BY id LIMIT 500
"""
ADD_CHANGE = """
INSERT INTO changes (history_id, item_no, seller_id, execution_id, kind, field, created_at)
VALUES (:history_id, :item_no, :seller_id, :execution_id, :kind, :field, :created_at)
"""
WHOLE = {"PRODUCT_CREATED": "new", "PRODUCT_DELETED": "gone"}
KINDS = {
    "prices": "price",
    "stock": "stock",
    "images": "image",
    "name": "text",
    "descriptionHtml": "text",
    "tags": "tag",
    "brand": "brand",
    "categories": "category",
    "shipping": "shipping",
}


def upgrade() -> None:
    if _add(PRODUCTS, *(may(name, TIME) for name in READ)):
        op.get_bind().execute(text(FILL_READ))
    _add(EXECUTIONS, *(may(name, INT) for name in COUNTS))
    _add(LOG, may("seller_id", SELLER))
    create_index(OUTBOX, SENT_INDEX, "seller_id", "sent_at", "created_at")
    _create_days()
    _create_changes()


def downgrade() -> None:
    drop_tables("changes", "day_counts", "day_metrics", "seller_freshness")
    drop_index(OUTBOX, SENT_INDEX)
    _drop(LOG, "seller_id")
    _drop(EXECUTIONS, *COUNTS)
    _drop(PRODUCTS, *READ)


def _create_days() -> None:
    create_table(
        "seller_freshness",
        row_id(),
        need("seller_id", SELLER),
        need("planned_run_seconds", REAL, start=0),
        may("late_since", TIME),
        may("check_at", TIME),
        need("updated_at", TIME),
        unique("seller_freshness__uq_seller_id", "seller_id"),
    )
    create_table(
        "day_metrics",
        row_id(),
        need("seller_id", SELLER),
        need("day", WORD),
        *(need(f"{name}_tasks", INT, start=0) for name in ("waiting", "in_progress", "completed", "failed")),
        *(need(f"{name}_products", INT, start=0) for name in ("seen", "new", "changed", "removed", "complete")),
        need("total_products", INT, start=0),
        need("delivered_events", INT, start=0),
        need("requests", INT, start=0),
        need("computed_at", TIME),
        unique("day_metrics__uq_seller_id_day", "seller_id", "day"),
        Index("day_metrics__idx_day", "day"),
    )
    create_table(
        "day_counts",
        row_id(),
        need("seller_id", SELLER),
        need("day", WORD),
        need("kind", CODE),
        need("name", WORD),
        need("number", BIG),
        unique("day_counts__uq_seller_id_day_kind_name", "seller_id", "day", "kind", "name"),
        Index("day_counts__idx_kind_name_number", "kind", "name", "number"),
    )


def _create_changes() -> None:
    create_table(
        "changes",
        row_id(),
        need("history_id", BIG),
        need("item_no", BIG),
        need("seller_id", SELLER),
        may("execution_id", UUID),
        need("kind", CODE),
        may("field", varchar(255)),
        need("created_at", TIME),
        Index("changes__idx_seller_id_created_at", "seller_id", "created_at"),
        Index("changes__idx_seller_id_kind_created_at", "seller_id", "kind", "created_at"),
        Index("changes__idx_execution_id_kind", "execution_id", "kind"),
    )
    database = op.get_bind()
    # Cut off in its middle, it goes on behind what it has written.
    after = database.execute(text("SELECT COALESCE(MAX(history_id), 0) FROM changes")).scalar_one()
    expand = zstandard.ZstdDecompressor().decompress
    while rows := database.execute(text(HISTORY), {"after": after}).all():
        found = [
            {
                "history_id": row[0],
                "item_no": row[1],
                "seller_id": row[2],
                "execution_id": row[3],
                "kind": kind,
                "field": field,
                "created_at": row[6],
            }
            for row in rows
            for kind, field in _changes_of(row[4], row[5], expand)
        ]
        if found:
            database.execute(text(ADD_CHANGE), found)
        after = rows[-1][0]


def _changes_of(event: str, packed: bytes, expand: Any) -> Iterator[tuple[str, str | None]]:
    if event in WHOLE:
        yield WHOLE[event], None
        return
    try:
        changes = orjson.loads(expand(packed))
    except (zstandard.ZstdError, orjson.JSONDecodeError):
        # One damaged row must not keep a database from its upgrade.
        return
    for field, before, after in changes if isinstance(changes, list) else ():
        yield _kind(field, before, after), field[:255]


def _kind(field: str, before: object, after: object) -> str:
    if field.startswith("options["):
        inside = field.partition("]")[2]
        if not inside:
            return "option_added" if before is None else "option_removed"
        return "stock" if inside == ".stock" else "option_changed"
    if field == "soldOut":
        return "sold_out" if after else "back_in_stock"
    return KINDS.get(field.partition(".")[0], "attribute")


def _columns(table: str) -> set[str]:
    return {column["name"] for column in inspect(op.get_bind()).get_columns(table)}


def _add(table: str, *columns: Column[Any]) -> bool:
    """Add what is missing; return whether anything was."""
    present = _columns(table)
    missing = [column for column in columns if column.name not in present]
    for column in missing:
        op.add_column(table, column)
    return bool(missing)


def _drop(table: str, *names: str) -> None:
    present = _columns(table)
    for name in names:
        if name in present:
            op.drop_column(table, name)
