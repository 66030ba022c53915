"""The pool's breaker: when too few agents are available, crawling stops, and one request probes.

Tasks wait meanwhile; none fails for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.kernel.circuit import CIRCUIT_LIFE, CircuitState
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.kernel.notices import Notice


@dataclass(eq=False)
class PoolBreakerOpen(Unavailable):
    """Too few agents are available; says the rate."""

    available: int
    total: int
    percent: float
    seconds: float

    @property
    def rate(self) -> float:
        """Available agents, in percent."""
        return 100 * self.available / self.total if self.total else 0.0

    @property
    def retry_after(self) -> float:  # type: ignore[override]
        return self.seconds


@dataclass(frozen=True)
class BreakerRules:
    """Under `min_percent` available it opens for `open_for`; a probe is waited for no longer than `patience`."""

    min_percent: int = 20
    open_for: timedelta = timedelta(seconds=600)
    patience: timedelta = timedelta(seconds=60)

    def is_enough(self, available: int, total: int) -> bool:
        return total > 0 and 100 * available >= self.min_percent * total


@dataclass(frozen=True)
class Breaker:
    """State and times of the pool's breaker; the rate is computed each time."""

    state: CircuitState = CIRCUIT_LIFE.first
    opened_at: datetime | None = None
    closed_at: datetime | None = None
    probe_worker_id: WorkerId | None = None
    probe_until: datetime | None = None
    keep_closed_until: datetime | None = None

    def look(self, available: int, total: int, rules: BreakerRules, now: datetime) -> Breaker:
        """Move it by the rate and the time: open, closed early, or open again after a probe without an answer."""
        is_enough = rules.is_enough(available, total)
        if self.state is CircuitState.CLOSED:
            is_kept = self.keep_closed_until is not None and now < self.keep_closed_until
            return self if is_enough or is_kept else self._move("open", opened_at=now)
        if is_enough:
            return self._closed(now)
        if self.state is CircuitState.HALF_OPEN and self.probe_until is not None and self.probe_until <= now:
            return self._move("open", opened_at=now, probe_worker_id=None, probe_until=None)
        return self

    def may_probe(self, rules: BreakerRules, now: datetime) -> bool:
        return self.state is CircuitState.OPEN and (self.opened_at or now) + rules.open_for <= now

    def probe(self, worker_id: WorkerId, rules: BreakerRules, now: datetime) -> Breaker:
        """Record that one worker sends a probe; the others wait for it."""
        return self._move("half_open", probe_worker_id=worker_id, probe_until=now + rules.patience)

    def answered(self, worker_id: WorkerId, succeeded: bool, rules: BreakerRules, now: datetime) -> Breaker:
        """Record the probe's answer. Success keeps it closed for a while at any rate, so that the pool can recover."""
        if self.state is not CircuitState.HALF_OPEN or self.probe_worker_id != worker_id:
            return self
        if succeeded:
            return replace(self._closed(now), keep_closed_until=now + rules.open_for)
        return self._move("open", opened_at=now, probe_worker_id=None, probe_until=None)

    def next_look(self, rules: BreakerRules, now: datetime) -> datetime:
        """Return when to ask again, unless an agent recovers first."""
        if self.state is CircuitState.HALF_OPEN and self.probe_until is not None:
            return self.probe_until
        return max((self.opened_at or now) + rules.open_for, now)

    def refusal(self, available: int, total: int, rules: BreakerRules, now: datetime) -> PoolBreakerOpen:
        seconds = max((self.next_look(rules, now) - now).total_seconds(), 1.0)
        return PoolBreakerOpen(available, total, round(100 * available / total, 2) if total else 0.0, round(seconds, 1))

    def _closed(self, now: datetime) -> Breaker:
        return self._move("close", closed_at=now, probe_worker_id=None, probe_until=None)

    def _move(self, verb: str, **changed: object) -> Breaker:
        state = CIRCUIT_LIFE.after(self.state, verb, "of the pool")
        return replace(self, state=state, **changed)  # type: ignore[arg-type]


def breaker_notice(state: CircuitState, **counts: int) -> Notice:
    """`counts`: `available` and `total` agents, where their rate moved the breaker."""
    return Notice(f"breaker.{state.lower()}", "pool", counts, variant="rate" if counts else "")
