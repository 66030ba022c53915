"""Plain numbers of everything, read at one moment: what `/metrics` and `/actuator/health` tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ServiceCounts:
    """How many of each. States that nobody is in are left out. `outbox_lag`: seconds since the oldest message that has
    not arrived was written, for each of the two."""

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


@dataclass(frozen=True)
class ServiceHealth:
    """What tells a service that works from one that only answers."""

    revision: str | None
    beat_at: datetime | None
    workers: int
    schedulers: int
    breaker: str
    oldest_due: datetime | None
