"""The pool's books over days of service: tokens are renewed in time, counts begin anew at midnight, old rows go."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.builders import DAY, HOUR
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.agents.ports import StoredAgent, UsageEntry
from sellerwatch.agents.sessions import open_session, renew_due
from sellerwatch.marketplaces.ports import Reply
from sellerwatch.operations.retention import forget_rows
from sellerwatch.oversight.retention import KeptRows, RetentionRules


async def stored(world: ServiceWorld, row: int = 1) -> StoredAgent:
    return next(one for one in await world.store.read(lambda tx: tx.pool_report.agents()) if one.row == row)


class TokenPage:
    """Gives out tokens that live for so long, or answers with a status alone."""

    def __init__(self, *, lifetime: int = 7200, status: int = 200) -> None:
        self._lifetime, self._status, self._given = lifetime, status, 0

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        self._given += 1
        cookie = f"token=token-number-{self._given}; Max-Age={self._lifetime}; Path=/"
        return Reply(self._status, (("set-cookie", cookie),) if self._status == 200 else (), b"")


@simulated(sellers=1, products=1)
async def test_a_running_service_renews_tokens_before_they_expire(world: ServiceWorld) -> None:
    """Nobody asks for it: without the job, every token would run out after its life and all work would stop to get new
    ones at once."""
    one = await stored(world)
    async with world.serving() as service:
        assert await open_session(service.crawl, one.row, one.agent.user_agent_id, one.agent.user_agent)
        first = (await stored(world)).token_issued_at
        await world.clock.sleep(1.5 * 3600)
    renewed = await stored(world)
    assert first is not None
    assert renewed.token_issued_at is not None
    assert HOUR <= renewed.token_issued_at - first <= HOUR + timedelta(minutes=2)


@simulated(sellers=1, products=1)
async def test_nothing_of_what_the_token_page_gives_is_stored_in_the_clear(world: ServiceWorld) -> None:
    one, marketplace = await stored(world), world.simulator.marketplace
    async with world.service() as service:
        assert await open_session(service.crawl, one.row, one.agent.user_agent_id, one.agent.user_agent)
    rows = await world.store.read(lambda tx: tx.db.rows("SELECT * FROM user_agent_token"))
    (given,) = marketplace._sessions._by_token.values()
    assert len(rows) == 1
    assert not [secret for secret in (given.token, given.nid, given.mustit_uid) if secret in str(rows)]


@pytest.mark.parametrize(("lifetime", "seconds"), [(1000, 800), (3600, 2880), (7200, 3600)])
@simulated(sellers=1, products=1)
async def test_a_token_with_a_short_life_is_renewed_when_four_fifths_of_it_are_over(
    world: ServiceWorld, lifetime: int, seconds: int
) -> None:
    """Renewed only after the hour, it would have been useless for the time in between."""
    one = await stored(world)
    async with world.service(transport=TokenPage(lifetime=lifetime)) as service:
        assert await open_session(service.crawl, one.row, one.agent.user_agent_id, one.agent.user_agent)
    held = await stored(world)
    assert held.token_issued_at is not None
    assert held.next_refresh_at == held.token_issued_at + timedelta(seconds=seconds)


@simulated(settings=settings_of(TOKEN_REFRESH_SECONDS=600), sellers=1, products=1)
async def test_the_time_after_which_tokens_are_renewed_is_a_setting(world: ServiceWorld) -> None:
    one = await stored(world)
    async with world.service(transport=TokenPage()) as service:
        assert await open_session(service.crawl, one.row, one.agent.user_agent_id, one.agent.user_agent)
    held = await stored(world)
    assert held.token_issued_at is not None
    assert held.next_refresh_at == held.token_issued_at + timedelta(seconds=600)


@simulated(sellers=1, products=1)
async def test_renewals_that_fail_are_counted_until_one_succeeds(world: ServiceWorld) -> None:
    """The count tells an operator which agent the marketplace has stopped to give tokens to, before its token ends."""
    one = await stored(world)
    async with world.service(transport=TokenPage()) as service:
        assert await open_session(service.crawl, one.row, one.agent.user_agent_id, one.agent.user_agent)
    async with world.service(transport=TokenPage(status=403)) as service:
        for failures in (1, 2):
            await world.clock.sleep(3600)
            assert await renew_due(service.crawl) == 0
            assert (await stored(world)).refresh_failures == failures
    async with world.service(transport=TokenPage()) as service:
        await world.clock.sleep(61)
        assert await renew_due(service.crawl) == 1
    assert (await stored(world)).refresh_failures == 0


@simulated(sellers=1, products=1, profile="slow")
async def test_a_renewal_that_another_process_is_doing_is_no_failure(world: ServiceWorld) -> None:
    one = await stored(world)
    async with world.service() as first, world.service() as second:
        assert await open_session(first.crawl, one.row, one.agent.user_agent_id, one.agent.user_agent)
        await world.clock.sleep(3601)
        assert sum(await asyncio.gather(renew_due(first.crawl), renew_due(second.crawl))) == 1
        now = world.clock.now()
    held = await stored(world)
    assert held.refresh_failures == 0
    assert held.next_refresh_at is not None
    assert held.next_refresh_at > now + timedelta(minutes=50), "what the other has set stays"


@simulated(sellers=1, products=3)
async def test_requests_of_the_day_begin_at_0_at_midnight(world: ServiceWorld) -> None:
    """The figure is per day: never reset, it would be the total, and an operator would see a busy agent in an idle
    one."""
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        await world.settle(service)
        busy = [
            one.agent for one in await world.store.read(lambda tx: tx.pool_report.agents()) if one.agent.usage_count
        ]
        assert busy
        assert all(agent.requests_per_day for agent in busy)
        await world.clock.sleep(DAY.total_seconds() + 120)
    after = [one.agent for one in await world.store.read(lambda tx: tx.pool_report.agents())]
    assert {agent.requests_per_day for agent in after} == {0}
    assert sum(agent.usage_count for agent in after) >= sum(agent.usage_count for agent in busy)


@simulated(settings=settings_of(USAGE_LOG_DAYS=2), sellers=1, products=1)
async def test_old_entries_of_the_usage_log_go_and_younger_ones_stay(world: ServiceWorld) -> None:
    """At full budget the log grows by 190,000 rows a day: kept for ever, it fills the disk."""
    now = world.clock.now()
    entry = UsageEntry(1, None, 200, 10, succeeded=True, rate_limited=False, too_many=False, sent_at=now)
    entries = [entry._replace(sent_at=now - age, succeeded=good) for age in (3 * DAY, DAY) for good in (True, False)]
    await world.store.transact(lambda tx: tx.usage_log.add(entries))
    async with world.serving():
        await world.clock.sleep(120)
    times = await world.store.read(lambda tx: tx.db.rows("SELECT request_timestamp FROM token_usage_log"))
    assert {row[0] for row in times} == {now - DAY}
    assert len(times) == 2


@simulated(settings=settings_of(TASK_RETENTION_DAYS=3), sellers=1, products=3)
async def test_tasks_go_once_their_day_is_kept_and_runs_and_days_stay(world: ServiceWorld) -> None:
    """At 100,000 products a day they take 61 GB a year, and the runs and the days have their counts."""
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        await world.settle(service)
        (run,) = await world.executions()
        first_day = world.now.date()
        await world.clock.sleep(2 * DAY.total_seconds())
        assert len(await world.tasks(run.execution_id)) == run.total_tasks_created > 0
        await world.clock.sleep(2 * DAY.total_seconds())
    assert await world.tasks(run.execution_id) == []
    assert await world.executions() == [run]
    days = await world.store.read(lambda tx: tx.kept_days.between(seller_id, first_day, first_day))
    assert [day.completed_tasks for day in days] == [run.completed_tasks]


@simulated(settings=settings_of(TASK_RETENTION_DAYS=3), sellers=1, products=3)
async def test_tasks_of_a_day_that_is_not_kept_stay(world: ServiceWorld) -> None:
    """The metrics of a day are made from its tasks: without them the day would read 0."""
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        await world.settle(service)
    made = await world.count("SELECT COUNT(*) FROM crawler_tasks")
    await world.clock.sleep(5 * DAY.total_seconds())
    rules, zone = RetentionRules(tasks=3 * DAY), ZoneInfo("UTC")
    assert await forget_rows(world.store, KeptRows.TASKS, rules, zone, world.now) == 0
    async with world.serving():
        await world.clock.sleep(2 * 3600)
    assert made > 0 == await world.count("SELECT COUNT(*) FROM crawler_tasks"), "kept, then deleted"


def test_the_permit_marker_is_beside_the_database_that_is_open(
    migrated_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker beside another database would keep that one from working: it would count as restored."""
    monkeypatch.chdir(tmp_path)

    async def story(world: ServiceWorld) -> None:
        one = await stored(world)
        async with world.service(transport=TokenPage()) as service:
            assert await open_session(service.crawl, one.row, one.agent.user_agent_id, one.agent.user_agent)

    play(migrated_template, story, settings=settings_of(DATABASE_URL="sqlite:///elsewhere.db"), sellers=1, products=1)
    assert list(tmp_path.iterdir()) == []
