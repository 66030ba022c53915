"""`sellerwatch schedules`: when each seller is crawled next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.builders import worker_id
from tests.world import due_messages

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import LONGEST_SPREAD

from .cli_world import NOW, SELLER, CliWorld
from .conftest import refused


def test_with_no_schedules_the_list_says_where_they_come_from(world: CliWorld) -> None:
    assert "sellerwatch sellers add" in world.said("schedules", "list")
    assert world.json("schedules", "list")["content"] == []


def test_the_list_has_each_sellers_interval_state_and_next_run(world: CliWorld) -> None:
    world.register(interval=CrawlingInterval.of_days(30))
    world.register(SellerId("z"), interval=CrawlingInterval.of_hours(6))
    world.said("sellers", "deactivate", "z")
    said = world.said("schedules", "list")
    assert "every 30 days" in said
    assert "INACTIVE" in said
    page = world.json("schedules", "list")
    assert page["totalElements"] == 2
    going, resting = page["content"]
    assert (going["sellerId"], going["status"]) == (SELLER, "ACTIVE")
    assert timedelta(days=30) <= datetime.fromisoformat(going["nextRunAt"]) - NOW <= timedelta(days=30) + LONGEST_SPREAD
    assert (resting["status"], resting["nextRunAt"], resting["nextStarts"]) == ("INACTIVE", None, [])


def test_show_has_the_next_five_starts_one_interval_apart_spread_as_the_scheduler_spreads_them(
    world: CliWorld,
) -> None:
    world.register(interval=CrawlingInterval.of_days(2))
    shown = world.json("schedules", "show", SELLER)
    starts = [datetime.fromisoformat(start) for start in shown["nextStarts"]]
    assert len(starts) == 5
    assert {later - sooner for sooner, later in pairwise(starts)} == {timedelta(days=2)}
    assert timedelta(days=2) <= starts[0] - NOW <= timedelta(days=2) + LONGEST_SPREAD
    assert shown["nextRunAt"] == shown["nextStarts"][0]
    assert (shown["scheduleRule"], shown["scheduleExpression"]) == (f"mustit-crawler-{SELLER}", "rate(2 days)")
    said = world.said("schedules", "show", SELLER)
    for start in starts:
        assert f"{start:%Y-%m-%d %H:%M:%S}" in said


def test_show_of_a_seller_that_is_not_crawled_says_how_to_crawl_it_again(world: CliWorld) -> None:
    world.register()
    world.said("sellers", "deactivate", SELLER)
    assert f"sellerwatch sellers activate {SELLER}" in world.said("schedules", "show", SELLER)


def test_the_schedule_of_an_unknown_seller_is_one_sentence(world: CliWorld) -> None:
    assert "no seller nobody" in refused(world("schedules", "show", "nobody"), 1)


def test_what_the_scheduler_would_not_take_is_told_once_more(world: CliWorld) -> None:
    world.register()
    assert "nothing to retry" in refused(world("schedules", "retry", SELLER), 1)
    assert "no seller nobody" in refused(world("schedules", "retry", "nobody"), 1)

    def fail(tx: Transaction) -> None:
        (message,) = due_messages(tx, OutboxKind.SCHEDULER, NOW, 10)
        tx.scheduler_outbox.move([message.send(worker_id()).refuse("no such bus")], NOW)
        schedule = tx.schedules.of_seller(SELLER)
        assert schedule is not None
        tx.schedules.save(schedule.fail(NOW))

    world.do(fail)
    before = world.everything()
    assert world.json("schedules", "retry", SELLER, "--dry-run")["messages"] == 1
    assert world.everything() == before
    assert world.json("schedules", "show", SELLER)["status"] == "FAILED"
    assert "1 message waits to be sent to the scheduler" in world.said("schedules", "retry", SELLER)
    (entry,) = world.trail()
    assert (entry.action, entry.subject_id) == ("schedule.retry", SELLER)


def test_the_next_run_is_made_due_at_once_and_a_dry_run_changes_nothing(world: CliWorld) -> None:
    world.register()
    before = world.everything()
    would = world.json("schedules", "run-now", SELLER, "--dry-run")
    assert (would["sellerId"], would["dryRun"]) == (SELLER, True)
    assert world.everything() == before
    assert f"The next run of {SELLER} is due now" in world.said("schedules", "run-now", SELLER)
    assert datetime.fromisoformat(world.json("schedules", "show", SELLER)["nextRunAt"]) <= datetime.now(UTC)
    world.said("sellers", "deactivate", SELLER)
    assert "INACTIVE" in refused(world("schedules", "run-now", SELLER), 1)


def test_schedules_are_shown_in_korean(world: CliWorld) -> None:
    world.register()
    assert "1일마다" in world("schedules", "list", LANGUAGE="ko").stdout
    assert "다음 실행" in world("schedules", "show", SELLER, LANGUAGE="ko").stdout
