"""Leases: what must be done by one process at a time, wherever many run."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol


class JobLeases(Protocol):
    """A lease that lapses: a process that dies in a job keeps the others from it for its length, not for ever."""

    async def take(self, job: str, length: timedelta) -> bool: ...

    async def finish(self, job: str, error: str | None = None) -> None:
        """Done, or failed with this error; the next one may."""
        ...
