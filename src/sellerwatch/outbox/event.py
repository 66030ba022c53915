"""A product's event as it goes over the wire: made once, then sent byte for byte the same on every try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import orjson

from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.ids import ItemNo, OutboxId, SellerId
from sellerwatch.outbox.message import InvalidPayload


class ChangedField(Protocol):
    """One field that changed; an added list member has no before, a removed one no after."""

    @property
    def field(self) -> str: ...

    @property
    def before(self) -> Any: ...

    @property
    def after(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A change as it was told."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Event:
    """What the receiver was told: `product_data` is what the next change is a change from."""

    event_id: OutboxId
    event_type: str
    item_no: ItemNo
    seller_id: SellerId
    version: int
    occurred_at: datetime
    changes: tuple[FieldChange, ...]
    product_data: dict[str, Any]


def data_json(product_data: Mapping[str, Any]) -> bytes:
    """A product as its event carries it; its history keeps the same bytes."""
    return orjson.dumps(product_data)


def event_body(
    outbox_id: OutboxId,
    event_type: str,
    item_no: ItemNo,
    seller_id: SellerId,
    version: int,
    occurred_at: datetime,
    changes: Sequence[ChangedField],
    product_data: bytes,
) -> str:
    """The body, compact, its keys in the order of the specification. The same arguments give the same bytes."""
    return orjson.dumps(
        {
            "eventId": outbox_id,
            "eventType": event_type,
            "itemNo": item_no,
            "sellerId": seller_id,
            "version": version,
            "occurredAt": stamp(occurred_at),
            "changes": [{"field": c.field, "before": c.before, "after": c.after} for c in changes],
            "productData": orjson.Fragment(product_data),
        }
    ).decode()


def read_event(payload: str) -> Event:
    """Back from a body that `event_body` made; anything else is an `InvalidPayload` that names what is wrong."""
    try:
        told = orjson.loads(payload)
        return Event(
            event_id=OutboxId(told["eventId"]),
            event_type=told["eventType"],
            item_no=ItemNo(int(told["itemNo"])),
            seller_id=SellerId(told["sellerId"]),
            version=told["version"],
            occurred_at=datetime.fromisoformat(told["occurredAt"]),
            changes=tuple(FieldChange(c["field"], c["before"], c["after"]) for c in told["changes"]),
            product_data=told["productData"],
        )
    except KeyError as missing:
        raise InvalidPayload(problem=f"{missing.args[0]} is missing") from None
    except (ValueError, TypeError) as error:
        raise InvalidPayload(problem=f"not an event: {error}") from None
