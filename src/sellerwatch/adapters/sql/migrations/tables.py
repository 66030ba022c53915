"""Create and drop tables so that a step can be run again.

MySQL commits after each DDL statement: a step that was cut off leaves some of its tables without its revision being
recorded. So a step creates only what is missing.
"""

from __future__ import annotations

from datetime import UTC, datetime

from alembic import op
from sqlalchemy import Index, MetaData, Table, inspect
from sqlalchemy.schema import CreateIndex, CreateTable, SchemaItem

from sellerwatch.adapters.sql.migrations import TableInTheWay


def create_table(name: str, *items: SchemaItem, never_reuse_ids: bool = False) -> None:
    """Create the table, then its indexes, each unless it exists."""
    table = Table(
        name,
        MetaData(),
        *items,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        sqlite_autoincrement=never_reuse_ids,
    )
    database = op.get_bind()
    if not inspect(database).has_table(name):
        database.execute(CreateTable(table))
    elif not {column["name"] for column in inspect(database).get_columns(name)} >= set(table.columns.keys()):
        # More are those of later steps.
        raise TableInTheWay(name)
    present = {index["name"] for index in inspect(database).get_indexes(name)}
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        if index.name not in present:
            database.execute(CreateIndex(index))


def drop_tables(*names: str) -> None:
    """Drop tables with their data and indexes."""
    for name in names:
        op.drop_table(name, if_exists=True)


def create_index(table: str, name: str, *columns: str) -> None:
    """Create an index on an existing table, unless it exists."""
    if name not in _indexes(table):
        op.create_index(name, table, columns)


def drop_index(table: str, name: str) -> None:
    if name in _indexes(table):
        op.drop_index(name, table)


def _indexes(table: str) -> set[str | None]:
    return {index["name"] for index in inspect(op.get_bind()).get_indexes(table)}


def unique(name: str, *columns: str) -> Index:
    return Index(name, *columns, unique=True)


def now() -> datetime:
    """Return the time that the runner was given, in UTC; without a zone where the driver writes it as it is."""
    config = op.get_context().config
    if config is None:
        raise RuntimeError("a step needs the time; run it by sellerwatch.adapters.sql.migrate")
    moment: datetime = config.attributes["now"]
    in_utc = moment.astimezone(UTC)
    return in_utc if op.get_bind().dialect.name == "mysql" else in_utc.replace(tzinfo=None)
