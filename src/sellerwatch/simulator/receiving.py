"""How a strict product server takes an event: it checks the sender against event.md, and applies each event once.

What it remembers is a ledger: in memory for the simulator, in a file for `sellerwatch receiver`. An event that breaks a
rule is reported and applied all the same, so that one fault does not hide the next. Not applied are a version that was
passed already, a reused key, and a bad signature or body.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

from sellerwatch.simulator.events import ReceivedEvent, ReceivedPing, complaints, is_signed, read_event
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest, json_answer, refusal


class EventLedger(Protocol):
    """What a product server remembers of the events it received."""

    def first_digest(self, key: str, digest: bytes) -> bytes | None:
        """Keep the digest of the body under this key, unless there is one: then return that."""
        ...

    def version(self, item_no: int) -> int:
        """Return the version of the item's last event, deleted or not; 0 without one."""
        ...

    def product(self, item_no: int) -> Mapping[str, Any] | None:
        """Return the stored productData of an item; None without one."""
        ...

    def store(self, event: ReceivedEvent) -> None:
        """Store the product and the version of an event, or remove the product."""
        ...


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of event.md that a request broke."""

    event_id: str
    item_no: int | None
    rule: str


@dataclass(frozen=True, slots=True)
class Reception:
    """What a request came to: its answer, the event unless it could not be read, and the rules that it broke."""

    answer: SimulatedAnswer
    event: ReceivedEvent | ReceivedPing | None = None
    is_duplicate: bool = False
    violations: tuple[Violation, ...] = ()


def receive(ledger: EventLedger, request: SimulatedRequest, secrets: Collection[str]) -> Reception:
    """Take one request. Without secrets no signature is checked."""
    key = request.headers.get("idempotency-key", "")
    if secrets and not is_signed(request.headers, request.body, secrets):
        return _refused(401, key, None, "the signature is missing or wrong")
    try:
        event = read_event(request.body)
    except ValueError as error:
        return _refused(400, key, None, str(error))
    broken = [Violation(event.event_id, _item(event), rule) for rule in _header_complaints(request.headers, event)]
    if isinstance(event, ReceivedEvent):
        digest = blake2b(request.body, digest_size=16).digest()
        known = ledger.first_digest(key or event.event_id, digest)
        if known is not None and known != digest:
            return _refused(409, key, event, "the same Idempotency-Key with another body")
        if known is not None:
            return Reception(_received(duplicate=True), event, is_duplicate=True)
        last = ledger.version(event.item_no)
        rules = complaints(event, last, ledger.product(event.item_no))
        broken += [Violation(event.event_id, event.item_no, rule) for rule in rules]
        if event.version > last:
            ledger.store(event)
    return Reception(_received(duplicate=False), event, violations=tuple(broken))


def _header_complaints(headers: Mapping[str, str], event: ReceivedEvent | ReceivedPing) -> list[str]:
    sent = {"idempotency-key": headers.get("idempotency-key"), "webhook-id": headers.get("webhook-id", event.event_id)}
    return [f"{name} is {value}" for name, value in sent.items() if value != event.event_id]


def _refused(status: int, key: str, event: ReceivedEvent | None, rule: str) -> Reception:
    item_no = None if event is None else event.item_no
    return Reception(refusal(status, rule), event, violations=(Violation(key, item_no, rule),))


def _received(*, duplicate: bool) -> SimulatedAnswer:
    return json_answer(200, {"received": True, "duplicate": duplicate})


def _item(event: ReceivedEvent | ReceivedPing) -> int | None:
    return event.item_no if isinstance(event, ReceivedEvent) else None
