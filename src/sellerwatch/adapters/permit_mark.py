"""A small file beside the database with the highest permit number ever given out.

A database restored from an older copy does not know what was lent since; this file does, because it is not part of the
copy. Where the file was copied along, or deleted with the database, nobody can tell: then the windows are what the copy
says.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


class PermitMark:
    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + ".permits")

    def read(self) -> int:
        try:
            return int(self._path.read_text("ascii") or 0)
        except (OSError, ValueError):
            return 0

    def write(self, number: int) -> None:
        """After the claim's commit: a crash in between leaves it one claim behind, which is one claim too careful."""
        try:
            # With every claim: no text layer, and never empty on the way, as a file that is cut first would be.
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.write(file, b"%020d" % number)
            finally:
                os.close(file)
        except OSError:
            log.warning("the permit mark cannot be written", extra={"path": str(self._path)})
