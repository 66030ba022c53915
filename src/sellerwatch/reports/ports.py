"""What reports need of the store: everything a crawl writes, and queries of their own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.reports.dashboard import Glances
from sellerwatch.reports.service_counts import Tallies, Vitals


class Counts(Protocol):
    """Plain numbers of every table, for monitors."""

    def tallies(self, now: datetime) -> Tallies: ...

    def vitals(self, now: datetime, silent_after: timedelta) -> Vitals: ...


class CountsTx(Protocol):
    @property
    def counts(self) -> Counts: ...


class ReportsTx(CrawlTx, CountsTx, Protocol):
    @property
    def glances(self) -> Glances: ...
