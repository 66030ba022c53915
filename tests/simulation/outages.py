"""Outages of the marketplace in stories on virtual time: to plan one, to look at what it did, and to check the end.

What an outage cost is counted by the marketplace's own log, in which a refused connection stands as an attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Agent
from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.queries import causes_of_waiting
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Blame, Failure
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.service.service import Service
from sellerwatch.settings.model import Settings
from sellerwatch.simulator.chaos import FaultKind, Outage
from sellerwatch.simulator.marketplace import LoggedRequest

DAILY = CrawlingInterval.of_days(1)
MINUTE, HOUR = 60.0, 3600.0
#: The longest wait of a start between two tries, and a moment for the run to begin.
LONGEST_START_WAIT = timedelta(minutes=16)
#: Seconds: nothing takes longer once the marketplace is back.
PATIENCE = 3600.0
#: Seconds for which a suspended agent rests.
REST = 600
OPEN_TASKS = "SELECT COUNT(*) FROM crawler_tasks WHERE status NOT IN ('COMPLETED', 'FAILED')"
FAILED_TASKS = "SELECT COUNT(*) FROM crawler_tasks WHERE status = 'FAILED'"
TRIES = "SELECT task_type, SUM(retry_count) FROM crawler_tasks GROUP BY task_type"
TASKS = {Endpoint.LIST: "MINISHOP", Endpoint.DETAIL: "PRODUCT_DETAIL", Endpoint.OPTIONS: "PRODUCT_OPTION"}


def calm_settings(**more: object) -> Settings:
    """One request a second of each agent, so that a run takes long enough for an outage to begin in it."""
    given = {"REQUESTS_PER_SECOND": 1, "MAX_CONCURRENCY": 8, "TENDING_INTERVAL_SECONDS": 30}
    return settings_of(**given | more)


def a_handful(seconds: float) -> int:
    """The most that an outage may cost at one endpoint: what was in flight and what opened the circuit, the probes
    while their distance doubles to ten minutes, and one for each ten minutes after that. 38 for three hours."""
    return int(20 + seconds / 600)


@dataclass(frozen=True)
class Seen:
    """What an operator sees at one moment."""

    circuits: Mapping[Endpoint, MarketplaceCircuit]
    runs: list[Execution]
    agents: list[Agent]
    failed_tasks: int
    tries: Mapping[str, int]
    """Tries that tasks have used up, by the type of the task."""

    @property
    def open_endpoints(self) -> set[Endpoint]:
        """HALF_OPEN is an open circuit whose probe is on its way."""
        return {endpoint for endpoint, circuit in self.circuits.items() if circuit.state is not CircuitState.CLOSED}

    @property
    def run_states(self) -> Counter[ExecutionStatus]:
        return Counter(run.status for run in self.runs)

    def check_nothing_is_charged(self) -> None:
        """No task failed, none used up a try at an endpoint that is known to be away, no identity lost health."""
        assert self.failed_tasks == 0
        assert sum(self.tries.get(TASKS[endpoint], 0) for endpoint in self.open_endpoints & TASKS.keys()) == 0
        assert {(agent.health_score, agent.status.value) for agent in self.agents} == {(100, "AVAILABLE")}

    def check_cause(self, endpoint: Endpoint) -> None:
        """The circuit of this endpoint says since when it is open, when it is tried again, and whose fault it is."""
        circuit = self.circuits[endpoint]
        assert endpoint in self.open_endpoints, self.circuits
        assert circuit.since is not None
        assert circuit.not_before is not None
        assert circuit.failure is not None
        assert circuit.failure.blame is Blame.MARKETPLACE


async def look(world: ServiceWorld) -> Seen:
    return Seen(
        circuits=await world.store.read(lambda tx: tx.marketplace.circuits()),
        runs=list(await world.executions()),
        agents=await world.agents(),
        failed_tasks=await world.count(FAILED_TASKS),
        tries=await world.store.read(lambda tx: {row[0]: int(row[1]) for row in tx.db.rows(TRIES)}),
    )


async def causes(world: ServiceWorld) -> list[tuple[str, str | None]]:
    """What each open run waits for (and which endpoint, if it is one), as `sellers list`, API and console read it."""

    def work(tx: Transaction) -> list[Failure]:
        newest = tx.execution_queries.newest(seller_id=None, status=None, limit=1000)
        return list(causes_of_waiting(tx, newest[::-1], world.clock.now()).values())

    found = await world.store.read(work)
    named = [(each.code.value, each.facts_by_name.get("endpoint")) for each in found]
    return [(code, None if endpoint is None else str(endpoint)) for code, endpoint in named]


def now(world: ServiceWorld) -> float:
    return world.clock.now().timestamp()


def plan(
    world: ServiceWorld,
    ailment: FaultKind,
    seconds: float,
    *,
    endpoint: str | None = None,
    user_agent: str | None = None,
    item_no: int | None = None,
) -> Outage:
    """An outage that begins now."""
    start = now(world)
    outage = Outage(ailment, start, start + seconds, endpoint, user_agent, item_no)
    world.simulator.marketplace.plan(outage)
    return outage


def requests_during(world: ServiceWorld, outage: Outage) -> list[LoggedRequest]:
    return world.simulator.marketplace.requests(outage.start, outage.end)


def check_cost(world: ServiceWorld, outage: Outage) -> None:
    """By the marketplace's count, no endpoint was asked more than a handful of times."""
    counted = Counter(request.endpoint for request in requests_during(world, outage))
    assert all(number <= a_handful(outage.end - outage.start) for number in counted.values()), counted


