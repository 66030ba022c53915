"""What a downgrade takes away: tables and columns that the older schema does not have, and that hold something.

Which they are is found by taking an empty database in memory the same way: no list could forget one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnClause, Engine, Integer, func, inspect, select
from sqlalchemy import column as named_column
from sqlalchemy import table as named_table
from sqlalchemy.types import TypeEngine

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import downgrade, status, upgrade

Shape = Mapping[str, Mapping[str, TypeEngine[object]]]


@dataclass(frozen=True)
class LostData:
    """A table, or one of its columns (`column` is set), and how many rows have something there."""

    table: str
    column: str | None
    rows: int


def lost_data(engine: Engine, revision: str, now: datetime) -> Sequence[LostData]:
    """Return what a downgrade to `revision` (as `downgrade` takes it) would lose of what this database holds."""
    found = status(engine)
    if found.state not in ("current", "behind") or found.current is None:
        return []
    empty = make_engine("sqlite://")
    try:
        upgrade(empty, now)
        if found.state == "behind":
            downgrade(empty, found.current)
        before = _shape(empty)
        downgrade(empty, revision)
        after = _shape(empty)
    finally:
        empty.dispose()
    lost = [LostData(table, None, _rows(engine, table)) for table in before if table not in after]
    for table in after:
        for name, kind in before[table].items():
            if name not in after[table]:
                lost.append(LostData(table, name, _rows(engine, table, name, kind)))
    return [each for each in lost if each.rows]


def _shape(engine: Engine) -> Shape:
    inspector = inspect(engine)
    return {
        table: {column["name"]: column["type"] for column in inspector.get_columns(table)}
        for table in sorted(inspector.get_table_names())
        if table != "alembic_version"
    }


def _rows(engine: Engine, table: str, column: str | None = None, kind: TypeEngine[object] | None = None) -> int:
    """Count the rows; of a column those that hold something: not NULL, and no 0 where a number was given to all."""
    asked = select(func.count()).select_from(named_table(table))
    if column is not None:
        value: ColumnClause[Any] = named_column(column)
        asked = asked.where(value.is_not(None))
        if isinstance(kind, Integer):
            asked = asked.where(value != 0)
    with engine.connect() as connection:
        return int(connection.execute(asked).scalar_one())
