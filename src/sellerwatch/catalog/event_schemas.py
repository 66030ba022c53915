"""The contract with receivers: each event type, when it is sent, and its JSON Schema.

The schemas are written from the types that the code making events is checked against: the envelope in
`outbox/event.py`, productData in `product_data.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sellerwatch.catalog.product import ProductEvent
from sellerwatch.catalog.product_data import ProductData
from sellerwatch.kernel.errors import NotFound
from sellerwatch.kernel.json_schema import DIALECT, SchemaWriter
from sellerwatch.outbox.event import PING, SNAPSHOT, PingBody, ProductEventBody, SnapshotBody

#: Of `changes`: never empty, or always.
_SOME: Mapping[str, Any] = {"minItems": 1}
_NONE: Mapping[str, Any] = {"maxItems": 0}


@dataclass(eq=False)
class EventTypeNotFound(NotFound):
    """An event type that does not exist."""

    event_type: str


@dataclass(frozen=True)
class EventShape:
    """An event type: when it is sent, what a receiver does, and the fields that it has."""

    event_type: str
    sent: str
    apply: str
    body: type[Any]
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return `ProductUpdated` for PRODUCT_UPDATED: its name among other schemas."""
        return self.event_type.title().replace("_", "")

    def schema(self, writer: SchemaWriter) -> dict[str, Any]:
        made = writer.object_schema(self.body)
        made["description"] = f"{self.sent} {self.apply}"
        fields = made["properties"]
        fields["eventType"] |= {"const": self.event_type, "examples": [self.event_type]}
        if "productData" in fields:
            fields["changes"] |= self.changes
            fields["productData"] |= writer.reference(ProductData)
        return made


EVENT_SHAPES = {
    each.event_type: each
    for each in (
        EventShape(
            ProductEvent.CREATED,
            "A product appeared, or came back.",
            "Store `productData`.",
            ProductEventBody,
            _NONE,
        ),
        EventShape(
            ProductEvent.UPDATED,
            "A product changed.",
            "Replace what you have by `productData`.",
            ProductEventBody,
            _SOME,
        ),
        EventShape(
            ProductEvent.DELETED,
            "A product is gone; `productData` is what was last known of it.",
            "Remove the product.",
            ProductEventBody,
            _NONE,
        ),
        EventShape(
            SNAPSHOT,
            "An operator asked for the present state of products.",
            "Replace what you have by `productData`, or remove the product if `deleted` is true.",
            SnapshotBody,
            _NONE,
        ),
        EventShape(
            PING,
            "An operator asked whether you answer.",
            "Answer 200; it is about no product.",
            PingBody,
        ),
    )
}


@cache
def event_schema(event_type: str) -> dict[str, Any]:
    """Return the JSON Schema of an event type. Raise `EventTypeNotFound` for any other text."""
    shape = EVENT_SHAPES.get(event_type)
    if shape is None:
        raise EventTypeNotFound(event_type)
    writer = SchemaWriter()
    made = shape.schema(writer)
    definitions = {"$defs": writer.definitions} if writer.definitions else {}
    return {"$schema": DIALECT, "title": event_type, **made, **definitions}


def event_components(refs: str) -> dict[str, dict[str, Any]]:
    """Return the schemas of all events and of what they contain, by name, for a description that has them at `refs`."""
    writer = SchemaWriter(refs)
    made = {shape.name: shape.schema(writer) for shape in EVENT_SHAPES.values()}
    return made | writer.definitions
