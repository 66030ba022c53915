"""A resync: the present state of products, sent again as one PRODUCT_SNAPSHOT event for each.

It is written step by step, as fast as the receiver accepts it: no more snapshots wait than the receiver has accepted in
the last seconds. So a resync of a large catalogue delays other events by seconds, whatever the receiver's rate is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Self

from sellerwatch.kernel.errors import Conflict, NotFound
from sellerwatch.kernel.ids import ResyncId, SellerId
from sellerwatch.kernel.lifecycle import Lifecycle

#: Seconds of snapshots that may wait, at the rate at which the receiver accepts them.
SECONDS_AHEAD = 3.0
#: Snapshots that may wait whatever the receiver accepts, and whatever its rate is.
FEWEST_WAITING, MOST_WAITING = 10, 1000


class ResyncStatus(StrEnum):
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"


RESYNC_LIFE = Lifecycle(
    noun="resync",
    first=ResyncStatus.RUNNING,
    moves={
        (ResyncStatus.RUNNING, "advance"): ResyncStatus.RUNNING,
        (ResyncStatus.RUNNING, "complete"): ResyncStatus.COMPLETED,
        (ResyncStatus.RUNNING, "cancel"): ResyncStatus.CANCELLED,
    },
    resting=frozenset({ResyncStatus.COMPLETED, ResyncStatus.CANCELLED}),
)


@dataclass(eq=False)
class ResyncNotFound(NotFound):
    resync_id: str


@dataclass(eq=False)
class ResyncInProgress(Conflict):
    """A resync of the same choice, one seller or all, is not finished."""

    resync_id: str


@dataclass(frozen=True)
class ResyncChoice:
    """Which products: of one seller, or of all; with `since`, only those with an event that was delivered since then.

    Products without an event are never part of a resync.
    """

    seller_id: SellerId | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Resync:
    """A resync and how far it is: `after_row` is the last product that was written, `last_row` the last one there was
    when it was asked for. Later products have sent their own events.

    `backlog` snapshots waited at the end of the last step, which looked at the outbox at `measured_at`.
    """

    resync_id: ResyncId
    seller_id: SellerId | None
    since: datetime | None
    total: int
    last_row: int
    requested_by: str
    created_at: datetime
    measured_at: datetime
    status: ResyncStatus = RESYNC_LIFE.first
    after_row: int = 0
    written: int = 0
    backlog: int = 0
    ended_at: datetime | None = None
    ended_by: str | None = None

    @classmethod
    def create(
        cls, resync_id: ResyncId, choice: ResyncChoice, total: int, last_row: int, requested_by: str, now: datetime
    ) -> Self:
        return cls(
            resync_id=resync_id,
            seller_id=choice.seller_id,
            since=choice.since,
            total=total,
            last_row=last_row,
            requested_by=requested_by,
            created_at=now,
            measured_at=now,
        )

    @property
    def choice(self) -> ResyncChoice:
        return ResyncChoice(self.seller_id, self.since)

    @property
    def is_running(self) -> bool:
        return self.status is ResyncStatus.RUNNING

    def room(self, waiting: int, now: datetime) -> int:
        """Return how many snapshots may be written while `waiting` of them wait."""
        seconds = max((now - self.measured_at).total_seconds(), 0.001)
        ahead = SECONDS_AHEAD * max(self.backlog - waiting, 0) / seconds
        return max(int(min(max(ahead, FEWEST_WAITING), MOST_WAITING)) - waiting, 0)

    def advance(self, after_row: int, written: int, backlog: int, measured_at: datetime) -> Resync:
        """Return the resync after a step that wrote `written` snapshots, up to this row."""
        return self._move(
            "advance",
            after_row=after_row,
            written=self.written + written,
            backlog=backlog,
            measured_at=measured_at,
        )

    def complete(self, now: datetime) -> Resync:
        return self._move("complete", ended_at=now)

    def cancel(self, by: str, now: datetime) -> Resync:
        """Return the resync without its remaining products. Snapshots that were written are delivered."""
        return self._move("cancel", ended_at=now, ended_by=by)

    def _move(self, verb: str, **changed: object) -> Resync:
        status = RESYNC_LIFE.after(self.status, verb, self.resync_id)
        return replace(self, status=status, **changed)  # type: ignore[arg-type]
