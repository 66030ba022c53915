"""What a database is really asked, and how it goes about it: statements as SQLite ran them, and their plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine

from sellerwatch.adapters.sql.transaction import Transaction


@contextmanager
def recorded(database: Connection) -> Iterator[list[str]]:
    """Every statement that runs meanwhile, with its values in place."""
    sent: list[str] = []
    driver: Any = database.connection.driver_connection
    driver.set_trace_callback(sent.append)
    try:
        yield sent
    finally:
        driver.set_trace_callback(None)


def asked(engine: Engine, ask: Callable[[Transaction], object]) -> list[str]:
    """The statements of `ask` that find rows; an INSERT finds none. Nothing of what it did is kept."""
    with engine.connect() as database, database.begin() as nothing_of_it_is_kept:
        with recorded(database) as sent:
            ask(Transaction(database))
        nothing_of_it_is_kept.rollback()
    finding = [statement for statement in sent if statement.split(None, 1)[0] in ("SELECT", "UPDATE", "DELETE", "WITH")]
    return [statement for statement in finding if "last_insert_rowid" not in statement]


def plan(engine: Engine, statement: str) -> str:
    with engine.connect() as database:
        return "\n".join(row.detail for row in database.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}"))
