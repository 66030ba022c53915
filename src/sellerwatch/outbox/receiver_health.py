"""What an outcome says about the receiver, about one seller at it, and about the message: pure rules.

| the try failed | charged to | a try |
| --- | --- | --- |
| with a Retry-After about the whole receiver | the receiver, which rests until then | no |
| while the receiver's circuit is not closed, or sent before it closed | the receiver | no |
| while the seller's circuit is not closed | the seller | no |
| as the message's first, or with nothing accepted since its previous try | the receiver and the seller | no |
| with others' messages accepted since, none of its seller, and no try counted before | message and seller | yes |
| with something else accepted since | the message | yes |

Failures in a row open a circuit: the receiver's if nothing at all was accepted meanwhile, a seller's if only others'
were. The failure that opens a seller's circuit is no try. An event of the same product cannot be accepted between two
tries of a message, so whatever was accepted was of another product.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.outbox.seller_circuit import SellerCircuit


@dataclass(frozen=True, slots=True)
class FailedTry:
    """A try that is worth repeating. `previous_at` is when the message's previous try ended, `counted` how many failed
    tries count against it so far."""

    receipt: Receipt
    began_at: datetime
    ended_at: datetime
    previous_at: datetime | None
    counted: int


@dataclass(frozen=True, slots=True)
class FailureJudgement:
    """What a failure changes. `counts`: it is one of the message's tries."""

    channel: Channel
    circuit: SellerCircuit
    counts: bool


def judge_failure(
    channel: Channel, circuit: SellerCircuit, tried: FailedTry, rules: DeliveryRules, rng: random.Random
) -> FailureJudgement:
    """Return what a failed try changes, by the table above."""
    receipt, began_at, at = tried.receipt, tried.began_at, tried.ended_at
    if receipt.asks_for_rest:
        return FailureJudgement(channel.failed(receipt, began_at, rules, rng, at), circuit, counts=False)

    def of_seller(*, may_open: bool) -> SellerCircuit:
        return circuit.failed(receipt, began_at, may_open=may_open, rules=rules, rng=rng, at=at)

    if channel.state is not CircuitState.CLOSED:
        failed = channel.failed(receipt, began_at, rules, rng, at)
        return FailureJudgement(failed, of_seller(may_open=False), counts=False)
    if channel.was_open_at(began_at):
        return FailureJudgement(channel, circuit, counts=False)
    if circuit.state is not CircuitState.CLOSED:
        return FailureJudgement(channel.charged(at), of_seller(may_open=True), counts=False)
    previous = tried.previous_at
    accepted = previous is not None and channel.accepted_between(previous, at)
    is_new = previous is None or circuit.failing_since is None or circuit.failing_since > previous
    if accepted and (is_new or tried.counted):
        return FailureJudgement(channel.charged(at), circuit, counts=True)
    others_accepted = circuit.failing_since is not None and channel.accepted_between(circuit.failing_since, at)
    failing = of_seller(may_open=others_accepted)
    if failing.state is not CircuitState.CLOSED:
        return FailureJudgement(channel.blamed_on_seller(at), failing, counts=False)
    if accepted:
        return FailureJudgement(channel.charged(at), failing, counts=True)
    return FailureJudgement(channel.failed(receipt, began_at, rules, rng, at), failing, counts=False)
