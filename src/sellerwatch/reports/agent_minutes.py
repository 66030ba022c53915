"""The requests of an agent in the last hour, minute by minute: the chart on its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.agents.agent import AgentName
from sellerwatch.agents.queries import find_agent
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import View
from sellerwatch.reports.ports import ReportsTx

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
MINUTES = 61
MOST_REQUESTS = 5000


@dataclass(frozen=True)
class MinuteView(View):
    at: datetime
    succeeded: int
    failed: int


@dataclass(frozen=True)
class AgentMinutesView(View):
    """Empty where the agent made no request."""

    content: Sequence[MinuteView]


def agent_minutes(tx: ReportsTx, context: OperationContext, name: AgentName) -> AgentMinutesView:
    """Count the requests of an agent in each minute of the last hour."""
    now, first = context.now, (context.now - HOUR).replace(second=0, microsecond=0)
    requests = tx.dashboard.asked(find_agent(tx, name).row, now - HOUR, now + HOUR, MOST_REQUESTS)
    if not requests:
        return AgentMinutesView([])
    counts = [[0, 0] for _ in range(MINUTES)]
    for request in requests:
        minute = int((request.at - first) / MINUTE)
        if 0 <= minute < MINUTES:
            counts[minute][not request.succeeded] += 1
    return AgentMinutesView([MinuteView(first + n * MINUTE, *both) for n, both in enumerate(counts)])
