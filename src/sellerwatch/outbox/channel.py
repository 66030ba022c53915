"""The channel: whether an outbox may send to its receiver, and how fast; one row that all processes share.

It holds five things: whether an operator paused it; the circuit of the receiver; when the receiver last accepted a
message, by which a failure is charged to its message or not (`receiver_health.py`); how many messages may be sending
while a receiver comes back after an outage (its send limit grows with each success); and when the next may be sent (the
rate).

Times are wall-clock times: after the clock is set back an open circuit stays open for longer, until `outbox resume`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.kernel.circuit import CIRCUIT_LIFE, CircuitState
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules

#: How often messages of sellers that were not tried yet are sent as probes while the circuit is open: the failures of
#: other sellers delay theirs by no more than this and one request.
NEW_SELLERS_EVERY = timedelta(seconds=2)
#: How exactly the time of the last accepted message is kept while nothing fails: the row is then seldom written.
ACCEPTED_EVERY = timedelta(seconds=1)
#: A Retry-After is lengthened by up to this share at random, so that senders do not return in the same second.
JITTER = 0.1
#: The share of a second's messages that may be sent at once: transactions of delivery are not more frequent.
BURST = 0.1

RECEIVERS = {OutboxKind.PRODUCT: "product server", OutboxKind.SCHEDULER: "scheduler"}


@dataclass(eq=False)
class OutboxPaused(Conflict):
    """The outbox is paused already."""

    outbox: str
    by: str


@dataclass(eq=False)
class NothingToResume(Conflict):
    """The outbox is neither paused nor stopped by a circuit."""

    outbox: str


@dataclass(frozen=True, slots=True)
class SendAllowance:
    """How many messages may be sent now. `check_at` is when to ask again if that is fewer than wanted; None means after
    the next outcome. With `new_sellers_only` they must be of sellers without a failure since the circuit opened."""

    slots: int
    check_at: datetime | None = None
    new_sellers_only: bool = False


@dataclass(frozen=True)
class Channel:
    """CLOSED: messages are sent. OPEN: none before `not_before`, then some as probes; messages of sellers that were not
    tried since it opened are probes too, and wait for less. HALF_OPEN: probes are sent; others follow if they have no
    answer by `not_before`. What was sent after `opened_at` is a probe.

    `failures` counts failures in a row that are no message's own fault. `openings` counts failed probes since the
    circuit was last closed, for the back-off between them; `opened_at` is when that began. Until `rest_until` nothing
    at all is sent: the receiver asked for it. `send_limit` is how many may be SENDING after an outage: one more with
    every success, half as many after a failure; None when there is no limit any more.

    `accepted_at` is when the receiver last accepted a message; at most `ACCEPTED_EVERY` too early, but never earlier
    than the first success after `failed_at`, the last failure.
    """

    kind: OutboxKind
    state: CircuitState = CIRCUIT_LIFE.first
    failures: int = 0
    openings: int = 0
    send_limit: int | None = None
    opened_at: datetime | None = None
    closed_at: datetime | None = None
    not_before: datetime | None = None
    probed_at: datetime | None = None
    rest_until: datetime | None = None
    accepted_at: datetime | None = None
    failed_at: datetime | None = None
    reason: str | None = None
    next_send_at: datetime | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None

    def pause(self, by: str, now: datetime) -> Channel:
        """Stop sending; attempts already sent finish."""
        if self.is_paused:
            raise OutboxPaused(outbox=self.kind, by=self.paused_by or "")
        return replace(self, paused_at=now, paused_by=by)

    def resume(self, now: datetime) -> Channel:
        """Send again. Where the circuit is open, probes may be sent at once."""
        if not self.is_paused and self.state is not CircuitState.OPEN:
            raise NothingToResume(outbox=self.kind)
        resumed = replace(self, paused_at=None, paused_by=None)
        if self.state is not CircuitState.OPEN:
            return resumed
        # After the clock was set back, probes would else seem to be sent before the circuit opened.
        opened_at = min(self.opened_at or now, now)
        return replace(resumed, not_before=now, rest_until=None, opened_at=opened_at)

    def allow(
        self, wanted: int, count_sending: Callable[[], int], rules: DeliveryRules, now: datetime
    ) -> SendAllowance:
        """Return how many of `wanted` may be sent. `count_sending` counts over all processes; called only while there
        is a send limit."""
        if self.is_paused:
            return SendAllowance(0, now + timedelta(seconds=rules.interval))
        if self.rest_until is not None and self.rest_until > now:
            return SendAllowance(0, self.rest_until)
        if self.state is not CircuitState.CLOSED:
            return self._with_rate(self._allow_probes(wanted, rules, now), rules, now)
        slots = wanted
        if self.send_limit is not None:
            slots = max(0, min(slots, self.send_limit - count_sending()))
        check_at = now + timedelta(seconds=rules.interval) if slots < wanted else None
        return self._with_rate(SendAllowance(slots, check_at), rules, now)

    def send(self, number: int, rules: DeliveryRules, now: datetime) -> Channel:
        """Record that so many are sent now; where the circuit is not closed, they are probes."""
        if not number:
            return self
        sent = self._spend_rate(number, rules, now)
        if self.state is CircuitState.CLOSED:
            return sent
        return sent._move("half_open", probed_at=now, not_before=now + rules.patience)

    def repeated(self, rules: DeliveryRules, now: datetime) -> Channel:
        """Record that a request was made once more at once: it takes the place of another in the rate."""
        return self._spend_rate(1, rules, now)

    def answered(self, is_accepted: bool, began_at: datetime, rules: DeliveryRules, at: datetime) -> Channel:
        """Record that the receiver accepted or refused a message that was sent at `began_at`. Only a probe's answer
        closes the circuit, not a late one to what was sent before it opened, and none while the receiver rests."""
        noted = self._accepted(at) if is_accepted else self
        if self._is_probe(began_at) and not (self.rest_until is not None and self.rest_until > at):
            ended = {"probed_at": None, "not_before": None, "opened_at": None, "rest_until": None, "reason": None}
            closed = noted._move("close", failures=0, openings=0, send_limit=1, closed_at=at, **ended)
            return closed._grown(rules)
        return noted._grown(rules) if self.state is CircuitState.CLOSED else noted

    def charged(self, at: datetime) -> Channel:
        """Record a failure that is charged to its message."""
        return replace(self, failed_at=at)

    def blamed_on_seller(self, at: datetime) -> Channel:
        """Record that one seller's circuit opened: the failures in a row were its."""
        return replace(self, failures=0, failed_at=at)

    def failed(
        self, receipt: Receipt, began_at: datetime, rules: DeliveryRules, rng: random.Random, at: datetime
    ) -> Channel:
        """Record a failure that is no message's fault. In a row, with nothing accepted meanwhile, they open the
        circuit. The first failure of a round of probes opens it again; the others of the round change nothing."""
        noted = replace(self, failed_at=at)
        if receipt.asks_for_rest:
            return noted._rest(at + (receipt.wait or timedelta(0)) * (1 + JITTER * rng.random()), receipt, at)
        if self.state is not CircuitState.CLOSED:
            is_first = self.state is CircuitState.HALF_OPEN and self._is_probe(began_at)
            return noted._open(receipt, rules, rng, at) if is_first else noted
        limit = None if self.send_limit is None else max(1, self.send_limit // 2)
        if self.accepted_between(began_at, at):
            return replace(noted, send_limit=limit)
        failing = replace(noted, failures=self.failures + 1, send_limit=limit)
        return failing._open(receipt, rules, rng, at) if failing.failures >= rules.failures else failing

    def interrupted(self, began_at: datetime, now: datetime) -> Channel:
        """Record that this process stopped before the answer. After a probe the next may be sent at once."""
        if self.state is CircuitState.HALF_OPEN and self._is_probe(began_at):
            return self._move("open", not_before=now)
        return self

    def accepted_between(self, since: datetime, now: datetime) -> bool:
        """Return whether the receiver accepted a message after `since`. A time that is still to come was noted before
        the clock was set back and proves nothing."""
        return self.accepted_at is not None and since < self.accepted_at <= now

    def was_open_at(self, began_at: datetime) -> bool:
        """Return whether what was sent then says nothing about its message: the circuit is or was not closed."""
        return self.state is not CircuitState.CLOSED or (self.closed_at is not None and began_at < self.closed_at)

    def notices(self, before: Channel) -> tuple[Notice, ...]:
        """Return the alerts for a change from `before`. A Retry-After alone is none."""
        if self.openings and not before.openings:
            return (Notice("receiver.down", self.kind, {"reason": self.reason or ""}, variant=self.kind),)
        if before.openings and not self.openings:
            return (Notice("receiver.up", self.kind, variant=self.kind),)
        return ()

    def _allow_probes(self, wanted: int, rules: DeliveryRules, now: datetime) -> SendAllowance:
        slots, not_before = min(wanted, rules.probes), self.not_before or now
        if not_before <= now:
            return SendAllowance(slots, now + rules.patience)
        new_at = now if self.probed_at is None else self.probed_at + NEW_SELLERS_EVERY
        if new_at <= now or new_at > now + NEW_SELLERS_EVERY:
            return SendAllowance(slots, not_before, new_sellers_only=True)
        return SendAllowance(0, min(not_before, new_at))

    def _with_rate(self, allowed: SendAllowance, rules: DeliveryRules, now: datetime) -> SendAllowance:
        if rules.per_second is None:
            return allowed
        gap, first = self._rate(rules.per_second, now)
        free = max(0, (now - first) // gap + 1)
        return replace(allowed, slots=free, check_at=first + free * gap) if free < allowed.slots else allowed

    def _spend_rate(self, number: int, rules: DeliveryRules, now: datetime) -> Channel:
        if rules.per_second is None:
            return self
        gap, first = self._rate(rules.per_second, now)
        return replace(self, next_send_at=first + number * gap)

    def _accepted(self, at: datetime) -> Channel:
        known, failed = self.accepted_at, self.failed_at
        is_known = known is not None and (failed is None or failed < known) and timedelta(0) <= at - known
        return self if is_known and known is not None and at - known < ACCEPTED_EVERY else replace(self, accepted_at=at)

    def _grown(self, rules: DeliveryRules) -> Channel:
        """After a success: no failures in a row, and one more may be sending."""
        limit = None if self.send_limit is None or self.send_limit + 1 >= rules.concurrency else self.send_limit + 1
        return self if (self.failures, self.send_limit) == (0, limit) else replace(self, failures=0, send_limit=limit)

    def _open(self, receipt: Receipt, rules: DeliveryRules, rng: random.Random, at: datetime) -> Channel:
        openings = self.openings + 1
        not_before = at + rules.opened.wait(openings, rng)
        since = {"opened_at": self.opened_at or at, "reason": receipt.problem}
        return self._move("open", openings=openings, not_before=not_before, send_limit=None, **since)

    def _rest(self, until: datetime, receipt: Receipt, at: datetime) -> Channel:
        """Open until then, which is no failed probe. A shorter rest than one that was asked for before shortens
        nothing."""
        until = max(until, self.rest_until or until)
        if self.state is CircuitState.OPEN:
            return replace(self, rest_until=until, not_before=max(until, self.not_before or until))
        since = {"opened_at": self.opened_at or at, "reason": receipt.problem}
        return self._move("open", rest_until=until, not_before=until, send_limit=None, **since)

    def _is_probe(self, began_at: datetime) -> bool:
        is_open = self.state is not CircuitState.CLOSED
        return is_open and self.opened_at is not None and began_at >= self.opened_at

    def _rate(self, per_second: float, now: datetime) -> tuple[timedelta, datetime]:
        """Return the time between two messages, and when the next may be sent: unused time is kept for one burst
        only."""
        gap = timedelta(seconds=1 / per_second)
        earliest = now - (max(1, int(per_second * BURST)) - 1) * gap
        return gap, max(self.next_send_at or earliest, earliest)

    def _move(self, verb: str, **changed: object) -> Channel:
        state = CIRCUIT_LIFE.after(self.state, verb, f"of the {RECEIVERS[self.kind]}")
        return replace(self, state=state, **changed)  # type: ignore[arg-type]
