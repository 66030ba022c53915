"""What schedules need of the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from sellerwatch.kernel.ids import ScheduleId, SellerId
from sellerwatch.schedules.schedule import Schedule


class Schedules(Protocol):
    def of_seller(self, seller_id: SellerId) -> Schedule | None: ...

    def get(self, schedule_id: ScheduleId) -> Schedule | None: ...

    def add(self, schedule: Schedule) -> None: ...

    def save(self, schedule: Schedule) -> None: ...

    def due(self, now: datetime) -> Sequence[Schedule]:
        """Those whose time has come, earliest first."""

    def page(self, *, offset: int, limit: int) -> tuple[Sequence[Schedule], int]: ...


class SchedulesTx(Protocol):
    @property
    def schedules(self) -> Schedules: ...
