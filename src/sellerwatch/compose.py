"""The one place that picks adapters. Nothing is opened at import; tests pass their own parts by keyword."""

from __future__ import annotations

import base64
import os
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from pydantic import ValidationError
from sqlalchemy import Engine

from sellerwatch.adapters.keyfile import jwt_secret_beside, token_keys_beside
from sellerwatch.adapters.passwords import Argon2Passwords
from sellerwatch.adapters.permit_mark import PermitMark
from sellerwatch.adapters.sealing import AesGcmSealer, parse_keys
from sellerwatch.adapters.sql.engine import (
    DRIVER_ERRORS,
    answering,
    check_reachable,
    database_path,
    is_mysql,
    make_engine,
    shown,
)
from sellerwatch.adapters.sql.migrate import SchemaStatus, downgrade, history, require_current, status, upgrade
from sellerwatch.adapters.sql.months import Partition, SqlMonths, partitions
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore, ThreadRunner
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.limiter import EmbeddedLimiter
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.ports import Limiter
from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.catalog.policies import parse_policies
from sellerwatch.catalog.quarantine import DriftRules
from sellerwatch.catalog.removal import Brake
from sellerwatch.crawling.context import Crawl, Tuning
from sellerwatch.crawling.group import CrawlRules
from sellerwatch.crawling.leases import EmbeddedLeases, JobLeases
from sellerwatch.crawling.queue import DeadLetters, EmbeddedQueue, Queue
from sellerwatch.crawling.service import EVERYTHING, Role, Service
from sellerwatch.crawling.telling import TellingAlerts
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import EPOCH, SHARED, Clock, Moment, SystemClock, moment
from sellerwatch.kernel.ids import Ids, ItemNo, SellerId, WorkerId
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.marketplaces.mustit.urls import Urls
from sellerwatch.marketplaces.ports import Marketplace, Transport
from sellerwatch.marketplaces.robots import Robots
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import Receiver
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.oversight.alerts import Alert, AlertQueue, Alerts, LogAlerts
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.embedded import EmbeddedScheduler
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.schedules.telling import heed
from sellerwatch.settings import TUNABLE, Settings, load

if TYPE_CHECKING:
    from sellerwatch.adapters.aws.events import Drifted, Target
    from sellerwatch.adapters.aws.queue import Step

READER_THREADS = 4
#: Of one process at a MySQL server: several write at once there. With its readers it stays well below 50 connections.
MYSQL_WRITERS = 8
MYSQL_READERS = 8
#: How often the scheduler's outbox is swept without a nudge, in seconds.
SCHEDULER_INTERVAL = 60.0


def open_engine(settings: Settings, *, patient: bool = False) -> Engine:
    """The configured database, opened once so that a wrong address is said before anything starts."""
    connections = MYSQL_WRITERS + MYSQL_READERS if settings.is_mysql else READER_THREADS * 2
    engine = make_engine(
        settings.database_url, synchronous=settings.sqlite_synchronous, connections=connections, patient=patient
    )
    check_reachable(engine)
    return engine


def open_clock(settings: Settings) -> Clock:
    """What processes on this database agree on: the machine's clock, or a server's where machines may share it."""
    if not settings.is_mysql:
        return SystemClock()
    from sellerwatch.adapters.sql.server_clock import ServerClock  # noqa: PLC0415

    engine = make_engine(settings.database_url, connections=1)
    try:
        return ServerClock(engine)
    finally:
        engine.dispose()


def open_store(settings: Settings, *, clock: Clock | None = None, inline: bool = False) -> SqlStore:
    """The store, on a schema this program knows. The embedded SQLite file is made and upgraded on the way; a server's
    schema is moved by `db upgrade` alone."""
    clock = clock or open_clock(settings)
    engine = open_engine(settings)
    with answering(engine):
        if not settings.is_mysql:
            upgrade(engine, clock.now())
        require_current(engine)
    pulse = getattr(clock, "pulse", None)
    if inline:
        return SqlStore(engine, clock, InlineRunner(), InlineRunner(), pulse=pulse)
    writers, readers = (MYSQL_WRITERS, MYSQL_READERS) if settings.is_mysql else (1, READER_THREADS)
    writing, reading = ThreadRunner(writers, "store-write"), ThreadRunner(readers, "store-read")
    return SqlStore(engine, clock, writing, reading, pulse=pulse)


