"""Each kind of trouble appears in attention within a minute, once, with its cause, and goes away when it is over.

A world of one seller and ten products for each trouble, on virtual time.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.builders import worker_id
from tests.simulated_service import simulator_of
from tests.simulation.outages import HOUR, MINUTE, calm_settings, plan
from tests.simulation.service_world import ServiceWorld, play

from sellerwatch.agents.commands import block_agents, set_limit, unblock_agents, unset_limit
from sellerwatch.catalog.quarantine import CaseStatus
from sellerwatch.catalog.removal import RemovalStatus
from sellerwatch.compose.check_context import check_context_of
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.marketplace import pause_requests, resume_requests
from sellerwatch.operations.quarantine import release_case
from sellerwatch.operations.removals import confirm_removal
from sellerwatch.outbox.commands import MessageAction, move_chosen, pause, resume
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import EventBody, MessageFilter
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.oversight.backups import LastBackup
from sellerwatch.reports.attention import list_attention
from sellerwatch.reports.checks import AttentionKind
from sellerwatch.reports.deploy_checks import Deployment
from sellerwatch.reports.service_state import CheckContext
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.sellers.commands import retry_schedule
from sellerwatch.service.service import Service
from sellerwatch.settings.limits import TunableLimits
from sellerwatch.simulator.chaos import OUTAGE_ENDPOINTS, PROFILES, ChaosProfile, FaultKind, Storms
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode
from sellerwatch.simulator.rendering import Redesign
from sellerwatch.simulator.world import MutationKind

HOURLY = CrawlingInterval(1, IntervalUnit.HOURS)
#: The first run starts within the seller's own moment after its time.
FIRST_RUN = 8 * MINUTE
LOSE = """
UPDATE crawler_tasks SET lost_leases = 2, worker_id = :worker WHERE id = (
    SELECT MIN(id) FROM crawler_tasks WHERE status = 'IN_PROGRESS')
