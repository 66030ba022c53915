"""Column types as the steps wrote them. They never change, even where the program's own types do."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CHAR, BigInteger, Boolean, Column, DateTime, Double, Integer, LargeBinary, String, Text, text
from sqlalchemy.dialects import mysql

ROW_ID = BigInteger().with_variant(Integer, "sqlite")
BIG = BigInteger()
INT = Integer()
REAL: Double[float] = Double()
BOOL = Boolean()
TEXT = Text()
TIME = DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
UUID = CHAR(36).with_variant(mysql.CHAR(36, charset="ascii", collation="ascii_bin"), "mysql")
MD5 = CHAR(32).with_variant(mysql.CHAR(32, charset="ascii", collation="ascii_bin"), "mysql")
SHA256 = LargeBinary(32).with_variant(mysql.BINARY(32), "mysql")
CODE = String(20).with_variant(mysql.VARCHAR(20, charset="ascii", collation="ascii_bin"), "mysql")
WORD = String(64).with_variant(mysql.VARCHAR(64, charset="ascii", collation="ascii_bin"), "mysql")
SELLER = String(100).with_variant(mysql.VARCHAR(100, charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
LONG_TEXT = Text().with_variant(mysql.LONGTEXT, "mysql")
LONG_BYTES = LargeBinary().with_variant(mysql.LONGBLOB, "mysql")


def varchar(length: int) -> String:
    return String(length)


def row_id(name: str = "id") -> Column[Any]:
    return Column(name, ROW_ID, primary_key=True, autoincrement=True)


def need(name: str, kind: Any, start: int | None = None) -> Column[Any]:
    """Return a column that is never null, with the server default `start` if given."""
    return Column(name, kind, nullable=False, server_default=None if start is None else text(str(start)))


def may(name: str, kind: Any) -> Column[Any]:
    """Return a column that may be null."""
    return Column(name, kind, nullable=True)
