"""A downgrade as a plain SQL script, for the mysql client of a database administrator.

The steps run against the database, and what they read is read; what they would change is written down instead. So the
script fits this database as it is now, down to the agents that were never used, and says where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, event

from sellerwatch.adapters.sql.engine import is_mysql
from sellerwatch.adapters.sql.migrate import downgrade_at_once
from sellerwatch.kernel.errors import Conflict

#: Statements that only look.
LOOKS = ("SELECT", "SHOW", "DESCRIBE", "DESC ", "EXPLAIN", "SET ", "DO ")


@dataclass(eq=False)
class NoScript(Conflict):
    """The database is an SQLite file: there is no client that a script is for."""


@dataclass(frozen=True)
class DowngradeScript:
    """The statements that take the schema from one revision back to another."""

    current: str
    target: str
    statements: Sequence[str]

    def text(self) -> str:
        lines = [f"-- Sellerwatch: the schema from {self.current} back to {self.target}. Stop every service before."]
        # MySQL commits after each change of a table: a script that was cut off is made anew, not run again.
        return "\n".join([*lines, *(f"{statement};" for statement in self.statements)]) + "\n"


def downgrade_script(engine: Engine, revision: str) -> DowngradeScript:
    """Return a downgrade to `revision` (as `downgrade` takes it) as a script; nothing is changed."""
    if not is_mysql(engine):
        raise NoScript
    statements: list[str] = []

    def instead(cursor: Any, statement: str, parameters: Any, _context: Any) -> bool:
        if statement.lstrip().upper().startswith(LOOKS):
            return False
        given = parameters if isinstance(parameters, list) else [parameters]
        line = " ".join(statement.split())
        statements.extend(cursor.mogrify(line, each or None) for each in given)
        return True

    def instead_without(cursor: Any, statement: str, context: Any) -> bool:
        return instead(cursor, statement, None, context)

    event.listen(engine, "do_execute", instead)
    event.listen(engine, "do_executemany", instead)
    event.listen(engine, "do_execute_no_params", instead_without)
    # Nothing is changed, so no row was.
    engine.dialect.supports_sane_rowcount = False
    current, target = downgrade_at_once(engine, revision)
    return DowngradeScript(current, target, statements)
