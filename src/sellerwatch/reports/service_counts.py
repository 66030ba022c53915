"""Numbers of everything at one moment: what `/metrics` and `/actuator/health` show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ServiceCounts:
    """How many of each, by state; a state without any is left out. `outbox_lag` is the age in seconds of the oldest
    message of each outbox that has not been delivered."""

    tasks: Mapping[tuple[str, str], int]
    executions: Mapping[str, int]
    products: Mapping[str, int]
    outbox: Mapping[tuple[str, str], int]
    outbox_lag: Mapping[str, float]
    agents: Mapping[str, int]
    circuits: Mapping[str, int]
    sellers: Mapping[str, int]
    quarantine: int
    removals: int
    workers: int
    #: Budgets of agents, and counts of the limiter, that were wrong and were repaired.
    repairs: int


@dataclass(frozen=True)
class ServiceHealth:
    """Whether the parts of a service work: `beat_at` is the last heartbeat of a worker, `oldest_due` the time at which
    the oldest event that is due was to be sent."""

    revision: str | None
    beat_at: datetime | None
    workers: int
    schedulers: int
    breaker: str
    oldest_due: datetime | None
