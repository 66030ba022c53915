"""A simulated product server: it takes events, checks them against the rules of event.md, and can fail."""

import zlib
from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

from sellerwatch.simulator.comparing import differences
from sellerwatch.simulator.events import ReceivedEvent, ReceivedPing, signing_key
from sellerwatch.simulator.receiving import Violation, receive
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.wire import ConnectionFault, SimulatedAnswer, SimulatedRequest, refusal
from sellerwatch.simulator.world import World

_HISTORY = 100_000
_VIOLATIONS_KEPT = 1_000
_DROPPED = SimulatedAnswer(0, fault=ConnectionFault.DROP)


class ServerMode(Enum):
    """How the server treats a request."""

    WELL = "well"
    DOWN = "down"  # the connection is dropped, nothing is processed
    ERROR = "error"  # 500, nothing is processed
    ERROR_AFTER = "error_after"  # processed, then 500
    DROP_AFTER = "drop_after"  # processed, then the connection is dropped
    HANG = "hang"  # no answer, nothing is processed
    THROTTLE = "throttle"  # 429 with Retry-After
    REDIRECT = "redirect"  # 302 to somewhere else


@dataclass(frozen=True, slots=True)
class ServerBehaviour:
    """A mode, for every request or with a probability, for ever or for the next `requests` that it affects."""

    mode: ServerMode = ServerMode.WELL
    probability: float = 1.0
    requests: int | None = None
    retry_after: int = 1


