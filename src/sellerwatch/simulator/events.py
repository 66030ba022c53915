"""Events as event.md describes them: read one, check its signature, and find what a strict receiver would reject."""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from sellerwatch.simulator.comparing import differences, value_at

CREATED, UPDATED, DELETED = "PRODUCT_CREATED", "PRODUCT_UPDATED", "PRODUCT_DELETED"
SNAPSHOT, PING = "PRODUCT_SNAPSHOT", "PING"
#: Versions above this are of a sender whose database was restored: it leaves out all that it may have sent.
AFTER_RESTORE = 10_000_000
_PING_FIELDS = {"eventId": str, "eventType": str, "occurredAt": str, "schemaVersion": int}
_PLAIN_FIELDS = {"eventId": str, "eventType": str, "itemNo": int, "sellerId": str, "version": int, "occurredAt": str}
_CHANGE_KEYS = {"field", "before", "after"}


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    event_id: str
    event_type: str
    item_no: int
    seller_id: str
    version: int
    occurred_at: str
    changes: list[dict[str, Any]]
    product_data: dict[str, Any]
    deleted: bool = False

    @property
    def removes(self) -> bool:
        """Whether the item is not on sale after this event."""
        return self.event_type == DELETED or self.deleted


@dataclass(frozen=True, slots=True)
class ReceivedPing:
    """A ping: about no product."""

    event_id: str
    event_type: str = PING


def read_event(body: bytes) -> ReceivedEvent | ReceivedPing:
    """Return the event in a request's body. Raise ValueError, in one sentence, when it is not one."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    is_ping = value.get("eventType") == PING
    for name, kind in (_PING_FIELDS if is_ping else _PLAIN_FIELDS).items():
        if type(value.get(name)) is not kind:
            raise ValueError(f"{name} is missing or not {kind.__name__}")
    if is_ping:
        return ReceivedPing(value["eventId"])
    changes, product_data = value.get("changes"), value.get("productData")
    if not isinstance(changes, list) or not all(isinstance(c, dict) and c.keys() == _CHANGE_KEYS for c in changes):
        raise ValueError("changes is not a list of field, before and after")
    if not isinstance(product_data, dict):
        raise ValueError("productData is missing or not an object")
    if (value["eventType"] == SNAPSHOT) != (type(value.get("deleted")) is bool):
        raise ValueError("deleted is true or false on a PRODUCT_SNAPSHOT and absent elsewhere")
    return ReceivedEvent(
        event_id=value["eventId"],
        event_type=value["eventType"],
        item_no=value["itemNo"],
        seller_id=value["sellerId"],
        version=value["version"],
        occurred_at=value["occurredAt"],
        changes=changes,
        product_data=product_data,
        deleted=value.get("deleted", False),
    )


def complaints(event: ReceivedEvent, last_version: int, held: Mapping[str, Any] | None) -> Iterator[str]:
    """Return the broken rules, given the item's last version (0: none) and the stored productData (None: none)."""
    leaps = event.event_type == SNAPSHOT and (last_version == 0 or last_version < AFTER_RESTORE < event.version)
    if event.version != last_version + 1 and not leaps:
        yield f"version {event.version} follows {last_version}"
    if event.product_data.get("itemNo") != event.item_no:
        yield f"productData is of item {event.product_data.get('itemNo')}"
    if event.product_data.get("sellerId") != event.seller_id:
        yield f"productData is of seller {event.product_data.get('sellerId')}"
    if event.event_type == CREATED:
        if held is not None:
            yield "CREATED, but the item is there already"
    elif held is None and event.event_type != SNAPSHOT:
        yield f"{event.event_type} of an item that is not there"
    if event.event_type == UPDATED:
        yield from _change_complaints(event, held or {})
    elif event.event_type not in (CREATED, DELETED, SNAPSHOT):
        yield f"unknown eventType {event.event_type}"
    elif event.changes:
        yield f"{event.event_type} with changes"
    if event.event_type == DELETED and held is not None and held != event.product_data:
        yield "DELETED does not carry the last known productData"


def _change_complaints(event: ReceivedEvent, held: Mapping[str, Any]) -> Iterator[str]:
    """Return complaints unless the changes lead exactly from what is stored to what is sent."""
    if not event.changes:
        yield "UPDATED without changes"
    changed_fields = {str(change["field"]) for change in event.changes}
    for change in event.changes:
        field = str(change["field"])
        if change["after"] != value_at(event.product_data, field):
            yield f"after of {field} disagrees with productData"
        if held and change["before"] != value_at(held, field):
            yield f"before of {field} disagrees with what was sent last"
        if change["before"] == change["after"]:
            yield f"{field} did not change"
    if held:
        for difference in differences(held, event.product_data):
            if difference.field not in changed_fields:
                yield f"{difference.field} changed untold"


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the Standard Webhooks signature of a message."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.digest(signing_key(secret), signed, "sha256")).decode()


def signing_key(secret: str) -> bytes:
    """Return the key in a secret: `whsec_<base64>` is decoded, or ValueError raised; any other is its UTF-8 bytes."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return b64decode(secret.removeprefix("whsec_"), validate=True)
    except NotBase64 as error:
        raise ValueError("a secret that starts with whsec_ must go on in base64") from error


def is_signed(headers: Mapping[str, str], body: bytes, secrets: Iterable[str]) -> bool:
    """Return whether one of the sent signatures is made with one of the secrets.

    The age of the timestamp is not checked: a simulation's time need not be the sender's.
    """
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not timestamp.isdecimal():
        return False
    sent = headers.get("webhook-signature", "").split(" ")
    expected = [signature(secret, message_id, timestamp, body) for secret in secrets]
    return any(hmac.compare_digest(one.encode(), other.encode()) for one in sent for other in expected)
