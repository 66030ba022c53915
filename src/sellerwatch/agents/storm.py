"""Whose fault is a server error? Where several agents meet one at the same time, it is the marketplace's."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

AGENTS = 3
SPAN = timedelta(seconds=60)


class Storm:
    """Remembers who met a 5xx or a network error lately. One process sees its own requests only, which errs towards
    blaming an agent: its circuit closes again by itself, a ruined pool would not."""

    def __init__(self) -> None:
        self._met: deque[tuple[datetime, int]] = deque(maxlen=1000)

    def is_on(self, agent_row: int, now: datetime) -> bool:
        """Note this failure, and say whether three or more agents met one within a minute."""
        self._met.append((now, agent_row))
        while self._met and now - self._met[0][0] > SPAN:
            self._met.popleft()
        return len({row for _, row in self._met}) >= AGENTS
