"""The plan: whether the sellers fit into what the pool may ask, and when each one's next run would finish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.agents.limits import PoolRules
from sellerwatch.crawling.execution import Execution
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, NumberedPageView, View
from sellerwatch.reports.dashboard import SellerTimes
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.schedules.forecast import DAY, Budget, Finish, agents_needed, finishes
from sellerwatch.schedules.outlook import Due, ExpectedRuns
from sellerwatch.schedules.queries import IntervalView


@dataclass(frozen=True)
class PlannedRunView(View):
    """A seller's next run, or what is left of the one that is going on."""

    seller_id: Annotated[str, About(example="seller_12345")]
    products: int
    is_read: Annotated[bool, About("False while no run of the seller has ended: its size is not known yet.")]
    interval: IntervalView
    is_going: bool
    requests: int
    starts_at: datetime
    ends_at: Annotated[datetime | None, About("Null: not within a week.")]
    is_late: Annotated[bool, About("It would not be over when the next one is due.")]

    @classmethod
    def of(
        cls, seller: SellerTimes, expected: ExpectedRuns, finish: Finish, now: datetime, *, is_going: bool
    ) -> PlannedRunView:
        starts_at = max(finish.run.at, now)
        return cls(
            seller_id=seller.seller_id,
            products=seller.products,
            is_read=seller.fresh_as_of is not None,
            interval=IntervalView.of(seller.interval),
            is_going=is_going,
            requests=finish.run.requests,
            starts_at=starts_at,
            ends_at=finish.at,
            is_late=finish.at is None or finish.at > starts_at + expected.interval,
        )


@dataclass(frozen=True)
class PlanView(NumberedPageView[PlannedRunView]):
    """An estimate from the sizes of the last runs and the limits in force; `content` is a page of the runs."""

    fits: Annotated[bool, About("There is room for all requests, and no run is late.")]
    requests_per_day: int
    allowed_per_day: int
    agents: Annotated[int, About("Agents that are available.")]
    agents_needed: int
    late: Annotated[int, About("How many runs are late.")]
    unread: Annotated[int, About("How many sellers were never read: `products` says how large they may be.")]


def show_plan(
    tx: ReportsTx,
    context: OperationContext,
    pool: PoolRules,
    page_size: int,
    page: int,
    size: int,
    agents: int | None = None,
    products: int = 0,
) -> PlanView:
    """Show whether the sellers fit into the pool's budget, and a page of their next runs, soonest first.

    With `agents` as if that many were available and rested; a seller that was never read counts with `products`.
    """
    overrides = tx.overrides.all()
    limits, host = pool.limits(overrides), pool.host(overrides)
    if agents is None:
        budget = Budget.of(tx.pool_report.standings(context.moment, limits), limits, host)
    else:
        budget = Budget.of_so_many(agents, limits, host)
    sellers = tx.dashboard.freshness()
    expected_runs = {seller.seller_id: seller.expected_runs(page_size, products) for seller in sellers}
    going = {run.seller_id: run for run in tx.executions.running()}
    next_runs = _next_runs(expected_runs, going, budget, context.now)
    runs = [
        PlannedRunView.of(
            seller,
            expected_runs[seller.seller_id],
            next_runs[seller.seller_id],
            context.now,
            is_going=seller.seller_id in going,
        )
        for seller in sellers
        if seller.seller_id in next_runs
    ]
    runs.sort(key=lambda run: (run.starts_at, run.seller_id))
    per_day = [each.requests * (DAY / each.interval) for each in expected_runs.values() if each.next_run_at is not None]
    asked, allowed, late = round(sum(per_day)), budget.within(DAY), sum(run.is_late for run in runs)
    counted = NumberedPageView.of(runs[page * size : (page + 1) * size], page, size, len(runs))
    return PlanView(
        **vars(counted),
        fits=asked <= allowed and not late,
        requests_per_day=asked,
        allowed_per_day=allowed,
        agents=budget.agents,
        agents_needed=agents_needed(asked, limits),
        late=late,
        unread=sum(not run.is_read for run in runs),
    )


def _next_runs(
    expected_runs: Mapping[SellerId, ExpectedRuns], going: Mapping[SellerId, Execution], budget: Budget, now: datetime
) -> Mapping[SellerId, Finish]:
    """Return for each seller the run that is going on or the next one, and when it would end.

    All runs of the coming day are simulated together, because each uses budget that the others then lack. A run that
    starts later is simulated alone.
    """
    runs = [run for expected in expected_runs.values() for run in expected.starts(now, now + DAY)]
    for seller_id, execution in going.items():
        left = max(expected_runs[seller_id].requests, execution.total_tasks_created) - execution.ended
        runs.append(Due(execution.started_at or now, seller_id, max(1, left)))
    first: dict[SellerId, Finish] = {}
    for finish in sorted(finishes(runs, budget, now), key=lambda finish: finish.run.at):
        first.setdefault(finish.run.seller_id, finish)
    for expected in expected_runs.values():
        if expected.seller_id not in first and expected.next_run_at is not None:
            run = Due(expected.next_run_at, expected.seller_id, expected.requests)
            first[expected.seller_id] = finishes([run], budget.rested(), run.at)[0]
    return first
