"""`sellerwatch demo`: the whole product on loopback, against the bundled simulator."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli.demo_screen import Screen
from sellerwatch.cli.output import out, print_json
from sellerwatch.cli.running import at_work, follow, run_on_uvloop, stop_on_signals
from sellerwatch.cli.simulator import UnknownProfile
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.service import open_service, open_session
from sellerwatch.crawling.execution import CrawlInProgress
from sellerwatch.crawling.queries import saw_everything
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.logs import configure
from sellerwatch.operations.session import OperationSession
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.queries import outbox_status
from sellerwatch.sellers.commands import register_seller
from sellerwatch.service.service import Service
from sellerwatch.settings.load import Loaded, load
from sellerwatch.simulator.chaos import PROFILES
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.simulator import EVENTS_PATH, Simulator

if TYPE_CHECKING:
    from sellerwatch.web.serve import Serving

#: The demo's limits: the real limiter, set so that a stranger does not have to wait an hour.
LIMITS = {"WINDOW_LIMIT": 80, "WINDOW_SECONDS": 10, "REQUESTS_PER_SECOND": 30}
MOST_RUNS = 5
SECRET = "known-to-all-who-read-this-demo"  # noqa: S105 - signs events to the simulator on loopback
PAUSE_BETWEEN_ROUNDS = 15.0


@dataclass(frozen=True)
class DemoPlan:
    """What the demo was asked to do."""

    sellers: int
    products: int
    rounds: int
    changes: int
    once: bool
    seed: str
    profile: str


@dataclass
class Trace:
    """What happened so far."""

    round: int = 1
    events_by_round: list[int] = field(default_factory=list)
    failed_tasks: int = 0


def demo(
    sellers: Annotated[int, typer.Option(min=1, max=1000)] = 3,
    products: Annotated[int, typer.Option(min=0)] = 300,
    once: Annotated[bool, typer.Option("--once")] = False,
    rounds: Annotated[int | None, typer.Option(min=1)] = None,
    changes: Annotated[int, typer.Option(min=0)] = 20,
    profile: str = "calm",
    seed: str = "0",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Examples:

    sellerwatch demo
    sellerwatch demo --once --json --sellers 3 --products 1000
    sellerwatch demo --once --profile hostile
    sellerwatch demo --rounds 2 --changes 0 --once
    """

    if profile not in PROFILES:
        raise UnknownProfile(given=profile, known=tuple(PROFILES))
    configure("error", None)
    endless = 1_000_000
    plan = DemoPlan(
        sellers, products, rounds or (1 if once else endless), changes, once or rounds is not None, seed, profile
    )
    raise typer.Exit(run_on_uvloop(_demo(plan, as_json)))


async def _demo(plan: DemoPlan, as_json: bool) -> int:

    simulator = Simulator(
        seed=plan.seed,
        sellers=plan.sellers,
        products=plan.products,
        profile=plan.profile,
        window_limit=LIMITS["WINDOW_LIMIT"],
        window_seconds=LIMITS["WINDOW_SECONDS"],
        requests_per_second=LIMITS["REQUESTS_PER_SECOND"],
        secret=SECRET,
    )
    with tempfile.TemporaryDirectory(prefix="sellerwatch-demo-") as folder:
        database = Path(folder) / "demo.db"
        async with serve(simulator.answer) as server:
            loaded = _loaded(server.url, server.url + EVENTS_PATH, database)
            settings = loaded.settings
            async with (
                open_service(settings, schedules=False, make=True) as service,
                _api(plan, service, loaded) as api,
                at_work(service) as running,
            ):
                stop_on_signals(service.stop.set)
                session = open_session(service, settings, "demo", settings.language, loaded.origins)
                screen = Screen(simulator, service, server.url, database, api, quiet=as_json)
                with screen:
                    summary = await _rounds(plan, service, session, running, simulator, screen)
            if as_json:
                print_json(summary)
            else:
                _tell(summary)
    return 0 if summary["mismatches"] == 0 and not summary["violations"] else 1


@asynccontextmanager
async def _api(plan: DemoPlan, service: Service, loaded: Loaded) -> AsyncIterator[Serving | None]:
    """The console and the API of a demo that stays up, on the usual port or, where that is taken, on any. The first
    password needs no changing: it ends with the demo."""
    if plan.once:
        yield None
        return
    from sellerwatch.web.serve import PortUnusable, api_of  # noqa: PLC0415 - FastAPI: not for --once

    async with AsyncExitStack() as stack:
        try:
            opened = api_of(service, loaded.settings, must_change=False, origins=loaded.origins)
            serving = await stack.enter_async_context(opened)
        except PortUnusable:
            anywhere = loaded.settings.model_copy(update={"port": 0})
            opened = api_of(service, anywhere, must_change=False, origins=loaded.origins)
            serving = await stack.enter_async_context(opened)
        yield serving


