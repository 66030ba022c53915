"""Bodies of events held against the published schemas, by a validator that is not ours."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

import orjson
from jsonschema_rs import Draft202012Validator
from tests.simulated_receiver import SimulatedReceiver

from sellerwatch.catalog.event_schemas import event_schema
from sellerwatch.outbox.ports import EventBody
from sellerwatch.outbox.receipt import Receipt


def closed(schema: Any) -> Any:
    """The schema with no other fields than those it names: what we send beyond them is undocumented."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    return made | {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else made


@cache
def validator(event_type: str) -> Draft202012Validator:
    return Draft202012Validator(closed(event_schema(event_type)), validate_formats=True)


def broken_rules(body: str | bytes) -> list[str]:
    event = orjson.loads(body)
    return [
        f"{'.'.join(map(str, e.instance_path))}: {e.message}" for e in validator(event["eventType"]).iter_errors(event)
    ]


class ContractReceiver(SimulatedReceiver):
    """The simulator's receiver; what breaks a schema on its way there is collected in `broken`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.broken: list[str] = []

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        self.broken += broken_rules(message.payload)
        return await super().deliver(message, now)
