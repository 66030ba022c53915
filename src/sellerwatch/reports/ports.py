"""What reports need of the store: everything a crawl writes, and queries of their own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from sellerwatch.reports.dashboard import DashboardQueries
from sellerwatch.reports.day_metrics import DaysTx
from sellerwatch.reports.freshness import FreshnessTx
from sellerwatch.reports.service_counts import ServiceCounts, ServiceHealth


class Counts(Protocol):
    """Numbers of every table, for monitors."""

    def service_counts(self, now: datetime) -> ServiceCounts: ...

    def service_health(self, now: datetime, silent_after: timedelta) -> ServiceHealth:
        """Processes without a heartbeat for `silent_after` do not count as alive."""
        ...


class CountsTx(Protocol):
    @property
    def counts(self) -> Counts: ...


class ReportsTx(FreshnessTx, DaysTx, CountsTx, Protocol):
    @property
    def dashboard(self) -> DashboardQueries: ...
