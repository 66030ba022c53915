"""The first page: what needs a person, how fresh every seller is, what runs, and how pool and outbox are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.agents.marketplace_status import MarketplaceStatus, marketplace_status
from sellerwatch.agents.pool_rules import PoolRules
from sellerwatch.agents.pool_status import PoolStatusView, pool_status
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.waiting import causes_of_waiting
from sellerwatch.kernel.failure import Blame, Failure
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import OutboxCounts
from sellerwatch.reports.dashboard import Freshness, Needs
from sellerwatch.schedules.missed import starts_at
from sellerwatch.sellers.seller import SellerStatus
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, show
from sellerwatch.web.console.tables import Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

DAY = timedelta(days=1)
#: Sellers shown one by one, the stalest first; of the others there is the number.
MOST_SELLERS = 40
MOST_RUNS = 20
MOST_FAILURES = 1000


@dataclass(frozen=True)
class Seen:
    """Everything the page shows, at one moment."""

    needs: Needs
    sellers: list[Freshness]
    runs: list[Execution]
    pending: list[Execution]
    causes: Mapping[ExecutionId, Failure]
    pool: PoolStatusView
    outbox: OutboxCounts
    channel: Channel
    marketplace: MarketplaceStatus
    blames: list[tuple[Blame, int]]
    now: datetime

    @property
    def late(self) -> int:
        return sum(seller.is_late(self.now) for seller in self.sellers)

    @property
    def active(self) -> int:
        return sum(seller.status is SellerStatus.ACTIVE for seller in self.sellers)

    @property
    def lag_seconds(self) -> float:
        oldest = self.outbox.oldest_at
        return 0.0 if oldest is None else max(0.0, (self.now - oldest).total_seconds())

    @property
    def waiting(self) -> list[tuple[str, int, str, str]]:
        """What waits for a person: text, number, where it is settled, how grave."""
        n = self.needs
        found = [
            ("needs.events", n.failed_events, "/outbox?status=FAILED", "bad"),
            ("needs.cases", n.open_cases, "/quarantine?status=OPEN", "warn"),
            ("needs.removals", n.held_removals, "/removals?status=HELD", "warn"),
            ("needs.schedules", n.failed_schedules, "/schedules#failed", "bad"),
            ("needs.dead", n.dead_letters, "/tasks?status=FAILED", "bad"),
            ("needs.paused", n.paused_runs, "/executions?status=RUNNING", "warn"),
            ("needs.tasks", n.failed_tasks - n.dead_letters, "/tasks?status=FAILED", "warn"),
            ("needs.late", self.late, "/sellers?fresh=late", "warn"),
            ("needs.receiver", int(self.channel.state != "CLOSED"), "/outbox", "bad"),
            ("needs.outbox_paused", int(self.channel.is_paused), "/outbox", "warn"),
            ("needs.marketplace", len(self.marketplace.away), "/#marketplace", "bad"),
            ("needs.marketplace_paused", int(self.marketplace.is_paused), "/#marketplace", "warn"),
            ("needs.sellers_paused", len(self.marketplace.seller_pauses), "/#marketplace", "warn"),
            ("needs.breaker", int(self.pool.breaker.state != "CLOSED"), "/agents", "bad"),
        ]
        return [each for each in found if each[1] > 0]


def _look(tx: ServiceTx, context: OperationContext, rules: PoolRules) -> Seen:
    blames = Counter(tx.dashboard.failures(context.now - DAY, MOST_FAILURES))
    needs, runs = tx.dashboard.needs(context.now - DAY), list(tx.executions.running())
    if needs.failed_events:
        blames[Blame.RECEIVER] += needs.failed_events
    return Seen(
        needs=needs,
        sellers=list(tx.dashboard.freshness()),
        runs=runs,
        pending=[run for run in tx.executions.pending() if run.failure is not None],
        causes=causes_of_waiting(tx, runs[:MOST_RUNS]),
        pool=pool_status(tx, context, rules),
        outbox=tx.outbox_queries(OutboxKind.PRODUCT).counts(),
        channel=tx.channels.get(OutboxKind.PRODUCT),
        marketplace=marketplace_status(tx),
        blames=blames.most_common(),
        now=context.now,
    )


@router.get("/")
async def overview(visit: Viewer) -> Response:
    seen = await visit.operations.ask(_look, visit.operations.pool)
    delivery = visit.parts.service.deliveries[0]
    return show(
        visit,
        "overview.html",
        seen=seen,
        runs=seen.runs[:MOST_RUNS],
        pending=seen.pending[:MOST_RUNS],
        sellers=_sellers(seen),
        blames=_blames(seen),
        endpoints=_endpoints(seen, visit.language),
        has_receiver=delivery.has_receiver,
    )


def fresh_state(seller: Freshness, now: datetime) -> str:
    if seller.status is SellerStatus.INACTIVE:
        return "off"
    if seller.is_late(now):
        return "late"
    return "never" if seller.fresh_as_of is None else "fresh"


def _staleness(seller: Freshness, now: datetime) -> tuple[int, float]:
    order = {"late": 0, "never": 1, "fresh": 2, "off": 3}
    return order[fresh_state(seller, now)], -(seller.age(now) or 0)


def _sellers(seen: Seen) -> Table:
    stalest = sorted(seen.sellers, key=lambda seller: (*_staleness(seller, seen.now), seller.seller_id))
    return Table(
        "freshness",
        ("col.seller", "col.freshness", "col.read", "col.interval", "col.next", "col.products"),
        [
            (
                tables.text(seller.name, seller_page(seller.seller_id)),
                tables.pill(fresh_state(seller, seen.now), "fresh"),
                tables.when(seller.fresh_as_of),
                tables.said(f"every.{seller.interval.unit}", n=seller.interval.amount),
                tables.when(starts_at(seller)),
                tables.number(seller.products),
            )
            for seller in stalest[:MOST_SELLERS]
        ],
        "sellers.empty",
        caption="overview.freshness",
        next="/sellers" if len(stalest) > MOST_SELLERS else None,
    )


def _endpoints(seen: Seen, language: str) -> Table:
    """Those that do not answer, with the cause and the next probe."""
    return Table(
        "endpoints",
        ("col.endpoint", "col.circuit", "col.cause", "col.away_since", "col.next_probe"),
        [
            (
                tables.said(f"endpoint.{each.endpoint}"),
                tables.pill(each.state, "circuit"),
                tables.text(each.reason(language)),
                tables.when(each.since),
                tables.when(each.not_before),
            )
            for each in seen.marketplace.away
        ],
        "marketplace.calm",
        caption="overview.marketplace",
    )


def _blames(seen: Seen) -> Table:
    return Table(
        "blame",
        ("col.blame", "col.failures"),
        [(tables.pill(blame, "blame"), tables.number(number)) for blame, number in seen.blames],
        "overview.no_failures",
        caption="overview.blame",
    )
