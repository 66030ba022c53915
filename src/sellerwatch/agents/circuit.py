"""A circuit: stop asking where asking keeps failing, and find out with one request when to start again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.kernel.circuit import CIRCUIT_LIFE, CircuitState


@dataclass(frozen=True)
class Circuit:
    """CLOSED, then OPEN after `threshold` failures in a row, HALF_OPEN once `timeout` has passed: one request decides.

    It opens on failures in a row, not on a rate: an identity makes at most one request a second, too few for a rate.
    """

    state: CircuitState = CIRCUIT_LIFE.first
    failure_count: int = 0
    threshold: int = 3
    timeout: timedelta = timedelta(seconds=600)
    opened_at: datetime | None = None
    closed_at: datetime | None = None

    def succeeded(self, now: datetime) -> Circuit:
        """A late success of a request sent before it opened does not close it: only the probe does."""
        if self.state is CircuitState.HALF_OPEN:
            return self.close(now)
        return replace(self, failure_count=0) if self.state is CircuitState.CLOSED else self

    def failed(self, now: datetime) -> Circuit:
        counted = replace(self, failure_count=self.failure_count + 1)
        if self.state is CircuitState.HALF_OPEN or (
            self.state is CircuitState.CLOSED and counted.failure_count >= self.threshold
        ):
            return counted._move("open", opened_at=now)
        return counted

    def forgive(self, failures: int, now: datetime) -> Circuit:
        """Take back failures that turned out to be the marketplace's; close it if it would not have opened."""
        left = max(0, self.failure_count - failures)
        opened = self.state is not CircuitState.CLOSED and left < self.threshold
        return replace(self.close(now) if opened else self, failure_count=left)

    def probe_at(self) -> datetime | None:
        """When one request may find out; None while it is CLOSED. A probe that was never answered gets a successor."""
        return self.opened_at + self.timeout if self.state is not CircuitState.CLOSED and self.opened_at else None

    def may_probe(self, now: datetime) -> bool:
        probe_at = self.probe_at()
        return probe_at is not None and probe_at <= now

    def half_open(self, now: datetime) -> Circuit:
        """One request is under way to find out; the next may follow a whole timeout later."""
        return self._move("half_open", opened_at=now)

    def close(self, now: datetime) -> Circuit:
        return self._move("close", failure_count=0, closed_at=now)

    def _move(self, verb: str, **changed: object) -> Circuit:
        return replace(self, state=CIRCUIT_LIFE.after(self.state, verb, "of the agent"), **changed)  # type: ignore[arg-type]