"""
#: Longer than any suspension, circuit or re-check.
LONGEST_END = 30


@dataclass
class Answering:
    """A receiver that refuses what it gets for good while `refuses`, and fails for the sellers in `fails_for`; else it
    passes everything on."""

    behind: Any
    refuses: bool = False
    fails_for: Collection[SellerId] = ()

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        if json.loads(message.payload)["sellerId"] in self.fails_for:
            return Receipt.of_answer(500, b"no room for this seller")
        if self.refuses:
            return Receipt.of_answer(422, b"the price is missing")
        receipt: Receipt = await self.behind.deliver(message, now)
        return receipt


class Taking:
    """A scheduler that takes every message."""

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        return Receipt.of_answer(200, b"")


@dataclass
class Scene:
    """A service at work on a world, and what the process that looks can see beside the database."""

    world: ServiceWorld
    stack: AsyncExitStack
    at_work: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    service: Service | None = None

    async def open(self, **options: Any) -> None:
        given = {"schedules": True, **options}
        self.service = await self.stack.enter_async_context(self.world.serving(**given))
        self.at_work = {"is_worker": True, "is_scheduler": given["schedules"]}

    async def close(self) -> None:
        await self.stack.aclose()
        self.service, self.at_work = None, {}

    async def run(self, command: Callable[..., Any], *args: Any) -> Any:
        return await self.world.session(self._service).run(command, *args)

    async def attention(self) -> list[tuple[AttentionKind, FailureCode | None]]:
        known = check_context_of(self.world.settings, has_receiver=True)
        context: CheckContext = replace(known, **self.at_work, **self.seen)
        async with AsyncExitStack() as stack:
            service = self.service
            if service is None:
                service = await stack.enter_async_context(self.world.service())
            found = await self.world.session(service).ask(list_attention, context)
        return [(each.kind, None if each.cause is None else each.cause.code) for each in found.content]

    async def crawl(self, seller: int = 0) -> None:
        """A run of the seller, unless one is open."""
        if self.service is None or any(run.is_open for run in await self.world.executions()):
            return
        await self.world.start(self.service, self.world.sellers[seller])
        self.service.nudge()

    def mutate(self, how: str, *places: int, seller: int = 0) -> None:
        items = self.world.simulator.world.listing(self.world.sellers[seller])
        for item_no in [items[place] for place in places]:
            self.world.simulator.world.change(item_no, self.world.rng, how)

    @property
    def _service(self) -> Service:
        assert self.service is not None
        return self.service


Act = Callable[[Scene], Awaitable[None] | None]


def nothing(_: Scene) -> None:
    pass


@dataclass(frozen=True)
class Trouble:
    """`shows`: what attention has a minute after it began; nothing where no person is needed. `made_by`: kinds of chaos
    that it consists of. With `crawls`, a run starts when it begins, so that somebody meets it."""

    name: str
    begin: Act
    end: Act = nothing
    shows: tuple[AttentionKind, FailureCode | None] | None = None
    made_by: Collection[object] = ()
    crawls: bool = True
    sellers: int = 1
    products: int = 10
    agents: int = 100
    settings: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def outages() -> Iterator[Trouble]:
    """Every fault that an outage can have, at every endpoint where it can happen."""
    away = AttentionKind.ENDPOINTS_AWAY
    starts, breaker = AttentionKind.FAILING_STARTS, AttentionKind.POOL_BREAKER
    shows: dict[tuple[FaultKind, str], tuple[AttentionKind, FailureCode | None] | None] = {
        (FaultKind.REFUSED, "robots"): None,
        (FaultKind.REFUSED, "other"): None,
        (FaultKind.UNAUTHORISED, "list"): (starts, FailureCode.FRESH_TOKEN_REJECTED),
        (FaultKind.UNAUTHORISED, "detail"): (AttentionKind.FAILED_RUNS, FailureCode.REQUEST_LIMIT),
        (FaultKind.UNAUTHORISED, "options"): (AttentionKind.FAILED_RUNS, FailureCode.REQUEST_LIMIT),
        (FaultKind.STORM, "list"): (starts, FailureCode.TOO_MANY_REQUESTS),
        (FaultKind.STORM, "detail"): (breaker, FailureCode.POOL_BREAKER_OPEN),
        (FaultKind.STORM, "options"): (breaker, FailureCode.POOL_BREAKER_OPEN),
        (FaultKind.WITHOUT_MODULE, "detail"): (AttentionKind.PAUSED_RUNS, None),
    }
    causes = {FaultKind.REFUSED: FailureCode.UNREACHABLE, FaultKind.ERROR: FailureCode.SERVER_ERROR}
    for fault, endpoints in OUTAGE_ENDPOINTS.items():
        for endpoint in sorted(endpoints):
            default = (away, causes.get(fault))
            yield Trouble(
                f"{fault.value} at {endpoint}",
                lambda scene, fault=fault, endpoint=endpoint: _plan(scene, fault, endpoint=endpoint),  # type: ignore[misc]
                _end_outages,
                shows.get((fault, endpoint), default),
                {fault, (fault, endpoint)},
            )


def _plan(scene: Scene, fault: FaultKind, **narrowed: Any) -> None:
    # New tokens are needed, so that the token page is asked too.
    if narrowed.get("endpoint") == "session":
        scene.world.simulator.marketplace.restart(scene.world.now.timestamp())
    plan(scene.world, fault, HOUR, **narrowed)


def _end_outages(scene: Scene) -> None:
    scene.world.simulator.marketplace.chaos.end_outages()


def profile(name: str, shows: AttentionKind | None = None, cause: FailureCode | None = None, **shares: Any) -> Trouble:
    """A fault of a share of the requests."""

    def become(scene: Scene) -> None:
        scene.world.simulator.marketplace.chaos.become(ChaosProfile(**shares))

    return Trouble(name, become, be_calm, None if shows is None else (shows, cause), set(shares))


def be_calm(scene: Scene) -> None:
    scene.world.simulator.marketplace.chaos.become(PROFILES["calm"])


def receivers() -> Iterator[Trouble]:
    """Every way in which the receiver fails."""
    for mode in ServerMode:
        if mode is not ServerMode.WELL:
            yield Trouble(
                f"receiver {mode.value}",
                lambda scene, mode=mode: _receive(scene, mode),  # type: ignore[misc]
                lambda scene: scene.world.simulator.product_server.behave(ServerBehaviour()),
                (AttentionKind.RECEIVER_AWAY, FailureCode.RECEIVER_AWAY),
                {mode},
            )


def _receive(scene: Scene, mode: ServerMode) -> None:
    scene.mutate("reprice", *range(5))
    scene.world.simulator.product_server.behave(ServerBehaviour(mode))


async def ban_one(scene: Scene) -> None:
    agent = (await scene.world.agents())[0]
    _plan(scene, FaultKind.UNAUTHORISED, user_agent=agent.user_agent)


def break_one(scene: Scene) -> None:
    product = scene.world.simulator.world.listing(scene.world.sellers[0])[0]
    _plan(scene, FaultKind.WITHOUT_MODULE, item_no=product)


def redesign(scene: Scene) -> None:
    scene.world.simulator.marketplace.renderer.redesign(Redesign(), None)


def shrink(scene: Scene) -> None:
    for item_no in list(scene.world.simulator.world.listing(scene.world.sellers[0]))[:12]:
        scene.world.simulator.world.vanish(item_no)


async def confirm_all(scene: Scene) -> None:
    held = await scene.world.read(
        lambda tx: tx.removals.page(seller_id=None, status=RemovalStatus.HELD, cursor=None, limit=9)
    )
    for removal in held.content:
        await confirm_removal(scene.world.session(scene._service), removal.removal_id)


async def release_all(scene: Scene) -> None:
    cases = await scene.world.read(
        lambda tx: tx.quarantine.page(seller_id=None, status=CaseStatus.OPEN, cursor=None, limit=9)
    )
    for case in cases.content:
        await release_case(scene.world.session(scene._service), case.case_id)


def mutations(scene: Scene) -> None:
    world = scene.world.simulator.world
    items = list(world.listing(scene.world.sellers[0]))
    world.vanish(items[0])
    world.bump(items[1])
    world.appear(scene.world.sellers[0])
    scene.mutate("reprice", 4)


async def refuse_events(scene: Scene) -> None:
    scene.mutate("reprice", 0, 1)
    scene.world.receiver.refuses = True  # type: ignore[attr-defined]


async def fail_for_one_seller(scene: Scene) -> None:
    """Events of one seller fail, then the receiver takes those of the other."""
    scene.world.receiver.fails_for = scene.world.sellers[:1]  # type: ignore[attr-defined]
    for seller in (0, 1):
        scene.mutate("reprice", *range(6), seller=seller)
        await scene.crawl(seller)
        await scene.world.clock.sleep(20)


def take_all_sellers(scene: Scene) -> None:
    scene.world.receiver.fails_for = ()  # type: ignore[attr-defined]


async def replay_events(scene: Scene) -> None:
    scene.world.receiver.refuses = False  # type: ignore[attr-defined]
    await scene.run(move_chosen, MessageAction.REPLAY, OutboxKind.PRODUCT, MessageFilter())


async def reopen_without_receiver(scene: Scene) -> None:
    await scene.close()
    scene.mutate("reprice", 0)
    receiver, scene.world.receiver = scene.world.receiver, None  # type: ignore[assignment]
    await scene.open()
    scene.world.receiver = receiver


async def reopen(scene: Scene) -> None:
    await scene.close()
    scene.seen = {}
    await scene.open()


async def reopen_without_schedules(scene: Scene) -> None:
    await scene.close()
    await scene.open(schedules=False)


async def no_receiver(scene: Scene) -> None:
    scene.seen = {"has_receiver": False}
    await reopen_without_receiver(scene)
    await scene.crawl()
    await scene.world.clock.sleep(10)


async def events_are_stuck(scene: Scene) -> None:
    await reopen_without_receiver(scene)
    await scene.crawl()
    await scene.world.clock.sleep(MINUTE)


async def refuse_schedules(scene: Scene) -> None:
    await scene.close()
    seller_id, schedule = scene.world.sellers[0], await scene.world.schedule(scene.world.sellers[0])
    await scene.world.transact(lambda tx: tx.schedules.save(schedule.fail(scene.world.now)))
    assert (await scene.world.schedule(seller_id)).status == "FAILED"
    await scene.open(scheduler=Taking())


async def lose_workers(scene: Scene) -> None:
    """A worker that was not heard of for an hour holds a task that two others have lost."""
    scene.world.simulator.marketplace.chaos.become(ChaosProfile(latency_ms=2_000))
    await scene.crawl()
    lost, long_ago = worker_id(9), scene.world.now - timedelta(hours=1)
    await scene.world.transact(
        lambda tx: tx.workers.enter(WorkerInfo(lost, "test", "elsewhere", 9, long_ago, long_ago))
    )

    async def is_under_way() -> bool:
        return bool(await scene.world.count("SELECT COUNT(*) FROM crawler_tasks WHERE status = 'IN_PROGRESS'"))

    await scene.world.until(is_under_way)
    await scene.world.transact(lambda tx: tx.db.run(LOSE, {"worker": lost}))


async def keep_busy(scene: Scene) -> None:
    """Answers so slow that the next run is not over when its products are late."""
    scene.world.simulator.marketplace.chaos.become(ChaosProfile(latency_ms=8_000))
    (first,) = await scene.world.executions()
    late_at = (first.started_at or first.created_at) + timedelta(minutes=66)
    await scene.world.clock.sleep((late_at - scene.world.now).total_seconds())


def see(**seen: object) -> Act:
    return lambda scene: scene.seen.update(seen)


def unsee(scene: Scene) -> None:
    scene.seen = {}


def on_agents(command: Callable[..., Any]) -> Act:
    async def act(scene: Scene) -> None:
        await scene.run(command, ["1", "2"])

    return act


async def shrink_budget(scene: Scene) -> None:
    await scene.world.leave_agents(3)
    await scene.run(set_limit, TunableLimits(scene.world.settings), "window_limit", "1")


async def widen_budget(scene: Scene) -> None:
    await scene.run(unset_limit, TunableLimits(scene.world.settings), "window_limit")


async def back_up_long_ago(scene: Scene) -> None:
    await _keep_backup(scene, scene.world.now - timedelta(days=scene.world.settings.backup_max_age_days))


async def back_up(scene: Scene) -> None:
    await _keep_backup(scene, scene.world.now)


async def _keep_backup(scene: Scene, made_at: datetime) -> None:
    last = LastBackup(made_at, "/var/backups/sellerwatch.db", 1_000_000, 1.0, "0018")
    await scene.world.transact(lambda tx: tx.backups.save(last))


TROUBLES: Sequence[Trouble] = (
    *outages(),
    Trouble("one agent banned", ban_one, _end_outages),
    Trouble("one product unreadable", break_one, _end_outages, (AttentionKind.QUARANTINE_CASES, None)),
    profile("errors", AttentionKind.ENDPOINTS_AWAY, FailureCode.SERVER_ERROR, error=1.0),
    profile("some errors", error=0.02),
    profile("drops", AttentionKind.ENDPOINTS_AWAY, FailureCode.CONNECTION_DROPPED, drop=1.0),
    profile("cuts", AttentionKind.ENDPOINTS_AWAY, FailureCode.CONNECTION_DROPPED, cut=1.0),
    profile("truncated", AttentionKind.FAILING_STARTS, FailureCode.UNREADABLE, truncated=1.0),
    profile("error pages", AttentionKind.FAILING_STARTS, FailureCode.UNREADABLE, html=1.0),
    profile("revoked tokens", AttentionKind.FAILING_STARTS, FailureCode.FRESH_TOKEN_REJECTED, revoked=1.0),
    profile("some revoked tokens", revoked=0.05),
    profile("short storms", storms=Storms(every=10, length=1, share=0.2, at_most=5)),
    profile("tokens expire soon", token_seconds=20),
    profile("foreign items", foreign=1.0),
    profile("shifting lists", shift=1.0),
    profile("without modules", AttentionKind.PAUSED_RUNS, moduleless=1.0),
    profile("absurd totals", AttentionKind.FAILING_STARTS, FailureCode.UNREADABLE, inflated=1.0),
    profile("slow answers", latency_ms=500, jitter_ms=100),
    profile("answers too slow", AttentionKind.ENDPOINTS_AWAY, FailureCode.TIMED_OUT, latency_ms=40_000),
    Trouble(
        "all tokens void",
        lambda scene: scene.world.simulator.marketplace.restart(scene.world.now.timestamp()),
        made_by={"restart"},
    ),
    Trouble(
        "a redesign",
        redesign,
        lambda scene: scene.world.simulator.marketplace.renderer.redesign(None, None),
        (AttentionKind.PAUSED_RUNS, None),
        {"redesign"},
    ),
    Trouble("changes of every day", mutations, made_by={"mutate", *MutationKind}),
    Trouble(
        "a mass change",
        lambda scene: scene.mutate("rename", *range(25)),
        release_all,
        (AttentionKind.QUARANTINE_CASES, None),
        products=30,
    ),
    Trouble("a shrinking list", shrink, confirm_all, (AttentionKind.HELD_REMOVALS, None), products=20),
    *receivers(),
    Trouble("receiver refuses", refuse_events, replay_events, (AttentionKind.FAILED_EVENTS, None)),
    Trouble(
        "receiver fails for one seller",
        fail_for_one_seller,
        take_all_sellers,
        (AttentionKind.REFUSED_SELLERS, FailureCode.SELLER_REFUSED),
        crawls=False,
        sellers=2,
    ),
    Trouble("no receiver", no_receiver, reopen, (AttentionKind.NO_RECEIVER, None), crawls=False),
    Trouble(
        "nobody delivers",
        events_are_stuck,
        reopen,
        (AttentionKind.STUCK_EVENTS, None),
        crawls=False,
        settings={"OUTBOX_INTERVAL_SECONDS": 10},
    ),
    Trouble(
        "marketplace paused",
        lambda scene: pause_requests(scene.world.session(scene._service), None),  # type: ignore[arg-type, return-value]
        lambda scene: resume_requests(scene.world.session(scene._service), None),  # type: ignore[arg-type, return-value]
        (AttentionKind.MARKETPLACE_PAUSED, None),
    ),
    Trouble(
        "seller paused",
        lambda scene: pause_requests(scene.world.session(scene._service), scene.world.sellers[0]),  # type: ignore[arg-type, return-value]
        lambda scene: resume_requests(scene.world.session(scene._service), scene.world.sellers[0]),  # type: ignore[arg-type, return-value]
        (AttentionKind.SELLERS_PAUSED, None),
    ),
    Trouble(
        "outbox paused",
        lambda scene: scene.run(pause, OutboxKind.PRODUCT, None),
        lambda scene: scene.run(resume, OutboxKind.PRODUCT),
        (AttentionKind.OUTBOX_PAUSED, None),
    ),
    Trouble(
        "the circuits of all agents open",
        lambda scene: _plan(scene, FaultKind.UNAUTHORISED, endpoint="detail"),
        _end_outages,
        (AttentionKind.POOL_BREAKER, FailureCode.AGENT_CIRCUITS_OPEN),
        agents=10,
    ),
    Trouble("agents blocked", on_agents(block_agents), on_agents(unblock_agents), (AttentionKind.BLOCKED_AGENTS, None)),
    Trouble(
        "a budget too small",
        shrink_budget,
        widen_budget,
        (AttentionKind.BUDGET_TOO_SMALL, None),
        crawls=False,
        settings={"WINDOW_SECONDS": 3600},
    ),
    Trouble(
        "a run too slow",
        keep_busy,
        be_calm,
        (AttentionKind.LATE_SELLERS, FailureCode.RUN_TAKES_LONG),
        crawls=False,
        products=40,
        settings={"MAX_CONCURRENCY": 1},
    ),
    Trouble("a worker lost three times", lose_workers, be_calm, (AttentionKind.LOST_WORKERS, None), crawls=False),
    Trouble("no process", Scene.close, reopen, (AttentionKind.NO_WORKER, None), crawls=False),
    Trouble(
        "no scheduler",
        reopen_without_schedules,
        reopen,
        (AttentionKind.NO_SCHEDULER, None),
        crawls=False,
    ),
    Trouble(
        "a schedule failed",
        refuse_schedules,
        lambda scene: scene.run(retry_schedule, scene.world.sellers[0]),
        (AttentionKind.FAILED_SCHEDULES, None),
        crawls=False,
    ),
    Trouble("an old backup", back_up_long_ago, back_up, (AttentionKind.OLD_BACKUP, None), crawls=False),
    Trouble("a full disk", see(disk_left=1_000_000), unsee, (AttentionKind.DISK_FULL, None), crawls=False),
    Trouble(
        "a public address without a proxy in front",
        see(deployment=Deployment(is_public=True, has_trusted_proxies=False, is_receiver_unsigned=True)),
        see(deployment=Deployment(is_public=True, has_trusted_proxies=True, is_receiver_unsigned=True)),
        (AttentionKind.UNSAFE_TO_EXPOSE, None),
        crawls=False,
    ),
    Trouble("dead letters", see(dead_letters=2), unsee, (AttentionKind.DEAD_LETTERS, None), crawls=False),
)


async def act(scene: Scene, what: Act) -> None:
    done = what(scene)
    if done is not None:
        await done


@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
def test_it_appears_within_a_minute_once_and_goes_away(migrated_template: Path, trouble: Trouble) -> None:
    async def story(world: ServiceWorld) -> None:
        world.receiver = Answering(world.receiver)
        await world.register_all(every=HOURLY, due=world.now)
        async with AsyncExitStack() as stack:
            scene = Scene(world, stack)
            await scene.open()
            await world.clock.sleep(FIRST_RUN)
            assert await scene.attention() == []
            await act(scene, trouble.begin)
            if trouble.crawls:
                await scene.crawl()
            await world.clock.sleep(MINUTE)
            assert await scene.attention() == ([] if trouble.shows is None else [trouble.shows])
            await act(scene, trouble.end)
            await world.clock.sleep(MINUTE)
            for _ in range(LONGEST_END):
                if not await scene.attention():
                    break
                await scene.crawl()
                await world.clock.sleep(MINUTE)
            assert await scene.attention() == []

    settings = calm_settings(**{"AGENT_SUSPENSION_SECONDS": 300, "BREAKER_OPEN_SECONDS": 120, **trouble.settings})
    simulator = simulator_of(settings, seed=1, sellers=trouble.sellers, products=trouble.products)
    play(migrated_template, story, settings=settings, simulator=simulator, agents=trouble.agents)


def test_every_check_and_every_kind_of_chaos_has_its_trouble() -> None:
    assert {trouble.shows[0] for trouble in TROUBLES if trouble.shows is not None} == set(AttentionKind)
    at_endpoints = {(fault, endpoint) for fault, endpoints in OUTAGE_ENDPOINTS.items() for endpoint in endpoints}
    shares = {each.name for each in fields(ChaosProfile)} - {"jitter_ms", "shifts_per_seller"}
    wanted = at_endpoints | shares | set(MutationKind) | (set(ServerMode) - {ServerMode.WELL})
    assert {kind for trouble in TROUBLES for kind in trouble.made_by} >= wanted | {"restart", "redesign", "mutate"}
