"""SQS FIFO as the queue.

The message group is the seller, so that one seller cannot occupy all workers and has at most 10 messages in flight; or
the product, which lifts that limit. Deduplication uses the task and its publish count: two processes that publish a
task at once send one message, and a task that comes back sends a new one. A message is deleted whenever its task is not
being worked on: FIFO queues have no delay per message, and waiting must not count as a receive.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import orjson

from sellerwatch.adapters.aws.client import MISSING, Aws, AwsUnavailable
from sellerwatch.crawling.queue import DeadLetter, Hint
from sellerwatch.crawling.task import Task
from sellerwatch.kernel.errors import Invalid, Unavailable
from sellerwatch.kernel.ids import TaskId
from sellerwatch.operations.aws import AwsSetupStep, SetupResult

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Messages that SQS takes and gives at a time.
BATCH = 10
LONGEST_POLL = 20
#: Received more often than this without being acknowledged, a message is dead.
RECEIVES = 2
#: The longest SQS keeps a message; a task waits in the database for as long as it must.
RETENTION = 14 * 86_400
#: Seconds for which dead letters that are looked at are hidden from others.
LOOKED_AT = 30
LONGEST_GROUP = 128

Group = Literal["seller", "product"]


@dataclass(eq=False)
class QueueMissing(Unavailable):
    """The queue does not exist."""

    queue: str
    setting: str


class _Named:
    """A queue by name. Its URL is requested once, and again where the queue did not exist."""

    def __init__(self, aws: Aws, name: str, setting: str) -> None:
        self.name = name
        self._aws = aws
        self._setting = setting
        self._url: str | None = None

    async def call(self, operation: str, **given: Any) -> dict[str, Any]:
        try:
            if self._url is None:
                self._url = str((await self._aws.call("sqs", "get_queue_url", QueueName=self.name))["QueueUrl"])
            return await self._aws.call("sqs", operation, QueueUrl=self._url, **given)
        except AwsUnavailable as refusal:
            if refusal.reason in MISSING:
                self._url = None
                raise QueueMissing(queue=self.name, setting=self._setting) from None
            raise

    async def attributes(self) -> dict[str, str]:
        response = await self.call("get_queue_attributes", AttributeNames=["All"])
        return {str(name): str(value) for name, value in response.get("Attributes", {}).items()}


def tasks_queue(aws: Aws, name: str) -> _Named:
    return _Named(aws, name, "SQS_QUEUE_NAME")


def dead_queue(aws: Aws, name: str) -> _Named:
    return _Named(aws, name, "SQS_DLQ_NAME")


class SqsQueue:
    """`trace` returns the current W3C traceparent, if there is one; it travels with the message."""

    names_tasks = True

    def __init__(
        self,
        queue: _Named,
        *,
        visibility: float,
        group: Group = "seller",
        trace: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._queue = queue
        self._visibility = max(1, round(visibility))
        self._group = group
        self._trace = trace

    async def check(self) -> None:
        """Check that the queue exists and permits access."""
        await self._queue.attributes()

    async def send(self, tasks: Sequence[Task]) -> frozenset[TaskId]:
        sent: set[TaskId] = set()
        for some in _tens(tasks):
            entries = [self._entry(task) | {"Id": str(number)} for number, task in enumerate(some)]
            try:
                response = await self._queue.call("send_message_batch", Entries=entries)
            except Unavailable as refusal:
                if not sent:
                    raise
                log.warning("some messages were not sent", extra={"problem": str(refusal)})
                break
            sent.update(some[int(one["Id"])].task_id for one in response.get("Successful", ()))
            for failed in response.get("Failed", ()):
                task = some[int(failed["Id"])]
                if await self._send_alone(task):
                    sent.add(task.task_id)
        return frozenset(sent)

    async def _send_alone(self, task: Task) -> bool:
        """Send a message that was refused in a batch: alone it may be accepted, and else fails only itself."""
        try:
            await self._queue.call("send_message", **self._entry(task))
        except Unavailable as refusal:
            log.warning("a message was not sent", extra={"task": task.task_id, "problem": str(refusal)})
            return False
        return True

    def _entry(self, task: Task) -> dict[str, Any]:
        body = {
            "taskId": task.task_id,
            "sellerId": task.seller_id,
            "taskType": task.task_type,
            "requestUrl": task.request_url,
        }
        attributes = {"sellerId": {"DataType": "String", "StringValue": str(task.seller_id)}}
        trace = self._trace()
        if trace is not None:
            attributes["traceparent"] = {"DataType": "String", "StringValue": trace}
        return {
            "MessageBody": orjson.dumps(body).decode(),
            "MessageGroupId": group_of(task, self._group),
            "MessageDeduplicationId": f"{task.task_id}-{task.publish_count}",
            "MessageAttributes": attributes,
        }

    async def receive(self, most: int, patience: float) -> Sequence[Hint]:
        found: list[Hint] = []
        wait = min(LONGEST_POLL, int(patience))
        while len(found) < most:
            response = await self._queue.call(
                "receive_message",
                MaxNumberOfMessages=min(BATCH, most - len(found)),
                WaitTimeSeconds=wait,
                VisibilityTimeout=self._visibility,
            )
            messages = response.get("Messages", ())
            found += [hint_of(message) for message in messages]
            if not messages:
                break
            wait = 0
        return found

    async def acknowledge(self, hints: Sequence[Hint]) -> None:
        for some in _tens(hints):
            entries = [{"Id": str(number), "ReceiptHandle": hint.handle} for number, hint in enumerate(some)]
            response = await self._queue.call("delete_message_batch", Entries=entries)
            _note("a message was not deleted; it comes again and is deleted then", response)

    async def extend(self, hints: Sequence[Hint]) -> None:
        for some in _tens(hints):
            entries = [
                {"Id": str(number), "ReceiptHandle": hint.handle, "VisibilityTimeout": self._visibility}
                for number, hint in enumerate(some)
            ]
            response = await self._queue.call("change_message_visibility_batch", Entries=entries)
            _note("a message was not extended; somebody else may get it and will find its task in hand", response)


class SqsDeadLetters:
    def __init__(self, queue: _Named) -> None:
        self._queue = queue

    async def count(self) -> int:
        found = await self._queue.attributes()
        return sum(
            int(found.get(name, 0)) for name in ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        )

    async def look(self, most: int) -> Sequence[DeadLetter]:
        """Return dead letters. FIFO shows at most 10 of one group until those are removed."""
        found: list[DeadLetter] = []
        while len(found) < most:
            response = await self._queue.call(
                "receive_message",
                MaxNumberOfMessages=min(BATCH, most - len(found)),
                WaitTimeSeconds=0,
                VisibilityTimeout=LOOKED_AT,
                AttributeNames=["ApproximateReceiveCount"],
            )
            messages = response.get("Messages", ())
            if not messages:
                break
            found += [
                DeadLetter(
                    hint_of(message),
                    str(message.get("Body", "")),
                    int(message.get("Attributes", {}).get("ApproximateReceiveCount", 0)),
                )
                for message in messages
            ]
        return found

    async def remove(self, letters: Sequence[DeadLetter]) -> None:
        for some in _tens(letters):
            entries = [{"Id": str(number), "ReceiptHandle": one.hint.handle} for number, one in enumerate(some)]
            _note("a dead letter was not deleted", await self._queue.call("delete_message_batch", Entries=entries))

    async def leave(self, letters: Sequence[DeadLetter]) -> None:
        for some in _tens(letters):
            entries = [
                {"Id": str(number), "ReceiptHandle": one.hint.handle, "VisibilityTimeout": 0}
                for number, one in enumerate(some)
            ]
            response = await self._queue.call("change_message_visibility_batch", Entries=entries)
            _note("a dead letter is seen again in a while only", response)


async def set_up(aws: Aws, queue: str, dlq: str, visibility: float) -> list[AwsSetupStep]:
    """Create or change both queues as needed; without differences nothing is changed."""
    dead = dead_queue(aws, dlq)
    first = await _as_wanted(aws, dead, "dead-letter queue", {"MessageRetentionPeriod": str(RETENTION)})
    arn = (await dead.attributes())["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": RECEIVES})
    wanted = {
        "VisibilityTimeout": str(max(1, round(visibility))),
        "MessageRetentionPeriod": str(RETENTION),
        "RedrivePolicy": redrive,
    }
    return [first, await _as_wanted(aws, tasks_queue(aws, queue), "queue", wanted)]


async def _as_wanted(aws: Aws, queue: _Named, what: str, wanted: dict[str, str]) -> AwsSetupStep:
    try:
        found = await queue.attributes()
    except QueueMissing:
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
        await aws.call("sqs", "create_queue", QueueName=queue.name, Attributes=fifo | wanted)
        return AwsSetupStep(what, queue.name, SetupResult.CREATED)
    other = {name: value for name, value in wanted.items() if not _same(found.get(name), value)}
    if not other:
        return AwsSetupStep(what, queue.name, SetupResult.UNCHANGED)
    await queue.call("set_queue_attributes", Attributes=other)
    return AwsSetupStep(what, queue.name, SetupResult.CHANGED, tuple(sorted(other)))


def _same(found: str | None, wanted: str) -> bool:
    if found is None or not wanted.startswith("{"):
        return found == wanted
    read, meant = json.loads(found), json.loads(wanted)
    return {name: str(value) for name, value in read.items()} == {name: str(value) for name, value in meant.items()}


def group_of(task: Task, group: Group) -> str:
    """Return the message group. A name that SQS would refuse is replaced by its hash."""
    plain = str(task.seller_id)
    if group == "product":
        plain = f"{task.seller_id}/{task.item_no if task.item_no is not None else f'page-{task.page_no}'}"
    if len(plain) <= LONGEST_GROUP and plain.isascii() and plain.isprintable() and " " not in plain:
        return plain
    return f"sha256-{hashlib.sha256(plain.encode()).hexdigest()}"


def hint_of(message: dict[str, Any]) -> Hint:
    """Return the task that a message names. A malformed message names none and becomes a dead letter."""
    try:
        named = orjson.loads(message.get("Body", ""))["taskId"]
        task_id = TaskId.parse(named) if isinstance(named, str) else None
    except (ValueError, KeyError, TypeError, Invalid):
        task_id = None
    return Hint(task_id, str(message["ReceiptHandle"]))


def _note(sentence: str, response: dict[str, Any]) -> None:
    failed = response.get("Failed", ())
    if failed:
        log.debug(sentence, extra={"failed": len(failed), "problem": str(failed[0].get("Code", ""))})


def _tens(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), BATCH):
        yield items[first : first + BATCH]
