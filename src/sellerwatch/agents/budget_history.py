"""How much of the pool's budget was in use over the last day: a point for every quarter of an hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from sellerwatch.agents.limits import PoolRules
from sellerwatch.agents.pool_status import PoolBudgetView, budget_of
from sellerwatch.agents.ports import PoolTx
from sellerwatch.agents.queries import limits_in_force
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View

STEP = timedelta(minutes=15)
POINTS = 96


@dataclass(frozen=True)
class BudgetPointView(View):
    at: datetime
    used: Annotated[int, About("Requests in the window that ended then.", 640)]
    left: Annotated[int, About("What the limits of today would have allowed besides.", 7360)]


@dataclass(frozen=True)
class BudgetHistoryView(View):
    """`now` is what the next claim finds; `content` is the last day by the log of requests, oldest first."""

    now: PoolBudgetView
    content: Sequence[BudgetPointView]


def budget_history(tx: PoolTx, context: OperationContext, rules: PoolRules) -> BudgetHistoryView:
    """Show the budget that is used and left, now and over the last day."""
    limits = limits_in_force(tx, rules)
    now = budget_of(tx.pool_report.standings(context.moment, limits), limits)
    last = context.now.replace(minute=context.now.minute // 15 * 15, second=0, microsecond=0)
    points = []
    for each in range(POINTS, -1, -1):
        at = last - each * STEP
        used = tx.pool_report.requests_between(at - limits.window, at)
        points.append(BudgetPointView(at, used, max(0, now.limit - used)))
    return BudgetHistoryView(now, points)
