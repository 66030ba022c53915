"""The tables of a database as it describes them itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import DateTime, Engine, MetaData, Table
from sqlalchemy.types import UserDefinedType


class DriverTime(UserDefinedType[datetime]):
    """A time as our drivers give it: aware, in UTC. SQLAlchemy's own type would convert it once more."""

    cache_ok = True

    @property
    def python_type(self) -> type[datetime]:
        return datetime

    def get_col_spec(self, **_: Any) -> str:
        return "DATETIME"


def tables(engine: Engine) -> dict[str, Table]:
    metadata = MetaData()
    metadata.reflect(engine)
    for table in metadata.tables.values():
        for column in table.columns:
            if isinstance(column.type, DateTime):
                column.type = DriverTime()
    return dict(metadata.tables)