async def until_over(world: ServiceWorld, service: Service, runs: int) -> None:
    """Until so many runs are over, none is open and everything is delivered."""

    def is_over(tx: Transaction) -> bool:
        found = tx.execution_queries.newest(seller_id=None, status=None, limit=1000)
        undelivered = tx.outbox_queries(OutboxKind.PRODUCT).pending()
        return len(found) >= runs and not any(run.is_open for run in found) and undelivered == 0

    limit = world.loop.time() + PATIENCE
    while not await world.store.read(is_over):
        assert world.loop.time() < limit, [f"{run.status} {run.failure}" for run in await world.executions()]
        assert not service.stop.is_set(), "the service broke"
        await world.clock.sleep(1)


async def check_afterwards(world: ServiceWorld, runs: int) -> None:
    """The receiver holds the truth; every run completed without a failed task; the circuits are closed."""
    seen = await look(world)
    assert seen.run_states == {ExecutionStatus.COMPLETED: runs}, seen.runs
    assert seen.failed_tasks == 0
    assert [run for run in seen.runs if not run.all_succeeded] == []
    assert seen.open_endpoints == set()
    world.check_world()
    await world.check_books()


async def check_health(world: ServiceWorld) -> None:
    seen = await look(world)
    assert {(agent.health_score, agent.status.value) for agent in seen.agents} == {(100, "AVAILABLE")}


async def schedules(world: ServiceWorld) -> list[Schedule]:
    found, _ = await world.store.read(lambda tx: tx.schedules.page(offset=0, limit=100))
    return list(found)


async def until_asked(world: ServiceWorld, number: int, endpoint: str) -> None:
    """Until the marketplace has been asked so often there, to the millisecond."""
    while sum(request.endpoint == endpoint for request in world.simulator.marketplace.requests()) < number:
        await world.clock.sleep(0.001)


async def begin_runs(world: ServiceWorld, service: Service, sellers: list[SellerId], asked: int) -> None:
    """Runs of these sellers, until the marketplace has answered so many questions about products."""
    for seller_id in sellers:
        await world.start(service, seller_id)
    service.nudge()
    items = ("detail", "options")
    while sum(request.endpoint in items for request in world.simulator.marketplace.requests()) < asked:
        await world.clock.sleep(0.05)