@asynccontextmanager
async def open_service(
    settings: Settings,
    *,
    clock: Clock | None = None,
    luck: random.Random | None = None,
    store: SqlStore | None = None,
    transport: Transport | None = None,
    receiver: Receiver | None = None,
    scheduler: Receiver | None = None,
    roles: frozenset[Role] = EVERYTHING,
    schedules: bool = True,
) -> AsyncIterator[Service]:
    """Everything one process needs to crawl and deliver; closed on the way out. What is passed in is not closed."""
    clock = clock or open_clock(settings)
    luck = luck or random.Random(os.urandom(16))  # noqa: S311 - ids and jitter, no secrets
    own_store = store or open_store(settings, clock=clock)
    ids = Ids(clock, luck)
    worker_id = WorkerId.generate(ids)
    sealer = open_sealer(settings)
    async with (
        _network(settings, transport, receiver) as (transport, receiver),
        _limits(settings, own_store, clock, worker_id) as limits,
        _aws(settings) as aws,
    ):
        marketplace = MustitMarketplace(
            transport,
            settings.marketplace_url,
            sealer.open_identity,
            urls=Urls(list_path=settings.marketplace_list_path),
            longest_wait=timedelta(seconds=settings.max_retry_after_seconds),
            user_agent_suffix=settings.user_agent_suffix,
        )
        robots = _robots(settings, transport, marketplace)
        crawl = _crawl(settings, own_store, marketplace, limits, ids, luck, sealer, worker_id, robots)
        crawl = replace(crawl, queue=aws.queue, dead_letters=aws.dead_letters)
        rules = _delivery_rules(settings)
        deliveries = (
            Delivery(own_store, receiver, clock, luck, worker_id, rules, tell=crawl.tell),
            Delivery(
                own_store,
                scheduler or aws.scheduler or EmbeddedScheduler(),
                clock,
                luck,
                worker_id,
                replace(rules, interval=min(rules.interval, SCHEDULER_INTERVAL), per_second=None),
                OutboxKind.SCHEDULER,
                consequences=heed,
                tell=crawl.tell,
            ),
        )
        tending = timedelta(seconds=settings.tending_interval_seconds)
        try:
            yield Service(
                crawl,
                deliveries,
                partial(tuning_in_force, settings),
                tending,
                roles=roles,
                schedules=schedules,
                late_only=settings.scheduler == "eventbridge",
                outside={**limits.outside, **aws.outside},
            )
        finally:
            if store is None:
                own_store.close()


def _crawl(
    settings: Settings,
    store: SqlStore,
    marketplace: MustitMarketplace,
    limits: _Limiting,
    ids: Ids,
    luck: random.Random,
    sealer: AesGcmSealer,
    worker_id: WorkerId,
    robots: Robots,
) -> Crawl:
    path = database_path(make_engine(settings.database_url))
    return Crawl(
        store=store,
        marketplace=marketplace,
        clock=limits.clock,
        limiter=limits.limiter,
        leased=limits.leases,
        ids=ids,
        luck=luck,
        sealer=sealer,
        worker_id=worker_id,
        rules=crawl_rules(settings, marketplace),
        tuning=tuning_in_force(settings, {}),
        alerts=AlertQueue(TellingAlerts(store, _receiver_of_alerts(settings))),
        circuit=Circuit(threshold=settings.circuit_failures, timeout=timedelta(seconds=settings.circuit_open_seconds)),
        robots=robots,
        mark=None if path is None else PermitMark(path),
        months=SqlMonths(store.engine, store.writer) if is_mysql(store.engine) else None,
        suspension=timedelta(seconds=settings.agent_suspension_seconds),
        log_kept=timedelta(days=settings.usage_log_days),
        bodies_kept=timedelta(days=settings.raw_body_days),
        outbox_kept=timedelta(days=settings.outbox_kept_days),
        timezone=settings.timezone,
        heartbeat=timedelta(seconds=settings.visibility_seconds / 3),
        visibility=timedelta(seconds=settings.visibility_seconds),
        deadline=timedelta(seconds=settings.run_deadline_seconds),
    )


def crawl_rules(settings: Settings, marketplace: Marketplace) -> CrawlRules:
    """What processing goes by; commands that end runs or release what is held go by the same."""
    exempt = (name.strip() for name in settings.quarantine_exempt.split(","))
    return CrawlRules(
        marketplace=marketplace,
        page_size=settings.page_size,
        task_retries=settings.task_retries,
        breaker=BreakerRules(
            min_percent=settings.breaker_min_available_percent,
            open_for=timedelta(seconds=settings.breaker_open_seconds),
        ),
        drift=DriftRules(
            share=settings.quarantine_share_percent,
            products=settings.quarantine_products,
            exempt=frozenset(ChangeKind(name) for name in exempt if name),
        ),
        brake=Brake(share=settings.removal_share_percent, products=settings.removal_products),
        policies=parse_policies(settings.field_policies),
    )


