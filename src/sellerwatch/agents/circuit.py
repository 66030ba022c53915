"""A circuit: stop asking where asking keeps failing, and find out with one request when to start again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sellerwatch.kernel.circuit import CIRCUIT_LIFE, CircuitState


class CircuitEventType(StrEnum):
    STATE_CHANGE = "STATE_CHANGE"
    #: A failure that was counted.
    FAILURE = "FAILURE"
    #: The success that closed the circuit.
    SUCCESS = "SUCCESS"


@dataclass(frozen=True, slots=True)
class CircuitEvent:
    """One line of a circuit's history. `outcome` and `status` are those of the answer; a change made by a person or by
    the time has none."""

    at: datetime
    type: CircuitEventType
    from_state: CircuitState | None = None
    to_state: CircuitState | None = None
    outcome: str | None = None
    status: int | None = None


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
    #: When the request that finds out was lent; None unless it is HALF_OPEN.
    probe_sent_at: datetime | None = None

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
            return counted._move("open", opened_at=now, probe_sent_at=None)
        return counted

    def forgive(self, failures: int, now: datetime) -> Circuit:
        """Take back failures that turned out to be the marketplace's; close it if it would not have opened."""
        left = max(0, self.failure_count - failures)
        opened = self.state is not CircuitState.CLOSED and left < self.threshold
        return replace(self.close(now) if opened else self, failure_count=left)

    def probe_at(self) -> datetime | None:
        """When one request may find out; None while it is CLOSED. A probe that was never answered gets a successor."""
        since = self.probe_sent_at or self.opened_at
        return since + self.timeout if self.state is not CircuitState.CLOSED and since else None

    def may_probe(self, now: datetime) -> bool:
        probe_at = self.probe_at()
        return probe_at is not None and probe_at <= now

    def half_open(self, now: datetime) -> Circuit:
        """One request is under way to find out; the next may follow a whole timeout later."""
        return self._move("half_open", probe_sent_at=now)

    def close(self, now: datetime) -> Circuit:
        return self._move("close", failure_count=0, closed_at=now, probe_sent_at=None)

    def _move(self, verb: str, **changed: object) -> Circuit:
        return replace(self, state=CIRCUIT_LIFE.after(self.state, verb, "of the agent"), **changed)  # type: ignore[arg-type]


def events_of(
    before: Circuit, after: Circuit, at: datetime, outcome: str | None = None, status: int | None = None
) -> Sequence[CircuitEvent]:
    """Return what the history keeps of one step: the failure that was counted or the success that closed it, and the
    change of state."""
    events = []
    if after.failure_count > before.failure_count:
        events.append(CircuitEvent(at, CircuitEventType.FAILURE, before.state, None, outcome, status))
    if after.state is not before.state:
        if after.state is CircuitState.CLOSED and outcome is not None:
            events.append(CircuitEvent(at, CircuitEventType.SUCCESS, before.state, None, outcome, status))
        events.append(CircuitEvent(at, CircuitEventType.STATE_CHANGE, before.state, after.state))
    return events
