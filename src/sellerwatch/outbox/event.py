"""The bodies of events: made once, then sent byte for byte the same on every attempt.

An event of a product is made when it changes, a snapshot when an operator asks for its present state, a ping when an
operator asks whether the receiver answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NotRequired, Protocol, TypedDict

import orjson

from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.ids import ItemNo, OutboxId, SellerId
from sellerwatch.kernel.views import About
from sellerwatch.outbox.message import InvalidPayload

#: What changed in which version of the shape of events. A field that is new needs no version; one that is removed, or
#: gets another type or meaning, does.
SCHEMA_CHANGES = {
    1: "The first version. Events stored before `schemaVersion` was introduced lack it: they are of version 1."
}
SCHEMA_VERSION = max(SCHEMA_CHANGES)

#: The event types that are sent only when an operator asks for them.
SNAPSHOT = "PRODUCT_SNAPSHOT"
PING = "PING"


class PingBody(TypedDict):
    """The fields of every event."""

    eventId: Annotated[
        str,
        About(
            "The event's own id: also `Idempotency-Key` and `webhook-id`, and the same on every attempt.",
            "0198c0de-0000-7000-8005-000000000001",
        ),
    ]
    eventType: Annotated[str, About("The type, which names the schema.")]
    occurredAt: Annotated[str, About("When it was found, in UTC.", "2026-11-15T06:04:05.123456Z", format="date-time")]
    schemaVersion: NotRequired[
        Annotated[
            int,
            About("The version of this description that the event follows; 1 where it is absent.", SCHEMA_VERSION),
        ]
    ]


class ChangedFieldData(TypedDict):
    """A field that changed."""

    field: Annotated[str, About("Its path: `name`, `prices.selling`, `options[4134224619].stock`.", "prices.selling")]
    before: Annotated[Any, About("The value before.", 600000, null="for an option that is new, and where it was null")]
    after: Annotated[Any, About("The value now.", 590000, null="for an option that is gone, and where it is null")]


class ProductEventBody(PingBody):
    """The fields of an event about a product."""

    itemNo: Annotated[int, About("The product: the marketplace's number.", 900000001)]
    sellerId: Annotated[str, About("The seller who sells it.", "seller_12345")]
    version: Annotated[
        int,
        About(
            "Starts at 1 and rises by exactly 1 with each event of the product, over removal and return. It leaps, "
            "once, when the sender's database was restored from a backup.",
            2,
        ),
    ]
    changes: Annotated[
        list[ChangedFieldData],
        About(
            "What differs from the event before, for people and logs. An option that is new or gone is one change; "
            "`images`, `tags` and `categories` change as whole lists."
        ),
    ]
    productData: Annotated[Any, About("The whole product.")]


class SnapshotBody(ProductEventBody):
    """The fields of a snapshot."""

    deleted: Annotated[bool, About("Whether the product is gone: `productData` is then what was last known.", False)]


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
    schema_version: int = 1


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
) -> bytes:
    """Return the body as compact JSON, its keys in the order of the specification. The same arguments give the same
    bytes."""
    body: ProductEventBody = {
        "eventId": outbox_id,
        "eventType": event_type,
        "itemNo": item_no,
        "sellerId": seller_id,
        "version": version,
        "occurredAt": stamp(occurred_at),
        "schemaVersion": SCHEMA_VERSION,
        "changes": [{"field": c.field, "before": c.before, "after": c.after} for c in changes],
        "productData": orjson.Fragment(product_data),
    }
    return orjson.dumps(body)


def snapshot_body(
    outbox_id: OutboxId,
    item_no: ItemNo,
    seller_id: SellerId,
    version: int,
    occurred_at: datetime,
    product_data: bytes,
    *,
    deleted: bool,
) -> bytes:
    """Return the body of a snapshot: the present state of a product, which a receiver can apply without history. A
    deleted product carries its last known productData."""
    body: SnapshotBody = {
        "eventId": outbox_id,
        "eventType": SNAPSHOT,
        "itemNo": item_no,
        "sellerId": seller_id,
        "version": version,
        "occurredAt": stamp(occurred_at),
        "schemaVersion": SCHEMA_VERSION,
        "deleted": deleted,
        "changes": [],
        "productData": orjson.Fragment(product_data),
    }
    return orjson.dumps(body)


def ping_body(event_id: OutboxId, occurred_at: datetime) -> bytes:
    """Return the body of a ping. It is about no product, and a receiver answers it without storing anything."""
    body: PingBody = {
        "eventId": event_id,
        "eventType": PING,
        "occurredAt": stamp(occurred_at),
        "schemaVersion": SCHEMA_VERSION,
    }
    return orjson.dumps(body)


def read_event(payload: bytes) -> Event:
    """Read a body that `event_body` or `snapshot_body` made. Raise `InvalidPayload` for anything else."""
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
            schema_version=event.get("schemaVersion", 1),
        )
    except KeyError as missing:
        raise InvalidPayload(problem=f"{missing.args[0]} is missing") from None
    except (ValueError, TypeError) as error:
        raise InvalidPayload(problem=f"not an event: {error}") from None
