"""What reports need of the store: everything a crawl writes, and queries of their own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.reports.dashboard import DashboardQueries
from sellerwatch.reports.service_counts import ServiceCounts, ServiceHealth


class Counts(Protocol):
    """Plain numbers of every table, for monitors."""

    def tallies(self, now: datetime) -> ServiceCounts: ...

    def vitals(self, now: datetime, silent_after: timedelta) -> ServiceHealth: ...


class CountsTx(Protocol):
    @property
    def counts(self) -> Counts: ...


class ReportsTx(CrawlTx, CountsTx, Protocol):
    @property
    def dashboard(self) -> DashboardQueries: ...
