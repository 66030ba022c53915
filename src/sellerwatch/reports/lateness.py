"""Watch sellers become late and fresh again: a look at all of them, and the alerts that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.reports.freshness import (
    FreshnessState,
    FreshnessTx,
    Lateness,
    SellerFreshness,
    causes_of,
    freshness_of,
)
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.schedules.forecast import DAY, Budget, finishes
from sellerwatch.schedules.outlook import Due, ExpectedRuns

#: How often sellers are looked at while something happens.
MINUTE = timedelta(minutes=1)
#: What happens while a look takes place is seen by the next one.
LONGEST_LOOK = timedelta(seconds=10)
#: So that the time has passed when it is looked at.
JUST_AFTER = timedelta(milliseconds=1)


@dataclass(frozen=True)
class LatenessChanges:
    """What a look at all sellers found: what is to be kept of those that changed, and the alerts for operators."""

    changed: Sequence[Lateness]
    notices: Sequence[Notice]


def next_look(tx: FreshnessTx, last: datetime | None, now: datetime) -> datetime | None:
    """Return when sellers are to be looked at again: a minute after the last look if anything has happened since, else
    when time alone makes one late; None where it does not."""
    if last is None:
        return now
    newest = tx.freshness.newest_activity_at()
    if newest is not None and newest > last - LONGEST_LOOK:
        return last + MINUTE
    check_at = tx.freshness.next_check()
    return None if check_at is None else max(check_at + JUST_AFTER, last + MINUTE)


def look_at_sellers(tx: FreshnessTx, now: datetime) -> LatenessChanges:
    """Return what changed since the last look."""
    found = freshness_of(tx, now)
    causes = causes_of(tx, found.values(), now)
    changed, notices = [], []
    for seller in found.values():
        timing, cause = seller.timing, causes.get(seller.seller_id)
        late_since = _late_since(seller, now)
        if (late_since, seller.late_at) != (timing.late_since, timing.check_at):
            changed.append(Lateness(seller.seller_id, late_since, seller.late_at))
        if (late_since is None) is not (timing.late_since is None):
            notices.append(_notice(seller, cause, is_late=late_since is not None))
    return LatenessChanges(changed, notices)


def plan_run_times(tx: ReportsTx, at: Moment, limits: Limits, host: Host, page_size: int) -> dict[SellerId, timedelta]:
    """Return how long a run of each seller is planned to take, by the forecast of `plan`: the runs of the coming day
    share what all agents that are not blocked may ask."""
    standings = tx.pool_report.standings(at, limits)
    agents = sum(one.agent.status is not AgentStatus.BLOCKED for one in standings)
    if not agents:
        return {}
    budget = Budget.of_so_many(agents, limits, host)
    rhythms = [seller.expected_runs(page_size) for seller in tx.dashboard.freshness()]
    runs = [run for rhythm in rhythms for run in rhythm.starts(at.now, at.now + DAY)]
    planned: dict[SellerId, timedelta] = {}
    for finish in finishes(runs, budget, at.now):
        length = timedelta.max if finish.at is None else finish.at - max(finish.run.at, at.now)
        planned[finish.run.seller_id] = max(planned.get(finish.run.seller_id, timedelta(0)), length)
    return {rhythm.seller_id: _bounded(rhythm, planned, budget, at.now) for rhythm in rhythms}


def _bounded(rhythm: ExpectedRuns, planned: dict[SellerId, timedelta], budget: Budget, now: datetime) -> timedelta:
    """Return the planned length of a run, at most its interval. A run that does not start within a day is planned
    alone."""
    length = planned.get(rhythm.seller_id)
    if length is None:
        (finish,) = finishes([Due(now, rhythm.seller_id, rhythm.requests)], budget, now)
        length = rhythm.interval if finish.at is None else finish.at - now
    return min(length, rhythm.interval)


def _late_since(seller: SellerFreshness, now: datetime) -> datetime | None:
    """A late seller stays late until it is fresh: that some parts of it were read does not end it."""
    since = seller.timing.late_since
    if seller.state is FreshnessState.LATE:
        return since or now
    return since if seller.state is FreshnessState.INCOMPLETE else None


def _notice(seller: SellerFreshness, cause: Failure | None, *, is_late: bool) -> Notice:
    if not is_late:
        variant = "" if seller.state is FreshnessState.FRESH else "no_longer_late"
        return Notice("seller.fresh", seller.seller_id, {"seller": seller.seller_id}, variant)
    facts = {"seller": seller.seller_id, "share": f"{100 * seller.share:.1f}", "cause": cause or ""}
    return Notice("seller.late", seller.seller_id, facts)
