"""Bodies, history and events, compressed against a stored detail (`adapters/sql/deltas.py`).

What is stored already is compressed by a job of the service, step by step; `text_conversions` says how far it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zstandard
from alembic import op
from sqlalchemy import inspect, text
from sqlalchemy.dialects import mysql

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import BIG, TIME, WORD, may, need, row_id

revision = "0020"
down_revision = "0019"

#: Each table with the column of its texts. Bodies are compressed first: the others are, against them.
TEXTS = {"product_raw_data": "raw_json", "product_changes": "changes", "product_outbox": "payload"}

LAST = "SELECT MAX(id) FROM {table}"
BEGIN = "INSERT INTO text_conversions (table_name, after_row, last_row) VALUES (:table, 0, :last)"

PACKED = """
SELECT t.id, t.{column}, b.raw_json FROM {table} t LEFT JOIN product_raw_data b ON b.id = t.base_id
WHERE t.id > :after AND {is_packed} ORDER BY t.id LIMIT 200
"""
EXPANDED = "UPDATE {table} SET {column} = {given}, base_id = NULL WHERE id = :row"


def upgrade() -> None:
    for table in TEXTS:
        if "base_id" not in _columns(table):
            op.add_column(table, may("base_id", BIG))
    if _is_mysql():
        op.alter_column("product_outbox", "payload", type_=mysql.LONGBLOB(), existing_nullable=False)
    create_table(
        "text_conversions",
        row_id(),
        need("table_name", WORD),
        need("after_row", BIG, start=0),
        need("last_row", BIG),
        may("updated_at", TIME),
        unique("text_conversions__uq_table_name", "table_name"),
    )
    database = op.get_bind()
    begun = database.execute(text("SELECT 1 FROM text_conversions")).first() is not None
    for table in TEXTS:
        last = database.execute(text(LAST.format(table=table))).scalar_one()
        if last is not None and not begun:
            database.execute(text(BEGIN), {"table": table, "last": last})


def downgrade() -> None:
    if "base_id" in _columns("product_outbox"):
        # The bodies last: the others were compressed against them.
        _expand("product_changes", "t.base_id IS NOT NULL")
        _expand("product_outbox", "SUBSTR(t.payload, 1, 1) <> '{'")
        _expand("product_raw_data", "t.base_id IS NOT NULL")
    for table in TEXTS:
        if "base_id" in _columns(table):
            op.drop_column(table, "base_id")
    if _is_mysql():
        op.alter_column("product_outbox", "payload", type_=mysql.LONGTEXT(), existing_nullable=False)
    drop_tables("text_conversions")


def _expand(table: str, is_packed: str) -> None:
    """Write texts as they were stored before: events plain, others compressed without a base. What is damaged stays."""
    database, column, after = op.get_bind(), TEXTS[table], 0
    select = text(PACKED.format(table=table, column=column, is_packed=is_packed))
    # As digits at the server, so that a script of it is plain text.
    given = "UNHEX(:text)" if _is_mysql() else ":text"
    update = text(EXPANDED.format(table=table, column=column, given=given))
    store: Callable[[bytes], Any] = zstandard.ZstdCompressor(level=-1).compress
    if table == "product_outbox":
        store = bytes if _is_mysql() else bytes.decode
    while rows := database.execute(select, {"after": after}).all():
        texts = ((row, _text(data, base)) for row, data, base in rows)
        found = [{"row": row, "text": store(plain)} for row, plain in texts if plain is not None]
        if found:
            database.execute(update, [each | {"text": each["text"].hex()} for each in found] if _is_mysql() else found)
        after = rows[-1][0]


def _text(data: bytes | str, base: bytes | None) -> bytes | None:
    try:
        packed = data.encode() if isinstance(data, str) else data
        if base is None:
            return zstandard.ZstdDecompressor().decompress(packed)
        body = zstandard.ZstdDecompressor().decompress(base)
        dictionary = zstandard.ZstdCompressionDict(body, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        return zstandard.ZstdDecompressor(dict_data=dictionary).decompress(packed)
    except zstandard.ZstdError:
        return None


def _is_mysql() -> bool:
    return bool(op.get_bind().dialect.name == "mysql")


def _columns(table: str) -> set[str]:
    return {column["name"] for column in inspect(op.get_bind()).get_columns(table)}