async def _rounds(
    plan: DemoPlan,
    service: Service,
    session: OperationSession,
    running: asyncio.Task[None],
    simulator: Simulator,
    screen: Screen,
) -> dict[str, object]:
    clock = service.crawl.clock
    began = clock.monotonic()
    totals = Trace()
    names = await _register(session, list(simulator.world.sellers))
    while not service.stop.is_set():
        before = await _delivered(session)
        screen.round(totals.round)
        totals.failed_tasks += await _crawl_all(service, session, running, names, screen)
        await _drain(service, running, screen)
        totals.events_by_round.append(await _delivered(session) - before)
        screen.checked(len(simulator.compare()))
        if totals.round >= plan.rounds or service.stop.is_set():
            break
        if not plan.once:
            await _pause(service, running)
        if service.stop.is_set():
            break
        _let_the_world_change(simulator, plan, totals.round)
        totals.round += 1
    stats = simulator.marketplace.stats()
    return {
        "products": sum(1 for _ in simulator.world.catalogue()),
        "requests": sum(stats["requests"].values()),
        "events_delivered": await _delivered(session),
        "events_by_round": totals.events_by_round,
        "mismatches": len(simulator.compare()),
        "violations": len(simulator.product_server.violations),
        "over_budget": stats["over_budget"],
        "over_rate": stats["over_rate"],
        "failed_tasks": totals.failed_tasks,
        "seconds": round(clock.monotonic() - began, 2),
    }


def _let_the_world_change(simulator: Simulator, plan: DemoPlan, round_: int) -> None:
    """Prices, stock, texts and options change, products appear and vanish."""
    rng = random.Random(f"{plan.seed}/{round_}")  # noqa: S311 - practice data
    simulator.world.mutate(plan.changes, rng)


async def _register(session: OperationSession, names: list[str]) -> list[SellerId]:
    ids = [SellerId(name) for name in names]
    for number, seller_id in enumerate(ids, 1):
        await session.run(register_seller, seller_id, f"연습 판매자 {number}", None)
    return ids


async def _crawl_all(
    service: Service, session: OperationSession, running: asyncio.Task[None], names: list[SellerId], screen: Screen
) -> int:
    """One run of each seller, and more of those whose tasks failed: at most five. Returns how many tasks failed."""
    failed, left = 0, names
    for _ in range(MOST_RUNS):
        started = [run for run in [await start_or_join(service, seller_id) for seller_id in left] if run is not None]
        service.nudge()
        found = await follow(service, session, running, started, screen.runs)
        failed += sum(execution.failed_tasks for execution in found)
        whole = {
            execution.seller_id for execution in found if await session.ask(saw_everything, execution.execution_id)
        }
        left = [seller_id for seller_id in left if seller_id not in whole]
        if not left or service.stop.is_set() or running.done():
            break
    return failed


async def start_or_join(service: Service, seller_id: SellerId) -> ExecutionId | None:
    """Start a run, or join the one that a person started in the console; what a bad day of the marketplace refuses is
    left for the next round."""

    for _ in range(20):
        try:
            return (await trigger(service.crawl, seller_id, "demo")).execution_id
        except CrawlInProgress as going:
            return ExecutionId(going.execution_id)
        except Unavailable as refusal:
            await service.crawl.clock.sleep(min(refusal.retry_after or 1.0, 2.0))
    return None


async def _drain(service: Service, running: asyncio.Task[None], screen: Screen) -> None:
    """Until every event has arrived (or failed for good, which the comparison then shows)."""
    while await service.deliveries[0].pending() and not (service.stop.is_set() or running.done()):
        screen.refresh()
        await service.crawl.clock.sleep(0.1)
    screen.refresh()


async def _delivered(session: OperationSession) -> int:
    """From the tables, as `pending` is: what the sender itself has counted may lag behind its last commit."""
    outboxes = (await session.ask(outbox_status, True)).content
    return next(each.counts[MessageStatus.COMPLETED] for each in outboxes if each.kind is OutboxKind.PRODUCT)


async def _pause(service: Service, running: asyncio.Task[None]) -> None:
    stopping = asyncio.create_task(service.stop.wait())
    await asyncio.wait((stopping, running), timeout=PAUSE_BETWEEN_ROUNDS, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


def _loaded(marketplace: str, product_server: str, database: Path) -> Loaded:

    values = {
        "DATABASE_URL": f"sqlite:///{database}",
        "MARKETPLACE_URL": marketplace,
        "PRODUCT_SERVER_URL": product_server,
        "PRODUCT_SERVER_SECRET": SECRET,
        "DEPARTURE_MARGIN_SECONDS": 0.004,
        "AGENT_SUSPENSION_SECONDS": 3,
        "CIRCUIT_OPEN_SECONDS": 3,
        "BREAKER_OPEN_SECONDS": 3,
        "TENDING_INTERVAL_SECONDS": 1,
        "OUTBOX_BACKOFF_SECONDS": 1,
    } | LIMITS
    return load({f"SELLERWATCH_{name}": str(value) for name, value in values.items()})


def _tell(summary: dict[str, object]) -> None:
    good = summary["mismatches"] == 0 and summary["over_budget"] == 0 and not summary["violations"]
    text = Texts("cli_demo")
    out.print(text("summary", **summary), style="green" if good else "red", highlight=False)
