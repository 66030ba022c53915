"""The body of a product's event: made once, then sent byte for byte the same on every attempt."""

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
    """A change in an event."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it was sent. The next change of the product is a change from its `product_data`."""

    event_id: OutboxId
    event_type: str
    item_no: ItemNo
    seller_id: SellerId
    version: int
    occurred_at: datetime
    changes: tuple[FieldChange, ...]
    product_data: dict[str, Any]


def data_json(product_data: Mapping[str, Any]) -> bytes:
    """Return the JSON of productData; the history keeps the same bytes."""
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
    """Return the body as compact JSON, its keys in the order of the specification. The same arguments give the same
    bytes."""
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
    """Read a body that `event_body` made. Raise `InvalidPayload` for anything else."""
    try:
        event = orjson.loads(payload)
        return Event(
            event_id=OutboxId(event["eventId"]),
            event_type=event["eventType"],
            item_no=ItemNo(int(event["itemNo"])),
            seller_id=SellerId(event["sellerId"]),
            version=event["version"],
            occurred_at=datetime.fromisoformat(event["occurredAt"]),
            changes=tuple(FieldChange(c["field"], c["before"], c["after"]) for c in event["changes"]),
            product_data=event["productData"],
        )
    except KeyError as missing:
        raise InvalidPayload(problem=f"{missing.args[0]} is missing") from None
    except (ValueError, TypeError) as error:
        raise InvalidPayload(problem=f"not an event: {error}") from None
