"""A product's name beside its row, so that people can look for it by a piece of it."""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect, text

from sellerwatch.adapters.sql.migrations.types import may, varchar

revision = "0008"
down_revision = "0007"

# As it was last told. The events are JSON of our own making, which both engines can read.
FILL = """
UPDATE products SET name = SUBSTR((
    SELECT {name} FROM product_outbox o WHERE o.product_id = products.product_id ORDER BY o.id DESC LIMIT 1), 1, 255)
WHERE name IS NULL AND version > 0
"""
NAMES = {
    "sqlite": "CASE WHEN json_valid(o.payload) THEN json_extract(o.payload, '$.productData.name') END",
    "mysql": "CASE WHEN JSON_VALID(o.payload) THEN JSON_UNQUOTE(JSON_EXTRACT(o.payload, '$.productData.name')) END",
}


def upgrade() -> None:
    if not _is_there():
        op.add_column("products", may("name", varchar(255)))
    op.get_bind().execute(text(FILL.replace("{name}", NAMES[op.get_bind().dialect.name])))


def downgrade() -> None:
    if _is_there():
        op.drop_column("products", "name")


def _is_there() -> bool:
    return "name" in {column["name"] for column in inspect(op.get_bind()).get_columns("products")}