def _robots(settings: Settings, transport: Transport, marketplace: MustitMarketplace) -> Robots:
    one = ItemNo(1)
    paths = [marketplace.list_url(SellerId("x"), 0, 1), marketplace.detail_url(one), marketplace.option_url(one)]
    return Robots(transport, settings.marketplace_url, paths, settings.robots_check)


def tuning_in_force(settings: Settings, overrides: Mapping[str, str]) -> Tuning:
    """The settings with what an operator changed since; a value that is wrong by now leaves the setting as it was."""
    known = {name: value for name, value in overrides.items() if name in TUNABLE}
    try:
        changed = Settings.model_validate(settings.model_dump() | known)
    except ValidationError:
        changed = settings
    return Tuning(
        limits=Limits(
            window_limit=changed.window_limit,
            window=timedelta(seconds=changed.window_seconds),
            per_second=changed.requests_per_second,
            margin=timedelta(seconds=changed.departure_margin_seconds),
        ),
        host=Host(changed.host_concurrency, changed.host_requests_per_second),
        concurrency=min(changed.max_concurrency, changed.host_concurrency),
    )


def open_sealer(settings: Settings) -> AesGcmSealer:
    """With the configured keys, or those beside the database."""
    return AesGcmSealer(parse_keys(_token_keys(settings)))


def lost_permits(settings: Settings, highest: int) -> bool:
    """The database knows of fewer permits than were given out: it was restored from an older copy."""
    path = database_path(make_engine(settings.database_url))
    return path is not None and PermitMark(path).read() > highest


async def send_alerts(settings: Settings, alerts: Sequence[Alert]) -> None:
    """What a command did that others should hear of. Whoever typed it needs no log of it."""
    if settings.alert_webhook_url is not None:
        queue = AlertQueue(_receiver_of_alerts(settings))
        for alert in alerts:
            queue.post(alert)
        await queue.flush()


def _receiver_of_alerts(settings: Settings) -> Alerts:
    if settings.alert_webhook_url is None:
        return LogAlerts()
    from sellerwatch.adapters.http.webhook import WebhookAlerts  # noqa: PLC0415

    return WebhookAlerts(settings.alert_webhook_url)


def _delivery_rules(settings: Settings) -> DeliveryRules:
    return DeliveryRules(
        concurrency=settings.outbox_concurrency,
        tries=settings.outbox_retries,
        interval=settings.outbox_interval_seconds,
        backoff=Backoff(settings.outbox_backoff_seconds, settings.outbox_backoff_max_seconds),
        grace=4.0,
        per_second=settings.outbox_requests_per_second,
        failures=settings.outbox_circuit_failures,
        opened=Backoff(
            settings.outbox_circuit_open_seconds,
            max(settings.outbox_circuit_open_seconds, settings.outbox_interval_seconds),
        ),
    )


@asynccontextmanager
async def _network(
    settings: Settings, transport: Transport | None, receiver: Receiver | None
) -> AsyncIterator[tuple[Transport, Receiver | None]]:
    """The HTTP adapters, made only where nothing else was passed in: aiohttp is for those who deliver."""
    if transport is not None:
        yield transport, receiver
        return
    from sellerwatch.adapters.http.transport import HttpTransport  # noqa: PLC0415

    posting = None
    if receiver is None and settings.product_server_url is not None:
        from sellerwatch.adapters.http.product_server import HttpReceiver  # noqa: PLC0415

        secret = settings.product_server_secret
        posting = HttpReceiver(
            settings.product_server_url,
            secret.get_secret_value() if secret else None,
            longest_wait=timedelta(seconds=settings.max_retry_after_seconds),
        )
    async with HttpTransport(limit=settings.host_concurrency) as getting:
        try:
            yield getting, receiver or posting
        finally:
            if posting is not None:
                await posting.close()


@dataclass(frozen=True)
class _Limiting:
    """Who decides what may leave, by whose clock; and which servers that needs."""

    clock: Clock
    limiter: Limiter = field(default_factory=EmbeddedLimiter)
    leases: JobLeases | None = None
    outside: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)


