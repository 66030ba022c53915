"""The channel: the way from an outbox to its receiver, one row that all processes go by.

It knows four things: whether a person paused it, whether the receiver takes anything (its circuit), how many may be
under way while a receiver that was down comes back (its ramp), and when the next may leave (its rate). A try that fails
while the circuit is open is not the message's fault and costs it nothing.

Times are the wall's: a clock set back makes an open circuit stay open for as much longer, until `outbox resume`.
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

#: With these a receiver that says Retry-After speaks of itself, not of one message.
_ASK_FOR_REST = frozenset({429, 503})
#: What a receiver asked for is stretched by up to this share, lest everybody come back in the same second.
STRETCH = 0.1
#: How much of a second's messages may leave in one go: a turn of delivery is not shorter.
BURST = 0.1

RECEIVERS = {OutboxKind.PRODUCT: "product server", OutboxKind.SCHEDULER: "scheduler"}


@dataclass(eq=False)
class OutboxPaused(Conflict):
    """It is paused already."""

    outbox: str
    by: str


@dataclass(eq=False)
class NothingToResume(Conflict):
    """Neither paused nor stopped by its circuit."""

    outbox: str


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many may leave now. `look_at`: when to ask again, if it was fewer than wanted; None: when one has landed."""

    slots: int
    look_at: datetime | None = None


@dataclass(frozen=True)
class Channel:
    """CLOSED: messages flow. OPEN: none until `not_before`, then one goes as a probe. HALF_OPEN: it is under way; no
    answer by `not_before`, and another may go.

    `openings` counts failed probes since it last flowed, for the back-off between them; `opened_at` is when that began.
    `most` is the ramp: as many as that may be under way, one more with every success, half as many after a failure;
    None when it is over.
    """

    kind: OutboxKind
    state: CircuitState = CIRCUIT_LIFE.first
    failures: int = 0
    openings: int = 0
    most: int | None = None
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
        """Nothing more leaves; what is under way finishes."""
        if self.is_paused:
            raise OutboxPaused(outbox=self.kind, by=self.paused_by or "")
        return replace(self, paused_at=now, paused_by=by)

    def resume(self, now: datetime) -> Channel:
        """Messages leave again. An open circuit is not believed any longer, but found out about with one message."""
        if not self.is_paused and self.state is not CircuitState.OPEN:
            raise NothingToResume(outbox=self.kind)
        not_before = now if self.state is CircuitState.OPEN else self.not_before
        return replace(self, paused_at=None, paused_by=None, not_before=not_before)

    def allow(self, wanted: int, under_way: Callable[[], int], rules: DeliveryRules, now: datetime) -> Allowance:
        """How many of `wanted` may leave. `under_way` counts those of all processes, and is asked only on a ramp."""
        if self.is_paused:
            return Allowance(0, now + timedelta(seconds=rules.interval))
        if self.state is not CircuitState.CLOSED:
            held = self.not_before is not None and self.not_before > now
            return Allowance(0, self.not_before) if held else Allowance(min(wanted, 1), now + rules.patience)
        slots = wanted
        if self.most is not None:
            slots = max(0, min(slots, self.most - under_way()))
        if rules.per_second is not None:
            gap, first = self._rate(rules.per_second, now)
            free = max(0, (now - first) // gap + 1)
            if free < slots:
                return Allowance(free, first + free * gap)
        return Allowance(slots, now + timedelta(seconds=rules.interval) if slots < wanted else None)

    def send(self, outbox_ids: tuple[OutboxId, ...], rules: DeliveryRules, now: datetime) -> Channel:
        """These leave now: the first of them is the probe of a circuit that is not closed."""
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
        """The receiver took a message, or refused it: it is there. A late answer to what left before the circuit opened
        does not close it: only the probe does."""
        if self._is_probe(outbox_id):
            ended = {"probe_id": None, "not_before": None, "opened_at": None, "reason": None}
            closed = self._move("close", failures=0, openings=0, most=1, closed_at=now, **ended)
            return closed.answered(outbox_id, rules, now)
        if self.state is not CircuitState.CLOSED:
            return self
        most = None if self.most is None or self.most + 1 >= rules.concurrency else self.most + 1
        return self if (self.failures, self.most) == (0, most) else replace(self, failures=0, most=most)

    def failed(
        self, outbox_id: OutboxId, receipt: Receipt, rules: DeliveryRules, rng: random.Random, now: datetime
    ) -> tuple[Channel, bool]:
        """A try that is worth repeating, and whether it counts as one of its message.

        It does while messages flow, unless the receiver asks for a rest. What fails while the circuit is open costs its
        message nothing, and neither does a probe, or the oldest message would pay for a whole outage.
        """
        asked = receipt.wait if receipt.status in _ASK_FOR_REST else None
        rest = None if asked is None else now + asked * (1 + STRETCH * rng.random())
        if self.state is CircuitState.CLOSED and rest is None:
            most = None if self.most is None else max(1, self.most // 2)
            failing = replace(self, failures=self.failures + 1, most=most)
            down = failing.failures >= rules.failures
            return failing._open(None, receipt, rules, rng, now) if down else failing, True
        if self.state is CircuitState.CLOSED or self._is_probe(outbox_id):
            return self._open(rest, receipt, rules, rng, now), False
        if self.state is CircuitState.OPEN and rest is not None:
            return replace(self, not_before=max(self.not_before or rest, rest)), False
        return self, False

    def miss(self, outbox_id: OutboxId, now: datetime) -> Channel:
        """We stopped before there was an answer. If that was the probe, the next may go at once."""
        if self._is_probe(outbox_id):
            return self._move("open", probe_id=None, not_before=now)
        return self

    def notices(self, before: Channel) -> tuple[Notice, ...]:
        """What a person should hear of, having seen it `before`. A receiver that only asks for a rest is no news."""
        receiver = RECEIVERS[self.kind]
        if self.openings and not before.openings:
            text = (
                f"The {receiver} takes nothing any more ({self.reason}): sending stops, and one message finds out when"
            )
            return (Notice("receiver.down", self.kind, f"{text} to go on. `sellerwatch outbox status` shows it."),)
        if before.openings and not self.openings:
            return (Notice("receiver.up", self.kind, f"The {receiver} takes messages again."),)
        return ()

    def _open(
        self, rest: datetime | None, receipt: Receipt, rules: DeliveryRules, rng: random.Random, now: datetime
    ) -> Channel:
        """Until the time it asked for, which is no failed probe; else for as long as the back-off says."""
        openings = self.openings if rest is not None else self.openings + 1
        not_before = rest if rest is not None else now + rules.opened.wait(openings, rng)
        since = {"opened_at": self.opened_at or now, "reason": receipt.problem}
        return self._move("open", openings=openings, not_before=not_before, probe_id=None, most=None, **since)

    def _is_probe(self, outbox_id: OutboxId) -> bool:
        return self.state is CircuitState.HALF_OPEN and self.probe_id == outbox_id

    def _rate(self, per_second: float, now: datetime) -> tuple[timedelta, datetime]:
        """The time between two departures, and when the next is: unused time is not saved up, but for one burst."""
        gap = timedelta(seconds=1 / per_second)
        earliest = now - (max(1, int(per_second * BURST)) - 1) * gap
        return gap, max(self.next_send_at or earliest, earliest)

    def _move(self, verb: str, **changed: object) -> Channel:
        state = CIRCUIT_LIFE.after(self.state, verb, f"of the {RECEIVERS[self.kind]}")
        return replace(self, state=state, **changed)  # type: ignore[arg-type]
