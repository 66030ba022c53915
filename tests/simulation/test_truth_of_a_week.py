"""A week with faults: what is shown equals what the logs of the marketplace and the receiver say."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.simulation.logs_of_a_week import LONGEST_PROBE, Logs, Recorder, change_kinds, occurred
from tests.simulation.outages import HOUR, MINUTE, calm_settings, plan
from tests.simulation.service_world import ServiceWorld, play

from sellerwatch.catalog.changes import ChangeFilter
from sellerwatch.compose.check_context import check_context_of
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.commands import MessageAction, move_chosen
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.reports.attention import AttentionView, list_attention
from sellerwatch.reports.checks import AttentionKind
from sellerwatch.reports.day_metrics import span
from sellerwatch.reports.freshness import FreshnessState, FreshnessView, freshness_views
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.service.service import Service
from sellerwatch.simulator.chaos import FaultKind, Outage
from sellerwatch.simulator.product_server import AppliedEvent, ServerBehaviour, ServerMode

SIX_HOURLY = CrawlingInterval(6, IntervalUnit.HOURS)


async def attention(world: ServiceWorld, service: Service) -> list[AttentionView]:
    context = check_context_of(world.settings, has_receiver=True, is_worker=True, is_scheduler=True)
    return list((await world.session(service).ask(list_attention, context)).content)


async def kinds(world: ServiceWorld, service: Service) -> list[str]:
    return [str(each.kind) for each in await attention(world, service)]


async def shown_changes(world: ServiceWorld) -> Counter[str]:
    found: Counter[str] = Counter()
    cursor = None
    while True:
        page = await world.store.read(lambda tx, at=cursor: tx.changes.page(ChangeFilter(), at, 100))  # type: ignore[misc]
        found.update(str(change.kind) for change in page.content)
        cursor = page.next
        if cursor is None:
            return found


@dataclass(frozen=True)
class Snapshot:
    """What was shown at one moment, and the runs that were open."""

    at: float
    freshness: Mapping[SellerId, FreshnessView]
    attention: Sequence[AttentionView]

    @property
    def kinds(self) -> list[AttentionKind]:
        return [each.kind for each in self.attention]


async def look(world: ServiceWorld, service: Service) -> Snapshot:
    now = world.clock.now()
    views = await world.store.read(lambda tx: freshness_views(tx, now, "en"))
    return Snapshot(now.timestamp(), views, await attention(world, service))


@dataclass
class Faults:
    """What was done to the marketplace and to the receiver."""

    outages: list[Outage]
    away: list[tuple[float, float]]

    def outages_at(self, at: float, lasting: float = 0.0) -> list[Outage]:
        return [each for each in self.outages if each.start < at <= each.end + lasting]

    def is_receiver_away(self, at: float, lasting: float = 0.0) -> bool:
        return any(since < at <= until + lasting for since, until in self.away)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_week_with_faults_is_shown_as_the_logs_have_it(migrated_template: Path, seed: int) -> None:
    async def story(world: ServiceWorld) -> None:
        rng, faults, shown = random.Random(seed), Faults([], []), list[Snapshot]()
        recorder = world.transport = Recorder(world.transport, world.clock)
        sellers = await world.register_all(every=SIX_HOURLY, due=world.clock.now())
        async with world.serving(schedules=True) as service:
            await world.clock.sleep(10 * MINUTE)
            for hour in range(7 * 24):
                if rng.random() < 0.3:
                    world.simulator.mutate(rng.randint(1, 3), seed=f"{seed} {hour}")
                if rng.random() < 0.05:
                    fault = rng.choice([FaultKind.ERROR, FaultKind.REFUSED])
                    endpoint = rng.choice([None, "detail", "options"])
                    faults.outages.append(plan(world, fault, rng.uniform(0.2, 3) * HOUR, endpoint=endpoint))
                await turn_receiver(world, service, faults, rng.random())
                await world.clock.sleep(rng.uniform(30, 90) * MINUTE)
                shown.append(await look(world, service))
            await turn_receiver(world, service, faults, 1.0)
            await world.clock.sleep(8 * HOUR)
            assert await kinds(world, service) == []
        logs = Logs(recorder.log, world.simulator.product_server.events())
        # Every change found was told, one event for each product and run, so both logs have the same changes.
        assert await shown_changes(world) == change_kinds(logs.events)
        runs = await world.executions()
        check_runs(runs, logs.events, sellers)
        late = [check_freshness(logs, runs, snapshot) for snapshot in shown]
        assert any(late)
        for snapshot, late_sellers in zip(shown, late, strict=True):
            check_attention(logs, faults, snapshot, late_sellers)
        assert {kind for snapshot in shown for kind in snapshot.kinds} >= {"endpoints_away", "receiver_away"}
        await check_days(world, logs, runs)

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20, seed=seed)


async def turn_receiver(world: ServiceWorld, service: Service, faults: Faults, chance: float) -> None:
    """Take the receiver away, or bring it back and send again what had used up its tries, or neither."""
    now, is_away = world.now.timestamp(), bool(faults.away) and faults.away[-1][1] == inf
    if chance < 0.05 and not is_away:
        world.simulator.product_server.behave(ServerBehaviour(ServerMode.DOWN))
        faults.away.append((now, inf))
    elif chance > 0.6 and is_away:
        world.simulator.product_server.behave(ServerBehaviour())
        faults.away[-1] = (faults.away[-1][0], now)
        await world.session(service).run(move_chosen, MessageAction.REPLAY, OutboxKind.PRODUCT, MessageFilter())


def check_runs(runs: Sequence[Execution], events: Sequence[AppliedEvent], sellers: Sequence[SellerId]) -> None:
    """What all runs of a seller found is what the receiver was told of it."""
    names = {"new": "PRODUCT_CREATED", "gone": "PRODUCT_DELETED", "changed": "PRODUCT_UPDATED"}
    for seller_id in sellers:
        told, counted = Counter(event.event_type for event in events if event.seller_id == seller_id), Counter[str]()
        for run in runs:
            if run.seller_id == seller_id:
                found = (run.new_products or 0, run.gone_products or 0, run.changed_products or 0)
                counted.update(dict(zip(names, found, strict=True)))
        assert {name: counted[name] for name in names} == {name: told[type_] for name, type_ in names.items()}


def run_at(runs: Sequence[Execution], seller_id: SellerId, at: float) -> tuple[Execution | None, Execution | None]:
    """The last run that was complete then, and the one that was open."""
    mine = [run for run in runs if run.seller_id == seller_id and run.created_at.timestamp() <= at]
    is_over = {run.execution_id for run in mine if run.completed_at and run.completed_at.timestamp() <= at}
    complete = [run for run in mine if run.execution_id in is_over and run.status is ExecutionStatus.COMPLETED]
    still_open = [run for run in mine if run.execution_id not in is_over]
    return (complete[-1] if complete else None), (still_open[-1] if still_open else None)


def check_freshness(logs: Logs, runs: Sequence[Execution], snapshot: Snapshot) -> set[SellerId]:
    """Share, waiting events and state are those of the logs; return the sellers that are late by them."""
    late = set()
    for seller_id, view in snapshot.freshness.items():
        last, still_open = run_at(runs, seller_id, snapshot.at)
        assert last is not None
        # Runs of this world are planned to take seconds: the slack is a tenth.
        since = snapshot.at - 6.6 * HOUR
        share = logs.share_in_time(seller_id, snapshot.at, since, still_open)
        waiting = logs.undelivered(seller_id, snapshot.at)
        assert (view.fresh_share, view.undelivered) == (share, waiting), (snapshot.at, seller_id)
        state = FreshnessState.FRESH if (share, waiting) == (1.0, 0) else FreshnessState.LATE
        assert view.state is state
        assert (view.cause is None) is (state is FreshnessState.FRESH)
        if state is FreshnessState.LATE:
            late.add(seller_id)
    return late


CODES = {FaultKind.ERROR: "SERVER_ERROR", FaultKind.REFUSED: "UNREACHABLE"}


def check_attention(logs: Logs, faults: Faults, snapshot: Snapshot, late: set[SellerId]) -> None:
    """What is shown is there, once, and nothing that is there is missing."""
    at, found = snapshot.at, {each.kind: each for each in snapshot.attention}
    assert len(found) == len(snapshot.attention), "one entry for each cause"
    recent = faults.outages_at(at, LONGEST_PROBE)
    for kind, entry in found.items():
        code = None if entry.cause is None else entry.cause.code
        if kind is AttentionKind.ENDPOINTS_AWAY:
            assert code in {CODES[each.ailment] for each in recent}
        elif kind is AttentionKind.FAILING_STARTS:
            assert any(each.endpoint is None for each in recent)
        elif kind is AttentionKind.RECEIVER_AWAY:
            assert faults.is_receiver_away(at, LONGEST_PROBE)
        elif kind is AttentionKind.FAILED_EVENTS:
            assert faults.is_receiver_away(at)
        else:
            assert kind is AttentionKind.LATE_SELLERS, kind
            assert set(entry.seller_ids) <= late
            assert code not in ("CIRCUIT_OPEN", "RECEIVER_AWAY"), "that is an entry of its own"
    for outage in faults.outages_at(at):
        if logs.failed_requests(outage, at - MINUTE) >= 10:
            assert AttentionKind.ENDPOINTS_AWAY in found, (at, outage)
    oldest = min((occurred(event) for event in logs.events if occurred(event) < at < event.received_at), default=at)
    if faults.is_receiver_away(at) and at - oldest > 10 * MINUTE:
        assert AttentionKind.RECEIVER_AWAY in found, at
    assert found or not late, (at, late)


async def check_days(world: ServiceWorld, logs: Logs, runs: Sequence[Execution]) -> None:
    """Each day that is kept is, in every number, the day by the logs; tasks only where every run ended on its day."""
    kept = await world.store.read(lambda tx: tx.kept_days.between(None, dt.date(2000, 1, 1), dt.date(2100, 1, 1)))
    assert len({day.day for day in kept}) >= 7
    whole_days = 0
    for day in kept:
        since, until = (time.timestamp() for time in span(day.day, ZoneInfo("UTC")))
        starts = [run.created_at.timestamp() for run in runs if run.seller_id == day.seller_id]
        expected = logs.day(day.seller_id, since, until, starts)
        spans = [(run.created_at.timestamp(), (run.completed_at or world.now).timestamp()) for run in runs]
        if any(began < edge < ended for began, ended in spans for edge in (since, until)):
            for name in ("waiting_tasks", "in_progress_tasks", "completed_tasks", "seen_products"):
                del expected[name]
        else:
            whole_days += 1
        assert {name: getattr(day, name) for name in expected} == expected, (day.day, day.seller_id)
    assert whole_days >= 7


def test_trouble_that_makes_sellers_late_stays_one_entry(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.register_all(every=CrawlingInterval(1, IntervalUnit.HOURS), due=world.clock.now())
        async with world.serving(schedules=True) as service:
            await world.clock.sleep(30 * MINUTE)
            assert await kinds(world, service) == []
            plan(world, FaultKind.UNAUTHORISED, 2 * HOUR)
            await world.clock.sleep(45 * MINUTE)
            # Refused tokens fail starts, and open the agents' circuits: one of the two is named.
            one_of = (["failing_starts"], ["pool_breaker"])
            assert await kinds(world, service) in one_of
            await world.clock.sleep(HOUR)
            assert await kinds(world, service) in one_of
            await world.clock.sleep(2 * HOUR)
            assert await kinds(world, service) == []
            world.simulator.mutate(10, seed=7)
            world.simulator.product_server.behave(ServerBehaviour(ServerMode.DOWN))
            await world.clock.sleep(62 * MINUTE)
            assert await kinds(world, service) == ["receiver_away"]
            world.simulator.product_server.behave(ServerBehaviour())
            await world.clock.sleep(20 * MINUTE)
            assert await kinds(world, service) == []

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20)


def test_a_calm_week_needs_nobody(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.register_all(every=SIX_HOURLY, due=world.clock.now())
        async with world.serving(schedules=True) as service:
            for _ in range(28):
                await world.clock.sleep(6 * HOUR)
                assert await kinds(world, service) == []

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20)