@asynccontextmanager
async def _limits(settings: Settings, store: SqlStore, clock: Clock, worker_id: WorkerId) -> AsyncIterator[_Limiting]:
    """In the database, or in Redis: which must be there when a process starts, since nothing could leave without it."""
    if settings.redis_url is None:
        yield _Limiting(clock)
        return
    from sellerwatch.adapters.redis.clock import RedisClock  # noqa: PLC0415
    from sellerwatch.adapters.redis.leases import RedisLeases  # noqa: PLC0415
    from sellerwatch.adapters.redis.limiter import RedisLimiter  # noqa: PLC0415
    from sellerwatch.adapters.redis.server import Server  # noqa: PLC0415

    server, shared = Server(settings.redis_url), RedisClock(clock)
    try:
        await server.check()
        limiter = RedisLimiter(server, store, shared, worker_id, tuning_in_force(settings, {}).limits)
        await limiter.listen()
        leases = RedisLeases(server, worker_id, EmbeddedLeases(store, clock, worker_id))
        yield _Limiting(shared, limiter, leases, {"redis": partial(server.ask, "PING")})
    finally:
        await server.close()


@dataclass(frozen=True)
class _Aws:
    """What of AWS is in use."""

    queue: Queue = field(default_factory=EmbeddedQueue)
    dead_letters: DeadLetters | None = None
    scheduler: Receiver | None = None
    outside: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)


@asynccontextmanager
async def _aws(settings: Settings) -> AsyncIterator[_Aws]:
    """SQS must be there when a process starts; EventBridge is told through an outbox and may come back later."""
    if settings.queue != "sqs" and settings.scheduler != "eventbridge":
        yield _Aws()
        return
    from sellerwatch.adapters.aws.client import Aws  # noqa: PLC0415

    client, found = Aws(settings.aws_endpoint_url), _Aws()
    try:
        if settings.queue == "sqs":
            from sellerwatch.adapters.aws.queue import (  # noqa: PLC0415
                SqsDeadLetters,
                SqsQueue,
                dead_queue,
                tasks_queue,
            )

            named = tasks_queue(client, settings.sqs_queue_name)
            queue = SqsQueue(named, visibility=settings.visibility_seconds, group=settings.sqs_group)
            await queue.check()
            dead_letters = SqsDeadLetters(dead_queue(client, settings.sqs_dlq_name))
            found = replace(found, queue=queue, dead_letters=dead_letters, outside={"queue": queue.check})
        if settings.scheduler == "eventbridge":
            from sellerwatch.adapters.aws.events import EventBridge  # noqa: PLC0415

            bridge = EventBridge(client, _target(settings))
            found = replace(found, scheduler=bridge, outside={**found.outside, "scheduler": bridge.check})
        yield found
    finally:
        await client.close()


async def set_up_aws(settings: Settings) -> Sequence[Step]:
    """Both queues as they should be, and a question to EventBridge; says what was done."""
    from sellerwatch.adapters.aws.client import Aws  # noqa: PLC0415
    from sellerwatch.adapters.aws.events import EventBridge  # noqa: PLC0415
    from sellerwatch.adapters.aws.queue import Step, set_up  # noqa: PLC0415

    client, steps = Aws(settings.aws_endpoint_url), list[Step]()
    try:
        if settings.queue == "sqs":
            names = settings.sqs_queue_name, settings.sqs_dlq_name
            steps += await set_up(client, *names, settings.visibility_seconds)
        if settings.scheduler == "eventbridge":
            await EventBridge(client, _target(settings)).check()
            steps.append(Step("EventBridge", "rules", "reachable; a rule is made with each seller"))
    finally:
        await client.close()
    return steps


async def reconcile_rules(
    settings: Settings, schedules: Sequence[Schedule], *, dry_run: bool
) -> tuple[Sequence[Drifted], int]:
    """Rules that are not as the database has them, mended unless it is a dry run; and how many there should be."""
    from sellerwatch.adapters.aws.client import Aws  # noqa: PLC0415
    from sellerwatch.adapters.aws.events import EventBridge, differences  # noqa: PLC0415

    client = Aws(settings.aws_endpoint_url)
    bridge = EventBridge(client, _target(settings))
    try:
        wanted = bridge.wanted(schedules)
        drifted = differences(wanted, await bridge.rules())
        for one in () if dry_run else drifted:
            await bridge.mend(one)
    finally:
        await client.close()
    return drifted, len(wanted)


