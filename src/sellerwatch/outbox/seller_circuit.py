"""The circuit of one seller at the receiver: its messages back off together while the receiver takes those of others.

A row exists for a seller only since its last accepted message, and only if one failed since: most sellers have none.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import datetime

from sellerwatch.kernel.circuit import CIRCUIT_LIFE, CircuitState
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules


@dataclass(frozen=True)
class SellerCircuit:
    """CLOSED: the seller's messages are sent with those of the others. OPEN: none before `not_before`, then some as
    probes. HALF_OPEN: they are sent; others follow if they have no answer by `not_before`.

    `failures` counts those in a row that are no message's own fault, `failing_since` is when the first failed.
    `openings` counts failed rounds of probes since `opened_at`, for the back-off between them."""

    kind: OutboxKind
    seller_id: SellerId
    state: CircuitState = CIRCUIT_LIFE.first
    failures: int = 0
    failing_since: datetime | None = None
    openings: int = 0
    opened_at: datetime | None = None
    not_before: datetime | None = None
    reason: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether there is nothing to remember: no failure since the last accepted message."""
        return self.failing_since is None

    def can_send(self, now: datetime) -> bool:
        return self.not_before is None or self.not_before <= now

    def most(self, rules: DeliveryRules) -> int:
        """Return how many of the seller's messages one process may send at a time."""
        return rules.most_of_a_seller if self.state is CircuitState.CLOSED else rules.probes

    def send(self, rules: DeliveryRules, now: datetime) -> SellerCircuit:
        """Record that messages of the seller are sent now; where the circuit is not closed, they are probes."""
        if self.state is CircuitState.CLOSED:
            return self
        return self._move("half_open", not_before=now + rules.patience)

    def accepted(self, began_at: datetime) -> SellerCircuit:
        """Record that the receiver accepted a message that was sent at `began_at`; a late answer to what was sent
        before the circuit opened does not close it."""
        if self.state is CircuitState.CLOSED or self._is_probe(began_at):
            return SellerCircuit(self.kind, self.seller_id)
        return self

    def failed(
        self,
        receipt: Receipt,
        began_at: datetime,
        *,
        may_open: bool,
        rules: DeliveryRules,
        rng: random.Random,
        at: datetime,
    ) -> SellerCircuit:
        """Record a failure that is not a message's own fault. `may_open`: the receiver is there and has accepted others
        since this seller began to fail, so that enough failures in a row are about the seller. The first failure of a
        round of probes opens the circuit again; the others of the round change nothing."""
        if self.state is CircuitState.CLOSED:
            failing = replace(self, failures=self.failures + 1, failing_since=self.failing_since or at)
            return (
                failing._open(receipt, rules, rng, at) if may_open and failing.failures >= rules.failures else failing
            )
        is_first = self.state is CircuitState.HALF_OPEN and self._is_probe(began_at)
        return self._open(receipt, rules, rng, at) if is_first else self

    def interrupted(self, began_at: datetime, now: datetime) -> SellerCircuit:
        """Record that this process stopped before the answer. After a probe the next may be sent at once."""
        if self.state is CircuitState.HALF_OPEN and self._is_probe(began_at):
            return self._move("open", not_before=now)
        return self

    def resume(self, now: datetime) -> SellerCircuit:
        """Let probes be sent at once."""
        if self.state is CircuitState.CLOSED:
            return self
        return replace(self, not_before=now, opened_at=min(self.opened_at or now, now))

    def after_outage(self) -> SellerCircuit:
        """Forget the failures in a row: they were the receiver's. When they began is kept."""
        return replace(self, failures=0) if self.state is CircuitState.CLOSED else self

    def notices(self, before: SellerCircuit) -> tuple[Notice, ...]:
        """Return the alerts for a change from `before`."""
        if self.openings and not before.openings:
            facts = {"seller": self.seller_id, "reason": self.reason or ""}
            return (Notice("receiver.seller_down", self.seller_id, facts, variant=self.kind),)
        if before.openings and not self.openings:
            return (Notice("receiver.seller_up", self.seller_id, {"seller": self.seller_id}, variant=self.kind),)
        return ()

    def _open(self, receipt: Receipt, rules: DeliveryRules, rng: random.Random, at: datetime) -> SellerCircuit:
        openings = self.openings + 1
        not_before = at + rules.opened.wait(openings, rng)
        since = {"opened_at": self.opened_at or at, "reason": receipt.problem}
        return self._move("open", openings=openings, not_before=not_before, **since)

    def _is_probe(self, began_at: datetime) -> bool:
        return self.opened_at is not None and began_at >= self.opened_at

    def _move(self, verb: str, **changed: object) -> SellerCircuit:
        state = CIRCUIT_LIFE.after(self.state, verb, f"of {self.seller_id}")
        return replace(self, state=state, **changed)  # type: ignore[arg-type]
