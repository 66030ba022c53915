"""A seller and its schedule move together, whatever becomes of telling the scheduler."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.builders import DAY, NOW, SELLER, schedule_id
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.kernel.errors import IllegalMove
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule, ScheduleEvent, ScheduleEventType, ScheduleStatus
from sellerwatch.sellers.seller import Seller, SellerStatus

INTERVALS = st.one_of(
    st.integers(1, 30).map(CrawlingInterval.of_days), st.integers(1, 23).map(CrawlingInterval.of_hours)
)
ACTIVE, INACTIVE, FAILED = ScheduleStatus.ACTIVE, ScheduleStatus.INACTIVE, ScheduleStatus.FAILED


class SellerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.seller = Seller.register(SELLER, "Stone Shop", None, NOW)
        self.schedule, event = Schedule.create(schedule_id(), SELLER, self.seller.interval, NOW)
        self.events: list[ScheduleEvent] = [event]

    def both(self, verb: str, seller: Seller | None, moved: tuple[Schedule, ScheduleEvent] | None) -> None:
        """One transaction: both or none."""
        assert (self.schedule.status, verb) in spec.SCHEDULE or moved is None
        if seller is None or moved is None:
            return
        self.seller, self.schedule = seller, moved[0]
        self.events.append(moved[1])
        assert moved[1].schedule == moved[0]

    @rule(hours=st.integers(0, 100))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @rule(interval=INTERVALS)
    def update_interval(self, interval: CrawlingInterval) -> None:
        seller = attempt(
            "seller",
            self.seller,
            self.seller.status,
            "update_interval",
            lambda s: s.update_interval(interval, self.now),
        )
        try:
            moved = self.schedule.update_interval(interval, self.now)
        except IllegalMove:
            assert self.schedule.status is not ACTIVE
            return
        self.both("update_interval", seller, moved)
        assert self.events[-1].type is ScheduleEventType.UPDATED

    @rule()
    def archive(self) -> None:
        was_active = self.seller.is_active
        seller = attempt("seller", self.seller, self.seller.status, "archive", lambda s: s.archive(self.now))
        if seller and was_active:
            self.both("deactivate", seller, self.schedule.deactivate(self.now))
        elif seller:
            self.seller = seller

    @rule()
    def activate(self) -> None:
        seller = attempt("seller", self.seller, self.seller.status, "activate", lambda s: s.activate(self.now))
        if seller:
            self.both("activate", seller, self.schedule.activate(self.now))
            assert self.events[-1].type is ScheduleEventType.ACTIVATED

    @rule()
    def deactivate(self) -> None:
        seller = attempt("seller", self.seller, self.seller.status, "deactivate", lambda s: s.deactivate(self.now))
        if seller:
            self.both("deactivate", seller, self.schedule.deactivate(self.now))
            assert self.events[-1].type is ScheduleEventType.DEACTIVATED

    @rule()
    def the_scheduler_could_not_be_told(self) -> None:
        failed = attempt("schedule", self.schedule, self.schedule.status, "fail", lambda s: s.fail(self.now))
        assert failed is not None
        assert failed.status is FAILED
        self.schedule = failed

    @rule()
    def the_scheduler_was_told_after_all(self) -> None:
        self.schedule = self.schedule.acknowledge(self.now)
        assert self.schedule.status is (ACTIVE if self.seller.is_active else INACTIVE)

    @rule()
    def a_due_run_is_started(self) -> None:
        if self.schedule.is_due(self.now):
            self.seller.must_be_active()
            self.schedule = self.schedule.ran(self.now + self.schedule.interval.length, self.now)
            assert not self.schedule.is_due(self.now)

    @rule(count=st.integers(0, 10))
    def its_products_are_counted(self, count: int) -> None:
        before = self.seller
        self.seller = before.update_total_product_count(count, self.now)
        assert self.seller.status is before.status

    @invariant()
    def the_schedule_goes_with_its_seller(self) -> None:
        meant = ACTIVE if self.seller.is_active else INACTIVE
        assert self.schedule.status in (meant, FAILED)

    @invariant()
    def an_inactive_seller_is_never_due(self) -> None:
        if self.seller.status is not SellerStatus.ACTIVE:
            assert not self.schedule.is_due(self.now + 1000 * DAY)
        else:
            assert self.schedule.is_due(self.now + 31 * DAY), "an active seller must be crawled some day"

    @invariant()
    def they_agree_on_the_interval(self) -> None:
        assert self.schedule.interval == self.seller.interval
        assert self.schedule.expression == self.seller.interval.expression

    @invariant()
    def the_first_event_registered_it_and_no_other(self) -> None:
        assert [event.type for event in self.events].count(ScheduleEventType.REGISTERED) == 1
        assert self.events[0].type is ScheduleEventType.REGISTERED

    @invariant()
    def times_are_stamped(self) -> None:
        assert NOW <= self.seller.updated_at <= self.now
        assert NOW <= self.schedule.updated_at <= self.now


TestSellerAndSchedule = SellerMachine.TestCase
TestSellerAndSchedule.settings = QUICK