@asynccontextmanager
async def open_dead_letters(settings: Settings) -> AsyncIterator[DeadLetters]:
    from sellerwatch.adapters.aws.client import Aws  # noqa: PLC0415
    from sellerwatch.adapters.aws.queue import SqsDeadLetters, dead_queue  # noqa: PLC0415

    client = Aws(settings.aws_endpoint_url)
    try:
        yield SqsDeadLetters(dead_queue(client, settings.sqs_dlq_name))
    finally:
        await client.close()


def rules_needed(settings: Settings) -> int:
    """Rules that EventBridge is to hold; none where there is no database yet."""
    with _database(settings) as engine:
        if status(engine).current is None:
            return 0
        with engine.connect() as connection:
            return Transaction(connection).schedules.page(offset=0, limit=1)[1]


def _target(settings: Settings) -> Target:
    from sellerwatch.adapters.aws.events import Target  # noqa: PLC0415

    return Target(settings.eventbridge_target_arn or "", settings.eventbridge_role_arn)


def pool_moment(settings: Settings, clock: Clock) -> Moment:
    """Now, on the clock the pool's windows are reckoned by: a look needs no better than this machine's own time for the
    one that machines share."""
    if settings.redis_url is None:
        return moment(clock)
    now = clock.now()
    return Moment(now, (now - EPOCH) // timedelta(microseconds=1), SHARED)


def _token_keys(settings: Settings) -> str:
    if settings.token_keys is not None:
        return settings.token_keys.get_secret_value()
    path = database_path(make_engine(settings.database_url))
    if path is None:
        return f"memory:{base64.b64encode(os.urandom(32)).decode()}"
    return token_keys_beside(path)


def jwt_secret(settings: Settings) -> str:
    """What signs the API's tokens: configured, or made once beside the embedded database."""
    if settings.jwt_secret is not None:
        return settings.jwt_secret.get_secret_value()
    path = database_path(make_engine(settings.database_url))
    return base64.b64encode(os.urandom(32)).decode() if path is None else jwt_secret_beside(path)


def open_passwords() -> Argon2Passwords:
    """Nothing is hashed yet."""
    return Argon2Passwords()


def schema_head() -> str:
    """The revision this program was written for."""
    return history()[-1]


def disk_left(settings: Settings) -> int | None:
    """Bytes that can still be written where the database is; None for one in memory."""
    path = database_path(make_engine(settings.database_url))
    return None if path is None else shutil.disk_usage(path.parent).free


def schema_status(environment: Mapping[str, str]) -> tuple[str, SchemaStatus]:
    """Where the configured database stands; looking makes no file."""
    settings = load(environment).settings
    with _database(settings) as engine:
        return shown(make_engine(settings.database_url)), status(engine)


def upgrade_schema(environment: Mapping[str, str], actor: str) -> tuple[str | None, str | None]:
    """Up to what this program needs; says from where to where."""
    clock = SystemClock()
    with _database(load(environment).settings, make=True) as engine:
        before = status(engine).current
        after = upgrade(engine, clock.now()).current
        if before != after:
            _note(engine, AuditEntry(clock.now(), actor, "db.upgrade", "schema", str(after), note=f"from {before}"))
    return before, after


def downgrade_schema(environment: Mapping[str, str], to: str, actor: str) -> tuple[str | None, str | None]:
    """Down to a revision; the trail keeps it while the trail itself still stands."""
    now = SystemClock().now()
    with _database(load(environment).settings) as engine:
        before = status(engine).current
        after = downgrade(engine, to).current
        if before != after:
            with suppress(*DRIVER_ERRORS):
                _note(engine, AuditEntry(now, actor, "db.downgrade", "schema", str(after), note=f"from {before}"))
    return before, after


def log_partitions(environment: Mapping[str, str]) -> tuple[str, bool, list[Partition]]:
    """The months of the log of requests: of which database, whether that is cut into months at all, and which."""
    settings = load(environment).settings
    with _database(settings) as engine:
        return shown(make_engine(settings.database_url)), settings.is_mysql, partitions(engine)


@contextmanager
def _database(settings: Settings, *, make: bool = False) -> Iterator[Engine]:
    """The configured database for the length of a command. Where there is none and none is to be made, an empty one in
    memory stands for it.
    """
    path = database_path(make_engine(settings.database_url))
    there = make or path is None or path.exists()
    engine = open_engine(settings, patient=True) if there else make_engine("sqlite://")
    try:
        with answering(engine):
            yield engine
    finally:
        engine.dispose()


def _note(engine: Engine, entry: AuditEntry) -> None:
    with engine.connect() as connection, connection.begin():
        Transaction(connection).audit.record(entry)
