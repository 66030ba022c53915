"""Assemble everything one process needs to crawl and deliver."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

from sellerwatch.adapters.permit_marker import PermitMarkerFile
from sellerwatch.adapters.sealing import AesGcmSealer
from sellerwatch.adapters.sql.engine import database_path, is_mysql
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.usage_log_partitions import SqlUsageLogPartitions
from sellerwatch.agents.circuit import Circuit
from sellerwatch.compose.alerts import receiver_of_alerts
from sellerwatch.compose.aws import open_aws
from sellerwatch.compose.database import open_clock, open_store
from sellerwatch.compose.keys import open_sealer
from sellerwatch.compose.limiter import Limiting, open_limiter
from sellerwatch.compose.marketplace import headers_of, urls_of
from sellerwatch.compose.proxy import outbound_proxy
from sellerwatch.compose.receiver import open_receiver
from sellerwatch.compose.rules import crawl_rules, delivery_rules, pool_rules, retention_rules, tuning_in_force
from sellerwatch.crawling.context import Crawl
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import Ids, ItemNo, SellerId, WorkerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.marketplaces.ports import Transport
from sellerwatch.marketplaces.robots import Robots
from sellerwatch.operations.session import OperationSession
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import EventReceiver, Receiver
from sellerwatch.outbox.resending import Resending
from sellerwatch.oversight.alerts import AlertQueue, RecordedAlerts
from sellerwatch.schedules.embedded import EmbeddedScheduler
from sellerwatch.schedules.scheduler_messages import apply_results
from sellerwatch.service.service import EVERYTHING, ProcessRole, Service
from sellerwatch.settings.limits import TunableLimits
from sellerwatch.settings.model import Settings

#: Longest wait before a run that could not be started is tried again, in seconds.
LONGEST_START_RETRY = 900.0
#: How often the scheduler's outbox is swept without a nudge, in seconds.
SCHEDULER_INTERVAL = 60.0


@asynccontextmanager
async def open_service(
    settings: Settings,
    *,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    store: SqlStore | None = None,
    transport: Transport | None = None,
    receiver: EventReceiver | None = None,
    scheduler: Receiver | None = None,
    roles: frozenset[ProcessRole] = EVERYTHING,
    schedules: bool = True,
    make: bool = False,
) -> AsyncIterator[Service]:
    """Open everything one process needs, and close it at the end. Parts that are passed in are not closed. `make`:
    an embedded database is created and upgraded."""
    clock = clock or open_clock(settings)
    rng = rng or random.Random(os.urandom(16))  # noqa: S311 - ids and jitter, no secrets
    own_store = store or open_store(settings, clock=clock, make=make)
    ids = Ids(clock, rng)
    worker_id = WorkerId.generate(ids)
    sealer = open_sealer(settings)
    async with (
        _network(settings, transport, receiver) as (transport, receiver),
        open_limiter(settings, own_store, clock, worker_id) as limits,
        open_aws(settings) as aws,
    ):
        marketplace = MustitMarketplace(
            transport,
            settings.marketplace_url,
            sealer.open_identity,
            urls=urls_of(settings),
            headers=headers_of(settings),
            longest_wait=timedelta(seconds=settings.max_retry_after_seconds),
            user_agent_suffix=settings.user_agent_suffix,
            max_list_total=settings.max_list_total,
        )
        robots = _robots(settings, transport, marketplace)
        crawl = _crawl(settings, own_store, marketplace, limits, ids, rng, sealer, worker_id, robots)
        crawl = replace(crawl, queue=aws.queue, dead_letters=aws.dead_letters)
        rules = delivery_rules(settings)
        deliveries = (
            Delivery(own_store, receiver, clock, rng, worker_id, rules, alert=crawl.tell),
            Delivery(
                own_store,
                scheduler or aws.scheduler or EmbeddedScheduler(),
                clock,
                rng,
                worker_id,
                replace(rules, interval=min(rules.interval, SCHEDULER_INTERVAL), per_second=None),
                OutboxKind.SCHEDULER,
                consequences=apply_results,
                alert=crawl.tell,
            ),
        )
        tending = timedelta(seconds=settings.tending_interval_seconds)
        try:
            yield Service(
                own_store,
                crawl,
                deliveries,
                partial(tuning_in_force, settings),
                tending,
                roles=roles,
                schedules=schedules,
                late_only=settings.scheduler == "eventbridge",
                receiver=receiver,
                resending=None if receiver is None else Resending(own_store, receiver, clock, rng, rules),
                outside={**limits.outside, **aws.outside},
            )
        finally:
            if store is None:
                own_store.close()


def open_session(
    service: Service, settings: Settings, actor: str, language: str, origins: Mapping[str, str]
) -> OperationSession:
    """Return commands and queries of one person beside a service in this process, which notices changes at once."""
    crawl = service.crawl

    async def alert(notices: Sequence[Notice]) -> None:
        crawl.tell(notices)

    return OperationSession(
        store=service.store,
        clock=crawl.clock,
        ids=crawl.ids,
        rules=crawl.rules,
        pool=pool_rules(settings),
        limits=TunableLimits(settings, origins),
        deadline=crawl.deadline,
        actor=actor,
        language=language,
        changed=service.nudge,
        pauses_changed=service.apply_pauses,
        recount_limiter=crawl.limiter.begin,
        alert=alert,
        receiver=service.receiver,
    )


def _crawl(
    settings: Settings,
    store: SqlStore,
    marketplace: MustitMarketplace,
    limits: Limiting,
    ids: Ids,
    rng: random.Random,
    sealer: AesGcmSealer,
    worker_id: WorkerId,
    robots: Robots,
) -> Crawl:
    # Beside the database that is open: a store that was passed in need not be the configured one.
    path = database_path(store.engine)
    return Crawl(
        store=store,
        marketplace=marketplace,
        clock=limits.clock,
        limiter=limits.limiter,
        leased=limits.leases,
        ids=ids,
        rng=rng,
        sealer=sealer,
        worker_id=worker_id,
        rules=crawl_rules(settings, marketplace),
        tuning=tuning_in_force(settings, {}),
        alerts=AlertQueue(RecordedAlerts(store, receiver_of_alerts(settings)), settings.language),
        circuit=Circuit(threshold=settings.circuit_failures, timeout=timedelta(seconds=settings.circuit_open_seconds)),
        start_retry=Backoff(
            first=settings.start_retry_seconds,
            longest=max(LONGEST_START_RETRY, settings.start_retry_seconds),
            jitter=0.1,
        ),
        robots=robots,
        mark=None if path is None else PermitMarkerFile(path),
        months=SqlUsageLogPartitions(store.engine, store.writer) if is_mysql(store.engine) else None,
        suspension=timedelta(seconds=settings.agent_suspension_seconds),
        refresh_every=timedelta(seconds=settings.token_refresh_seconds),
        retention=retention_rules(settings),
        timezone=settings.timezone,
        heartbeat=timedelta(seconds=settings.visibility_seconds / 3),
        visibility=timedelta(seconds=settings.visibility_seconds),
        deadline=timedelta(seconds=settings.run_deadline_seconds),
    )


def _robots(settings: Settings, transport: Transport, marketplace: MustitMarketplace) -> Robots:
    one = ItemNo(1)
    paths = [marketplace.list_url(SellerId("x"), 0, 1), marketplace.detail_url(one), marketplace.option_url(one)]
    return Robots(transport, settings.marketplace_url, paths, settings.robots_check)


@asynccontextmanager
async def _network(
    settings: Settings, transport: Transport | None, receiver: EventReceiver | None
) -> AsyncIterator[tuple[Transport, EventReceiver | None]]:
    """Open the HTTP adapters that were not passed in."""
    if transport is not None:
        yield transport, receiver
        return
    from sellerwatch.adapters.http.transport import HttpTransport  # noqa: PLC0415 - only with a receiver

    reaching = HttpTransport(limit=settings.host_concurrency, proxy=outbound_proxy(settings))
    async with reaching as getting, open_receiver(settings, receiver) as posting:
        yield getting, posting
