"""The usage log in monthly partitions: a month past its retention time is dropped whole, not row by row.

MySQL and MariaDB only; SQLite deletes rows in small batches. A change of partitions ends any transaction on MySQL, so
these run outside of transactions, and each can be run again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection, Engine, text

from sellerwatch.adapters.sql.engine import answering, is_mysql
from sellerwatch.adapters.sql.store import Runner

TABLE = "token_usage_log"
#: Partitions that are made ahead: this many runs of the daily job may fail.
AHEAD = 3

FOUND = text(
    "SELECT partition_name, table_rows, data_length + index_length FROM information_schema.partitions"
    " WHERE table_schema = DATABASE() AND table_name = 'token_usage_log' AND partition_name IS NOT NULL"
    " ORDER BY partition_ordinal_position"
)
_MONTH = re.compile(r"p(\d{4})(\d{2})")


@dataclass(frozen=True)
class Partition:
    """`rows` is the server's estimate, `size` the space on disk in bytes."""

    name: str
    rows: int
    size: int

    @property
    def month(self) -> date | None:
        """Return the first day of its month; None for the partition that takes everything after all months."""
        found = _MONTH.fullmatch(self.name)
        return None if found is None else date(int(found[1]), int(found[2]), 1)


class SqlUsageLogPartitions:
    """Implements `crawling.context.UsageLogPartitions`."""

    def __init__(self, engine: Engine, runner: Runner) -> None:
        self._engine, self._runner = engine, runner

    async def keep(self, now: datetime, before: datetime) -> int:
        return await self._runner.run(lambda: keep_months(self._engine, now, before))


def partitions(engine: Engine) -> list[Partition]:
    """Return the partitions in the order of time; none where the engine has no partitions."""
    if not is_mysql(engine):
        return []
    with engine.connect() as connection:
        return _found(connection)


def keep_months(engine: Engine, now: datetime, before: datetime) -> int:
    """Create partitions for the next months and drop those that ended before `before`; return how many were dropped."""
    with answering(engine), engine.connect() as connection:
        months = [each.month for each in _found(connection) if each.month is not None]
        # Without months behind it p_future begins with this one.
        first = _after(max(months)) if months else date(now.year, now.month, 1)
        wanted = _until(first, _after(date(now.year, now.month, 1), AHEAD))
        if wanted:
            connection.exec_driver_sql(
                f"ALTER TABLE {TABLE} REORGANIZE PARTITION p_future INTO ("
                + "".join(f"PARTITION {_name(each)} VALUES LESS THAN ('{_after(each)}'), " for each in wanted)
                + "PARTITION p_future VALUES LESS THAN (MAXVALUE))"
            )
        over = [month for month in months if _after(month) <= before.date()]
        if over:
            connection.exec_driver_sql(f"ALTER TABLE {TABLE} DROP PARTITION {', '.join(map(_name, over))}")
        return len(over)


def _found(connection: Connection) -> list[Partition]:
    with connection.begin():
        return [Partition(name, int(rows or 0), int(size or 0)) for name, rows, size in connection.execute(FOUND)]


def _name(month: date) -> str:
    return f"p{month:%Y%m}"


def _after(month: date, number: int = 1) -> date:
    years, rest = divmod(month.month - 1 + number, 12)
    return date(month.year + years, rest + 1, 1)


def _until(first: date, last: date) -> list[date]:
    months = []
    while first <= last:
        months.append(first)
        first = _after(first)
    return months
