"""What the scheduler is told: rule name, expression, target and input."""

from __future__ import annotations

import orjson
import pytest
from tests.builders import LATER, NOW, SELLER, a_schedule, outbox_id, schedule_id

from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule, ScheduleEvent, ScheduleEventType
from sellerwatch.schedules.telling import message_of

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
    assert message.payload == (
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