@dataclass(frozen=True, slots=True)
class AppliedEvent:
    """An event that was applied, in the order of arrival; its productData is in the catalogue."""

    sequence: int
    event_id: str
    event_type: str
    item_no: int
    seller_id: str
    version: int
    occurred_at: str
    changes: list[dict[str, Any]]
    received_at: float


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference between the catalogue and the truth. A missing or a surplus item has the field `item`."""

    item_no: int
    field: str
    expected: Any
    actual: Any


class ProductServer:
    """Receives events at any path, as `receiving.py` says. It is the ledger of what it received.

    Products are compressed (200,000 of 14 KB take some 400 MB); the last 100,000 events are kept without productData.
    """

    def __init__(
        self, secret: str | Collection[str] | None = None, seed: int | str = 0, history: int = _HISTORY
    ) -> None:
        self.check_signatures((secret,) if isinstance(secret, str) else secret or ())
        self._rng = seeded_rng(seed, "product-server")
        self._behaviour = ServerBehaviour()
        self._strikes_left: int | None = None
        self._products: dict[int, bytes] = {}
        self._versions: dict[int, int] = {}
        self._bodies: dict[str, bytes] = {}
        self._events: deque[AppliedEvent] = deque(maxlen=history)
        self._sequence = 0
        self._requests: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._violation_count = 0
        self.duplicates = 0
        self.pings = 0
        self.violations: list[Violation] = []
        """The first 1,000 rules broken; `stats` has the number of all."""

    def check_signatures(self, secrets: Collection[str]) -> None:
        """Refuse events that are signed with none of these secrets from now on; without any, none is checked."""
        for each in secrets:
            signing_key(each)  # a bad secret is refused here, not with the first event
        self._secrets = tuple(secrets)

    def behave(self, behaviour: ServerBehaviour) -> None:
        """Handle requests in this way from now on."""
        self._behaviour = behaviour
        self._strikes_left = behaviour.requests

    def answer(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        """Answer a request that arrived at `now`."""
        if request.method != "POST":
            return refusal(405, "events are posted", (("allow", "POST"),))
        mode = self._mode()
        self._requests[mode.value] += 1
        match mode:
            case ServerMode.DOWN:
                return _DROPPED
            case ServerMode.HANG:
                return SimulatedAnswer(0, fault=ConnectionFault.HANG)
            case ServerMode.ERROR:
                return refusal(500, "out of order")
            case ServerMode.THROTTLE:
                return refusal(429, "too many events", (("retry-after", str(self._behaviour.retry_after)),))
            case ServerMode.REDIRECT:
                return SimulatedAnswer(302, headers=(("location", "/elsewhere"),))
        answer = self._receive(request, now)
        if mode is ServerMode.DROP_AFTER:
            return _DROPPED
        return refusal(500, "out of order") if mode is ServerMode.ERROR_AFTER else answer

    def lose_database(self) -> None:
        """Forget every product, version and event that was received, as after the loss of a disk."""
        self._products.clear()
        self._versions.clear()
        self._bodies.clear()

    def product(self, item_no: int) -> dict[str, Any] | None:
        """Return the stored productData of an item; None without one."""
        packed = self._products.get(item_no)
        return orjson.loads(zlib.decompress(packed)) if packed is not None else None

    def version(self, item_no: int) -> int:
        """Return the version of the item's last event, deleted or not; 0 without one."""
        return self._versions.get(item_no, 0)

    def catalogue(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for item_no, packed in self._products.items():
            yield item_no, orjson.loads(zlib.decompress(packed))

    def __len__(self) -> int:
        """Return how many products are stored."""
        return len(self._products)

    def events(self, after: int = 0, limit: int | None = None) -> list[AppliedEvent]:
        """Return the events applied after this sequence number, oldest first, as far as they are kept."""
        found = [event for event in self._events if event.sequence > after]
        return found[:limit]

    def compare(self, world: World, sellers: Collection[str] | None = None) -> list[Mismatch]:
        """Return the differences between the catalogue and the truth, field by field, for these sellers (None: all).

        It computes the truth of every product, some 0.1 ms each: not for a server that must answer meanwhile.
        """
        found: list[Mismatch] = []
        expected: set[int] = set()
        for seller_id in world.sellers if sellers is None else sellers:
            for item_no, truth in world.catalogue(seller_id):
                expected.add(item_no)
                held = self.product(item_no)
                if held is None:
                    found.append(Mismatch(item_no, "item", "present", "missing"))
                    continue
                found.extend(Mismatch(item_no, d.field, d.before, d.after) for d in differences(truth, held))
        for item_no in self._products.keys() - expected:
            if sellers is None or world.seller_of(item_no) in sellers:
                found.append(Mismatch(item_no, "item", "absent", "present"))
        return sorted(found, key=lambda mismatch: (mismatch.item_no, mismatch.field))

    def stats(self) -> dict[str, Any]:
        """Return counts of what was received."""
        return {
            "requests": dict(self._requests),
            "events": self._sequence,
            "events_by_type": dict(self._types),
            "duplicates": self.duplicates,
            "pings": self.pings,
            "violations": self._violation_count,
            "products": len(self._products),
            "mode": self._behaviour.mode.value,
        }

    def _mode(self) -> ServerMode:
        """Return how this request is handled."""
        behaviour = self._behaviour
        if behaviour.mode is ServerMode.WELL or self._strikes_left == 0:
            return ServerMode.WELL
        if behaviour.probability < 1 and self._rng.random() >= behaviour.probability:
            return ServerMode.WELL
        if self._strikes_left is not None:
            self._strikes_left -= 1
        return behaviour.mode

    def first_digest(self, key: str, digest: bytes) -> bytes | None:
        known = self._bodies.setdefault(key, digest)
        return None if known is digest else known

    def store(self, event: ReceivedEvent) -> None:
        self._versions[event.item_no] = event.version
        if event.removes:
            self._products.pop(event.item_no, None)
        else:
            self._products[event.item_no] = zlib.compress(orjson.dumps(event.product_data), 1)

    def _receive(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        reception = receive(self, request, self._secrets)
        for violation in reception.violations:
            self._violate(violation)
        event = reception.event
        self.duplicates += reception.is_duplicate
        self.pings += isinstance(event, ReceivedPing)
        if isinstance(event, ReceivedEvent) and reception.answer.status == 200 and not reception.is_duplicate:
            self._sequence += 1
            self._types[event.event_type] += 1
            about = (event.event_id, event.event_type, event.item_no, event.seller_id, event.version)
            self._events.append(AppliedEvent(self._sequence, *about, event.occurred_at, event.changes, now))
        return reception.answer

    def _violate(self, violation: Violation) -> None:
        self._violation_count += 1
        if len(self.violations) < _VIOLATIONS_KEPT:
            self.violations.append(violation)
