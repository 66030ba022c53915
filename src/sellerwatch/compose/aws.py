"""Open SQS and EventBridge, where they are configured, for a service or for a command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sellerwatch.adapters.sql.migrate import status
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.compose.database import opened
from sellerwatch.crawling.queue import DeadLetters, EmbeddedQueue, Queue
from sellerwatch.operations.aws import (
    AwsSetupStep,
    AwsSetupView,
    ReconciledRulesView,
    RuleDifferenceView,
    SetupResult,
)
from sellerwatch.outbox.ports import Receiver
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.settings.model import Settings

if TYPE_CHECKING:
    from sellerwatch.adapters.aws.client import Aws
    from sellerwatch.adapters.aws.events import Target


@dataclass(frozen=True)
class AwsParts:
    """The parts of AWS that are in use."""

    queue: Queue = field(default_factory=EmbeddedQueue)
    dead_letters: DeadLetters | None = None
    scheduler: Receiver | None = None
    outside: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)


@asynccontextmanager
async def _client(settings: Settings) -> AsyncIterator[Aws]:
    """Open the clients of AWS, and close them at the end."""
    from sellerwatch.adapters.aws.client import Aws  # noqa: PLC0415 - only with AWS

    client = Aws(settings.aws_endpoint_url)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def open_aws(settings: Settings) -> AsyncIterator[AwsParts]:
    """Open what is configured. SQS must answer when a process starts; EventBridge gets messages by outbox and may be
    down."""
    if settings.queue != "sqs" and settings.scheduler != "eventbridge":
        yield AwsParts()
        return
    found = AwsParts()
    async with _client(settings) as client:
        if settings.queue == "sqs":
            from sellerwatch.adapters.aws.queue import (  # noqa: PLC0415 - only with AWS
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
            from sellerwatch.adapters.aws.events import EventBridge  # noqa: PLC0415 - only with AWS

            bridge = EventBridge(client, _target(settings))
            found = replace(found, scheduler=bridge, outside={**found.outside, "scheduler": bridge.check})
        yield found


async def set_up_aws(settings: Settings) -> AwsSetupView:
    """Create or change both queues as needed, check that EventBridge answers, and return what was done."""
    from sellerwatch.adapters.aws.events import EventBridge  # noqa: PLC0415 - only with AWS
    from sellerwatch.adapters.aws.queue import set_up  # noqa: PLC0415 - only with AWS

    steps = list[AwsSetupStep]()
    async with _client(settings) as client:
        if settings.queue == "sqs":
            names = settings.sqs_queue_name, settings.sqs_dlq_name
            steps += await set_up(client, *names, settings.visibility_seconds)
        if settings.scheduler == "eventbridge":
            await EventBridge(client, _target(settings)).check()
            steps.append(AwsSetupStep("EventBridge", "rules", SetupResult.REACHABLE))
    return AwsSetupView.of(steps)


async def reconcile_rules(settings: Settings, schedules: Sequence[Schedule], *, dry_run: bool) -> ReconciledRulesView:
    """Compare the rules with the schedules and change those that differ, unless it is a dry run."""
    from sellerwatch.adapters.aws.events import EventBridge, differences  # noqa: PLC0415 - only with AWS

    async with _client(settings) as client:
        bridge = EventBridge(client, _target(settings))
        wanted = bridge.wanted(schedules)
        drifted = differences(wanted, await bridge.rules())
        for one in () if dry_run else drifted:
            await bridge.mend(one)
    differ = [RuleDifferenceView(each.name, each.differences, not dry_run) for each in drifted]
    return ReconciledRulesView(len(wanted), differ)


@asynccontextmanager
async def open_dead_letters(settings: Settings) -> AsyncIterator[DeadLetters | None]:
    """Open the dead letters of the queue; None where the queue has none."""
    if settings.queue != "sqs":
        yield None
        return
    from sellerwatch.adapters.aws.queue import SqsDeadLetters, dead_queue  # noqa: PLC0415 - only with AWS

    async with _client(settings) as client:
        yield SqsDeadLetters(dead_queue(client, settings.sqs_dlq_name))


def rules_needed(settings: Settings) -> int:
    """Return how many rules EventBridge needs; none where there is no database yet."""
    with opened(settings) as engine:
        if status(engine).current is None:
            return 0
        with engine.connect() as connection:
            return Transaction(connection).schedules.page(offset=0, limit=1)[1]


def _target(settings: Settings) -> Target:
    from sellerwatch.adapters.aws.events import Target  # noqa: PLC0415 - only with AWS

    return Target(settings.eventbridge_target_arn or "", settings.eventbridge_role_arn)
