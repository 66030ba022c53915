"""The history of the schema: one file for each step in `versions/`, forward and back, on SQLite and MySQL/MariaDB.

A released step is frozen: it must still do tomorrow what it did then, so it imports nothing of the program but the two
modules beside this one, and these only ever grow. A file's name begins with its revision; `migrate.py` runs them.
"""

from __future__ import annotations


class TableInTheWay(Exception):
    """A table of ours is already there with other columns: somebody else's, so nothing is done to it."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table
