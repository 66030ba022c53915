"""The column types of the schema, each with its form on both engines.

The aim is that a value compares the same way on SQLite and on MySQL/MariaDB: text is compared byte by byte (MySQL's
`_ci` collations would equate `Seller` and `seller`), ids and codes are ASCII there, which also quarters their share of
an index, and times keep their microseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    CHAR,
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine, UserDefinedType

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s__idx_%(column_0_N_name)s",
        "uq": "%(table_name)s__uq_%(column_0_N_name)s",
        "ck": "%(table_name)s__ck_%(constraint_name)s",
    }
)


class _TextTime(UserDefinedType[Any]):
    """SQLite's form of a time, declared DATETIME; what the driver is taught about that is left to the driver."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "DATETIME"


class Time(TypeDecorator[datetime]):
    """A moment: aware UTC in Python, without a zone and with microseconds in the database.

    A naive datetime is refused, because nobody can tell which zone it was meant in. On SQLite it is text of one width
    (`YYYY-MM-DD HH:MM:SS.ffffff`), so that it sorts; what comes back may be text too, because the driver can know the
    type of a column but not of an expression such as MIN(created_at).
    """

    impl = DateTime
    cache_ok = True

    @property
    def python_type(self) -> type[datetime]:
        return datetime

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(mysql.DATETIME(fsp=6) if dialect.name == "mysql" else _TextTime())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a zone: {value!r}")
        if dialect.name == "mysql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")

    def process_result_value(self, value: datetime | str | None, dialect: Dialect) -> datetime | None:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return None if moment is None else moment.replace(tzinfo=UTC)


def _ascii(length: int) -> TypeEngine[str]:
    return String(length).with_variant(mysql.VARCHAR(length, charset="ascii", collation="ascii_bin"), "mysql")


def _ascii_fixed(length: int) -> TypeEngine[str]:
    return CHAR(length).with_variant(mysql.CHAR(length, charset="ascii", collation="ascii_bin"), "mysql")


# The alias of SQLite's rowid must be declared INTEGER, exactly; everywhere else ids are 64 bits wide by name too.
RowId = BigInteger().with_variant(Integer, "sqlite")
PublicId = _ascii_fixed(36)
SellerKey = String(100).with_variant(mysql.VARCHAR(100, charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
Code = _ascii(20)
Word = _ascii(64)
Hash = _ascii_fixed(32)
Sha256 = LargeBinary(32).with_variant(mysql.BINARY(32), "mysql")
LongText = Text().with_variant(mysql.LONGTEXT, "mysql")
LongBytes = LargeBinary().with_variant(mysql.LONGBLOB, "mysql")


def row_id(name: str = "id") -> Column[int]:
    """The inner id: a big integer that the database counts up."""
    return Column(name, RowId, primary_key=True, autoincrement=True)


def count(name: str, start: int = 0) -> Column[int]:
    """A whole number that begins at `start`, so that a row written by hand is complete too."""
    return Column(name, Integer, nullable=False, server_default=text(str(start)))


def failure() -> tuple[Column[Any], ...]:
    """The four columns of a failure: what, whose fault, the facts as JSON, and when."""
    return (
        Column("failure_code", Word),
        Column("failure_blame", Code),
        Column("failure_facts", Text),
        Column("failure_at", Time),
    )


def table(name: str, *items: SchemaItem, never_reuse_ids: bool = False) -> Table:
    """A table with the options every one of them shares.

    `never_reuse_ids`: SQLite gives the id of a deleted last row to the next one unless told otherwise. That matters
    where somebody remembers an id outside the table (a cursor of a page, the mark beside the permits).
    """
    return Table(
        name,
        metadata,
        *items,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        sqlite_autoincrement=never_reuse_ids,
    )
