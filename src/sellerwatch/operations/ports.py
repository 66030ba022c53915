"""The whole store, as operations that span features and the service see it."""

from __future__ import annotations

from typing import Protocol

from sellerwatch.oversight.retention import OldRows
from sellerwatch.reports.ports import ReportsTx


class ServiceTx(ReportsTx, Protocol):
    """Every table."""

    @property
    def old_rows(self) -> OldRows: ...
