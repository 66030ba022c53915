"""A schedule: when its seller is crawled, and what the scheduler is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.builders import DAY, HOUR, LATER, MINUTE, NOW, SELLER, a_schedule, schedule_id

from sellerwatch.kernel.errors import IllegalMove
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule, ScheduleEventType, ScheduleStatus

ACTIVE, INACTIVE, FAILED = ScheduleStatus.ACTIVE, ScheduleStatus.INACTIVE, ScheduleStatus.FAILED
HOURLY = CrawlingInterval.of_hours(1)


def test_a_new_schedule_is_active_and_first_runs_one_interval_later() -> None:
    made, event = Schedule.create(schedule_id(), SELLER, CrawlingInterval.of_hours(6), NOW)
    assert made.status is ACTIVE
    assert made.next_run_at == NOW + 6 * HOUR
    assert not made.is_due(NOW)
    assert made.is_due(NOW + 6 * HOUR)
    assert event.type is ScheduleEventType.REGISTERED
    assert event.schedule == made


def test_a_schedule_names_its_rule_after_its_seller() -> None:
    assert a_schedule().rule == "mustit-crawler-seller_12345"


def test_a_schedule_says_its_expression() -> None:
    assert a_schedule().expression == "rate(1 day)"


def test_update_interval_recomputes_the_expression_and_the_next_run() -> None:
    changed, event = a_schedule().update_interval(HOURLY, LATER)
    assert changed.expression == "rate(1 hour)"
    assert changed.next_run_at == LATER + HOUR
    assert changed.updated_at == LATER
    assert event.type is ScheduleEventType.UPDATED
    assert event.schedule == changed


def test_a_deactivated_schedule_is_never_due() -> None:
    off, event = a_schedule().deactivate(LATER)
    assert (off.status, off.next_run_at, off.updated_at) == (INACTIVE, None, LATER)
    assert not off.is_due(NOW + 1000 * DAY)
    assert event.type is ScheduleEventType.DEACTIVATED


def test_a_reactivated_schedule_runs_one_interval_later() -> None:
    off, _ = a_schedule().deactivate(NOW)
    on, event = off.activate(LATER)
    assert (on.status, on.next_run_at, on.updated_at) == (ACTIVE, LATER + DAY, LATER)
    assert event.type is ScheduleEventType.ACTIVATED
    assert event.schedule == on


@pytest.mark.parametrize(
    ("status", "verb", "needs", "act"),
    [
        (ACTIVE, "activate", ("INACTIVE", "FAILED"), lambda s: s.activate(LATER)),
        (INACTIVE, "deactivate", ("ACTIVE", "FAILED"), lambda s: s.deactivate(LATER)),
        (INACTIVE, "update_interval", ("ACTIVE",), lambda s: s.update_interval(HOURLY, LATER)),
        (FAILED, "update_interval", ("ACTIVE",), lambda s: s.update_interval(HOURLY, LATER)),
    ],
)
def test_a_schedule_refuses_what_its_state_forbids(
    status: ScheduleStatus, verb: str, needs: tuple[str, ...], act: Callable[[Schedule], Any]
) -> None:
    with pytest.raises(IllegalMove) as refusal:
        act(a_schedule(status=status))
    assert refusal.value.facts == {
        "noun": "schedule",
        "name": SELLER,
        "verb": verb,
        "state": status,
        "needs": needs,
    }


@pytest.mark.parametrize("status", ScheduleStatus)
def test_a_schedule_fails_when_the_scheduler_could_not_be_told_even_twice(status: ScheduleStatus) -> None:
    # A replayed message that fails for good again meets a schedule that is FAILED already: nothing may crash on that.
    assert a_schedule(status=status).fail(LATER).status is FAILED


def test_a_failed_schedule_is_active_again_once_the_scheduler_was_told() -> None:
    schedule = a_schedule()
    mended = schedule.fail(NOW).acknowledge(LATER)
    assert (mended.status, mended.next_run_at, mended.updated_at) == (ACTIVE, schedule.next_run_at, LATER)


def test_a_schedule_that_failed_while_being_switched_off_is_off_once_the_scheduler_was_told() -> None:
    off, _ = a_schedule().deactivate(NOW)
    assert off.fail(NOW).acknowledge(LATER).status is INACTIVE


@pytest.mark.parametrize("status", [ACTIVE, INACTIVE])
def test_being_told_changes_nothing_of_a_schedule_that_had_not_failed(status: ScheduleStatus) -> None:
    schedule = a_schedule(status=status)
    assert schedule.acknowledge(LATER) is schedule


def test_an_operator_can_activate_or_deactivate_a_failed_schedule() -> None:
    failed = a_schedule().fail(NOW)
    assert failed.activate(LATER)[0].status is ACTIVE
    assert failed.deactivate(LATER)[0].status is INACTIVE


def test_a_failed_schedule_still_runs_by_what_it_knows() -> None:
    assert a_schedule().fail(NOW).is_due(NOW + DAY)


def test_a_schedule_that_failed_while_being_switched_off_does_not_run() -> None:
    off, _ = a_schedule().deactivate(NOW)
    assert not off.fail(NOW).is_due(NOW + 1000 * DAY)


def test_after_a_run_the_next_one_is_due() -> None:
    ran = a_schedule().ran(NOW + 2 * DAY, NOW + DAY)
    assert ran.next_run_at == NOW + 2 * DAY
    assert not ran.is_due(NOW + 2 * DAY - MINUTE)
    assert ran.is_due(NOW + 2 * DAY)


def test_a_run_that_ends_after_the_deactivation_plans_no_other() -> None:
    off, _ = a_schedule().deactivate(NOW)
    assert off.ran(NOW + DAY, LATER) == off
    assert off.ran(NOW + DAY, LATER).fail(LATER).acknowledge(LATER).status is INACTIVE
