"""Whose fault is a server error? Where several agents meet one at the same time, it is the marketplace's."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.agents.agent import Outcome

AGENTS = 3
SPAN = timedelta(seconds=60)


@dataclass(slots=True)
class _Met:
    at: datetime
    row: int
    outcome: Outcome
    charged: bool


class Storm:
    """Remembers who met a 5xx or a network error lately. One process sees its own requests only, which errs towards
    blaming an agent: its circuit closes again by itself, a ruined pool would not."""

    def __init__(self) -> None:
        self._met: deque[_Met] = deque(maxlen=1000)

    def met(self, row: int, outcome: Outcome, now: datetime) -> tuple[bool, tuple[tuple[int, Outcome], ...]]:
        """Note this failure. Whether it is a storm (three or more agents within a minute), and who was charged with an
        earlier part of it and is to be forgiven."""
        while self._met and now - self._met[0].at > SPAN:
            self._met.popleft()
        storm = len({met.row for met in self._met} | {row}) >= AGENTS
        forgiven = tuple((met.row, met.outcome) for met in self._met if met.charged) if storm else ()
        if storm:
            for met in self._met:
                met.charged = False
        self._met.append(_Met(now, row, outcome, charged=not storm))
        return storm, forgiven
