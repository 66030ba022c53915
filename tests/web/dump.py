"""Every row there is: to see that what was refused left all as it was."""

from __future__ import annotations

from typing import Any

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction

Dump = dict[str, list[tuple[Any, ...]]]

#: What a refused log-in may leave: that somebody tried.
TRACES = frozenset({"login_attempts"})


async def everything(store: SqlStore) -> Dump:
    def look(tx: Transaction) -> Dump:
        tables = [row[0] for row in tx.db.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: [tuple(row) for row in tx.db.rows(f"SELECT * FROM {name}")] for name in tables}  # noqa: S608

    return await store.read(look)
