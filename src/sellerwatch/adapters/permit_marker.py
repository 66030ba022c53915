"""A small file beside the database with the highest permit number ever assigned.

A database that was restored from an older copy does not know the permits assigned since; this file does. If the file
was copied with the database, or deleted with it, this goes unnoticed and the windows are those of the copy.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


class PermitMarkerFile:
    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + ".permits")

    def read(self) -> int:
        try:
            return int(self._path.read_text("ascii") or 0)
        except (OSError, ValueError):
            return 0

    def write(self, number: int) -> None:
        """Write the number after the claim's commit. After a crash in between it is one claim behind, which is safe."""
        try:
            # Written at every claim: no text layer, and no truncation, which could leave the file empty.
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.write(file, b"%020d" % number)
            finally:
                os.close(file)
        except OSError:
            log.warning(
                "the permit marker cannot be written; a restored database will go unnoticed",
                extra={"path": str(self._path)},
            )
