"""The history of the schema: one file for each step in `versions/`, up and down, on SQLite and MySQL/MariaDB.

A released step is frozen: it must do tomorrow what it did then. So it imports nothing of the program except the two
modules beside this one, which only ever grow. A file's name begins with its revision; `migrate.py` runs them.
"""

from __future__ import annotations


class TableInTheWay(Exception):
    """A table with this name exists with other columns, so another program made it. It is left alone."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table
