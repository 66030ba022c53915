"""What the scheduler is told: each event of a schedule becomes one message of the scheduler outbox."""

from __future__ import annotations

from datetime import datetime

import orjson

from sellerwatch.kernel.ids import OutboxId
from sellerwatch.outbox.message import Message
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
        payload=orjson.dumps(payload).decode(),
        created_at=now,
        next_attempt_at=now,
    )
