"""How long rows are kept that nothing needs any more: one length for each kind.

Executions and the metrics of days are kept for ever: they are small, and the tasks they count are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol


class KeptRows(StrEnum):
    """Rows that are deleted by their age; the value is their table."""

    REQUESTS = "token_usage_log"
    TOKENS = "user_agent_token"
    CIRCUIT_EVENTS = "circuit_breaker_event"
    TASKS = "crawler_tasks"
    AUDIT = "audit"


#: About how many bytes a row takes with its entries in the indexes, as measured on SQLite.
BYTES_PER_ROW = {
    KeptRows.REQUESTS: 130,
    KeptRows.TOKENS: 630,
    KeptRows.CIRCUIT_EVENTS: 185,
    KeptRows.TASKS: 745,
    KeptRows.AUDIT: 370,
}


@dataclass(frozen=True)
class RetentionRules:
    """How long each is kept. Tokens: those that are not used any more, after they expired. Tasks: those of ended runs.
    `bodies` are those that have a newer one, `events` those that were delivered."""

    requests: timedelta = timedelta(days=92)
    tokens: timedelta = timedelta(days=92)
    circuit_events: timedelta = timedelta(days=92)
    tasks: timedelta = timedelta(days=30)
    audit: timedelta = timedelta(days=730)
    bodies: timedelta = timedelta(days=365)
    events: timedelta = timedelta(days=92)

    def kept(self, kind: KeptRows) -> timedelta:
        length: timedelta = getattr(self, kind.name.lower())
        return length


class OldRows(Protocol):
    """The rows that are deleted by their age, found by an index."""

    def find(self, kind: KeptRows, before: datetime, limit: int) -> Sequence[int]:
        """Return the numbers of at most `limit` rows from before that time. Nothing is locked."""

    def delete(self, kind: KeptRows, rows: Sequence[int]) -> int: ...

    def count(self, kind: KeptRows, before: datetime) -> int:
        """Return how many rows are from before that time and will go."""
