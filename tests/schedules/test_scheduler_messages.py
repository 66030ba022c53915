"""What the scheduler is told: rule name, expression, target and input."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
import pytest
from tests.builders import LATER, NOW, SELLER, a_message, a_schedule, outbox_id, schedule_id, worker_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.message import Message, MessageStatus
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule, ScheduleEvent, ScheduleEventType, ScheduleStatus
from sellerwatch.schedules.scheduler_messages import apply_results, message_of


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ARN = "arn:aws:sqs:ap-northeast-2:123456789012:mustit-crawler-tasks.fifo"


def registered(seller_id: SellerId = SELLER) -> ScheduleEvent:
    _, event = Schedule.create(schedule_id(), seller_id, CrawlingInterval.of_hours(6), NOW)
    return event


def test_the_message_is_about_the_schedule_and_due_at_once() -> None:
    message = message_of(registered(), outbox_id(), LATER)
    assert (message.outbox_id, message.subject_id, message.seller_id) == (outbox_id(), schedule_id(), SELLER)
    assert (message.status, message.created_at, message.next_attempt_at) == (MessageStatus.WAITING, LATER, LATER)
    assert message.is_due(LATER)
    assert (message.item_no, message.version, message.execution_id) == (None, 0, None)


def test_the_payload_has_the_keys_of_the_specification_and_the_input_as_a_json_string() -> None:
    message = message_of(registered(), outbox_id(), NOW, ARN)
    assert message.payload.decode() == (
        '{"ruleName":"mustit-crawler-seller_12345","scheduleExpression":"rate(6 hours)",'
        f'"targetArn":"{ARN}","input":"{{\\"sellerId\\":\\"seller_12345\\"}}"}}'
    )


def test_the_input_survives_any_seller_id() -> None:
    told = orjson.loads(message_of(registered(SellerId('가게 "A" \\ {}')), outbox_id(), NOW).payload)
    assert orjson.loads(told["input"]) == {"sellerId": '가게 "A" \\ {}'}
    assert told["targetArn"] == ""


@pytest.mark.parametrize("kind", ScheduleEventType)
def test_every_event_of_a_schedule_is_told_under_its_name(kind: ScheduleEventType) -> None:
    assert message_of(ScheduleEvent(kind, a_schedule()), outbox_id(), NOW).event_type == kind.value


def test_an_update_tells_the_new_expression() -> None:
    _, event = a_schedule().update_interval(CrawlingInterval.of_days(7), LATER)
    assert orjson.loads(message_of(event, outbox_id(), LATER).payload)["scheduleExpression"] == "rate(7 days)"


@dataclass
class Telling:
    """One schedule, and what its messages come to."""

    store: SqlStore
    notices: list[Notice] = field(default_factory=list)

    async def begin(self, schedule: Schedule) -> None:
        await self.store.transact(lambda tx: tx.schedules.add(schedule))

    async def settle(self, message: Message) -> ScheduleStatus:
        def work(tx: Transaction) -> tuple[list[Notice], Schedule | None]:
            return list(apply_results(tx, [message], LATER)), tx.schedules.get(schedule_id())

        notices, after = await self.store.transact(work)
        self.notices += notices
        assert after is not None
        return after.status


def sending() -> Message:
    return a_message(1, subject_id=schedule_id(), event_type="SCHEDULE_UPDATED", item_no=None).send(worker_id())


async def test_a_message_that_failed_for_good_fails_its_schedule_and_somebody_hears_of_it(
    inline_store: SqlStore,
) -> None:
    telling = Telling(inline_store)
    await telling.begin(a_schedule())
    assert await telling.settle(sending().refuse("answered 400: no such bus")) is ScheduleStatus.FAILED
    (notice,) = telling.notices
    assert (notice.kind, notice.subject) == ("schedule.failed", SELLER)
    assert "answered 400: no such bus" in notice.text()
    assert f"sellerwatch schedules retry {SELLER}" in notice.text()


async def test_a_message_that_was_taken_makes_the_schedule_what_it_was_meant_to_be(inline_store: SqlStore) -> None:
    telling = Telling(inline_store)
    await telling.begin(a_schedule(status=ScheduleStatus.FAILED))
    assert await telling.settle(sending().complete(LATER)) is ScheduleStatus.ACTIVE
    await telling.settle(sending().refuse("no"))
    off = a_schedule(status=ScheduleStatus.FAILED, next_run_at=None)
    await inline_store.transact(lambda tx: tx.schedules.save(off))
    assert await telling.settle(sending().complete(LATER)) is ScheduleStatus.INACTIVE


async def test_a_message_that_waits_for_its_next_try_changes_nothing(inline_store: SqlStore) -> None:
    telling = Telling(inline_store)
    await telling.begin(a_schedule())
    assert await telling.settle(sending().put_back(LATER)) is ScheduleStatus.ACTIVE
    assert telling.notices == []


async def test_a_message_of_a_schedule_that_is_gone_is_nobodys(inline_store: SqlStore) -> None:
    gone = sending().refuse("no")
    assert await inline_store.transact(lambda tx: list(apply_results(tx, [gone], LATER))) == []
