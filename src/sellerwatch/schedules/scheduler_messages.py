"""Messages to the scheduler: each event of a schedule becomes one message of the scheduler outbox. Here is also what
becomes of the schedule when the scheduler has taken the message, or never will."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import orjson

from sellerwatch.kernel.ids import OutboxId, ScheduleId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.message import Message, MessageStatus
from sellerwatch.schedules.ports import SchedulesTx
from sellerwatch.schedules.schedule import ScheduleEvent


def message_of(event: ScheduleEvent, outbox_id: OutboxId, now: datetime, target_arn: str = "") -> Message:
    """Rule name, expression, target and input, as EventBridge wants them; the embedded scheduler needs none of it."""
    schedule = event.schedule
    payload = {
        "ruleName": schedule.rule,
        "scheduleExpression": schedule.expression,
        "targetArn": target_arn,
        "input": orjson.dumps({"sellerId": schedule.seller_id}).decode(),
    }
    return Message(
        outbox_id=outbox_id,
        subject_id=schedule.schedule_id,
        seller_id=schedule.seller_id,
        event_type=event.type,
        payload=orjson.dumps(payload),
        created_at=now,
        next_attempt_at=now,
    )


def apply_results(tx: SchedulesTx, settled: Sequence[Message], now: datetime) -> Sequence[Notice]:
    """Mark the schedules of messages that failed for good as FAILED and return an alert for each; a message that was
    taken ends that. Messages of a schedule are sent in order, so none before a taken one is still waiting."""
    notices = []
    for message in settled:
        schedule = tx.schedules.get(ScheduleId(message.subject_id))
        if schedule is None:
            continue
        if message.status is MessageStatus.FAILED:
            tx.schedules.save(schedule.fail(now))
            notices.append(_refused(message))
        elif message.status is MessageStatus.COMPLETED:
            acknowledged = schedule.acknowledge(now)
            if acknowledged is not schedule:
                tx.schedules.save(acknowledged)
    return notices


def _refused(message: Message) -> Notice:
    facts = {"seller": message.seller_id, "error": message.error_message or ""}
    return Notice("schedule.failed", message.seller_id, facts)
