"""The channel: whether an outbox may send to its receiver, and how fast; one row that all processes share.

It holds four things: whether an operator paused it; the circuit of the receiver; how many messages may be sending while
a receiver comes back after an outage (its send limit grows with each success); and when the next may be sent (the
rate). An attempt that fails while the circuit is open does not count as one of its message.

Times are wall-clock times: after the clock is set back an open circuit stays open for longer, until `outbox resume`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.kernel.circuit import CIRCUIT_LIFE, CircuitState
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules

#: With these statuses a Retry-After is about the whole receiver, not about one message.
_WHOLE_RECEIVER = frozenset({429, 503})
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
    """The outbox is neither paused nor stopped by its circuit."""

    outbox: str


@dataclass(frozen=True, slots=True)
class SendAllowance:
    """How many messages may be sent now. `check_at` is when to ask again if that is fewer than wanted; None means after
    the next outcome."""

    slots: int
    check_at: datetime | None = None


@dataclass(frozen=True)
class Channel:
    """CLOSED: messages are sent. OPEN: none before `not_before`, then one as a probe. HALF_OPEN: the probe is sent;
    another may be sent if it has no answer by `not_before`.

    `openings` counts failed probes since the circuit was last closed, for the back-off between them; `opened_at` is
    when that began. `send_limit` is how many may be SENDING after an outage: one more with every success, half as many
    after a failure; None when there is no limit any more."""

    kind: OutboxKind
    state: CircuitState = CIRCUIT_LIFE.first
    failures: int = 0
    openings: int = 0
    send_limit: int | None = None
    opened_at: datetime | None = None
    closed_at: datetime | None = None
    not_before: datetime | None = None
    probe_id: OutboxId | None = None
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
        """Send again. Where the circuit is open, a probe may be sent at once."""
        if not self.is_paused and self.state is not CircuitState.OPEN:
            raise NothingToResume(outbox=self.kind)
        not_before = now if self.state is CircuitState.OPEN else self.not_before
        return replace(self, paused_at=None, paused_by=None, not_before=not_before)

    def allow(
        self, wanted: int, count_sending: Callable[[], int], rules: DeliveryRules, now: datetime
    ) -> SendAllowance:
        """Return how many of `wanted` may be sent. `count_sending` counts over all processes; called only while there
        is a send limit."""
        if self.is_paused:
            return SendAllowance(0, now + timedelta(seconds=rules.interval))
        if self.state is not CircuitState.CLOSED:
            held = self.not_before is not None and self.not_before > now
            return SendAllowance(0, self.not_before) if held else SendAllowance(min(wanted, 1), now + rules.patience)
        slots = wanted
        if self.send_limit is not None:
            slots = max(0, min(slots, self.send_limit - count_sending()))
        if rules.per_second is not None:
            gap, first = self._rate(rules.per_second, now)
            free = max(0, (now - first) // gap + 1)
            if free < slots:
                return SendAllowance(free, first + free * gap)
        return SendAllowance(slots, now + timedelta(seconds=rules.interval) if slots < wanted else None)

    def send(self, outbox_ids: tuple[OutboxId, ...], rules: DeliveryRules, now: datetime) -> Channel:
        """Record that these are sent now; where the circuit is not closed, the first is the probe."""
        if not outbox_ids:
            return self
        sent = self
        if rules.per_second is not None:
            gap, first = self._rate(rules.per_second, now)
            sent = replace(sent, next_send_at=first + len(outbox_ids) * gap)
        if self.state is CircuitState.CLOSED:
            return sent
        return sent._move("half_open", probe_id=outbox_ids[0], not_before=now + rules.patience)

    def answered(self, outbox_id: OutboxId, rules: DeliveryRules, now: datetime) -> Channel:
        """Record that the receiver took or refused a message. Only the probe's answer closes the circuit, not a late
        one to what was sent before it opened."""
        if self._is_probe(outbox_id):
            ended = {"probe_id": None, "not_before": None, "opened_at": None, "reason": None}
            closed = self._move("close", failures=0, openings=0, send_limit=1, closed_at=now, **ended)
            return closed.answered(outbox_id, rules, now)
        if self.state is not CircuitState.CLOSED:
            return self
        limit = None if self.send_limit is None or self.send_limit + 1 >= rules.concurrency else self.send_limit + 1
        return self if (self.failures, self.send_limit) == (0, limit) else replace(self, failures=0, send_limit=limit)

    def failed(
        self, outbox_id: OutboxId, receipt: Receipt, rules: DeliveryRules, rng: random.Random, now: datetime
    ) -> tuple[Channel, bool]:
        """Record a failed attempt that is worth repeating, and return whether it counts as one of its message.

        It counts while the circuit is closed, unless the receiver sent Retry-After. Neither a probe nor what fails
        while the circuit is open counts: the oldest message would use up its attempts in one outage."""
        asked = receipt.wait if receipt.status in _WHOLE_RECEIVER else None
        retry_at = None if asked is None else now + asked * (1 + JITTER * rng.random())
        if self.state is CircuitState.CLOSED and retry_at is None:
            limit = None if self.send_limit is None else max(1, self.send_limit // 2)
            failing = replace(self, failures=self.failures + 1, send_limit=limit)
            down = failing.failures >= rules.failures
            return failing._open(None, receipt, rules, rng, now) if down else failing, True
        if self.state is CircuitState.CLOSED or self._is_probe(outbox_id):
            return self._open(retry_at, receipt, rules, rng, now), False
        if self.state is CircuitState.OPEN and retry_at is not None:
            return replace(self, not_before=max(self.not_before or retry_at, retry_at)), False
        return self, False

    def interrupted(self, outbox_id: OutboxId, now: datetime) -> Channel:
        """Record that this process stopped before the answer. After a probe the next may be sent at once."""
        if self._is_probe(outbox_id):
            return self._move("open", probe_id=None, not_before=now)
        return self

    def notices(self, before: Channel) -> tuple[Notice, ...]:
        """Return the alerts for a change from `before`. A Retry-After alone is none."""
        if self.openings and not before.openings:
            return (Notice("receiver.down", self.kind, {"reason": self.reason or ""}, variant=self.kind),)
        if before.openings and not self.openings:
            return (Notice("receiver.up", self.kind, variant=self.kind),)
        return ()

    def _open(
        self, retry_at: datetime | None, receipt: Receipt, rules: DeliveryRules, rng: random.Random, now: datetime
    ) -> Channel:
        """Open until `retry_at`, which is no failed probe; without it for as long as the back-off says."""
        openings = self.openings if retry_at is not None else self.openings + 1
        not_before = retry_at if retry_at is not None else now + rules.opened.wait(openings, rng)
        since = {"opened_at": self.opened_at or now, "reason": receipt.problem}
        return self._move("open", openings=openings, not_before=not_before, probe_id=None, send_limit=None, **since)

    def _is_probe(self, outbox_id: OutboxId) -> bool:
        return self.state is CircuitState.HALF_OPEN and self.probe_id == outbox_id

    def _rate(self, per_second: float, now: datetime) -> tuple[timedelta, datetime]:
        """Return the time between two messages, and when the next may be sent: unused time is kept for one burst
        only."""
        gap = timedelta(seconds=1 / per_second)
        earliest = now - (max(1, int(per_second * BURST)) - 1) * gap
        return gap, max(self.next_send_at or earliest, earliest)

    def _move(self, verb: str, **changed: object) -> Channel:
        state = CIRCUIT_LIFE.after(self.state, verb, f"of the {RECEIVERS[self.kind]}")
        return replace(self, state=state, **changed)  # type: ignore[arg-type]
