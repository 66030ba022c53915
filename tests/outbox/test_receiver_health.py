"""To whom a failed try is charged: each row of the table in decision 0020."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from tests.builders import HOUR, MINUTE, NOW, SECOND, SELLER, rng

from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.receiver_health import FailedTry, FailureJudgement, judge_failure
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.outbox.seller_circuit import SellerCircuit

CLOSED, OPEN = CircuitState.CLOSED, CircuitState.OPEN
RULES = DeliveryRules(failures=3, opened=Backoff(30, 300, jitter=0))
BROKEN = Receipt.of_answer(500, b"a bug of theirs")
FLOWING, NEW = Channel(OutboxKind.PRODUCT), SellerCircuit(OutboxKind.PRODUCT, SELLER)


def judge(
    channel: Channel = FLOWING,
    circuit: SellerCircuit = NEW,
    *,
    previous_at: datetime | None = None,
    counted: int = 0,
    receipt: Receipt = BROKEN,
    began_at: datetime = NOW - SECOND,
) -> FailureJudgement:
    return judge_failure(channel, circuit, FailedTry(receipt, began_at, NOW, previous_at, counted), RULES, rng())


def accepting(at: datetime) -> Channel:
    """The receiver accepted something then, and nothing since."""
    return replace(FLOWING, accepted_at=at)


def failing_since(at: datetime, failures: int = 1) -> SellerCircuit:
    return replace(NEW, failures=failures, failing_since=at)


def test_a_first_try_costs_nothing_and_is_a_failure_in_a_row_of_receiver_and_seller() -> None:
    judged = judge(accepting(NOW - MINUTE))
    assert (judged.counts, judged.channel.failures, judged.circuit.failures) == (False, 1, 1)


def test_a_try_with_nothing_accepted_since_the_one_before_costs_nothing() -> None:
    judged = judge(accepting(NOW - HOUR), failing_since(NOW - MINUTE), previous_at=NOW - MINUTE)
    assert (judged.counts, judged.channel.failures, judged.circuit.failures) == (False, 1, 2)


def test_a_try_with_another_product_of_its_seller_accepted_since_is_the_events_own_fault() -> None:
    judged = judge(accepting(NOW - SECOND), NEW, previous_at=NOW - MINUTE)
    assert (judged.counts, judged.channel.failures, judged.circuit) == (True, 0, NEW)


def test_with_only_other_sellers_accepted_since_it_is_the_events_and_speaks_against_its_seller_once() -> None:
    circuit = failing_since(NOW - MINUTE)
    first = judge(accepting(NOW - SECOND), circuit, previous_at=NOW - MINUTE)
    assert (first.counts, first.channel.failures, first.circuit.failures) == (True, 0, 2)
    second = judge(accepting(NOW - SECOND), circuit, previous_at=NOW - MINUTE, counted=1)
    assert (second.counts, second.circuit) == (True, circuit)


def test_a_seller_that_fails_in_a_row_beside_others_is_refused_as_a_whole_and_no_try_is_spent() -> None:
    circuit = failing_since(NOW - MINUTE, RULES.failures - 1)
    for previous_at in (None, NOW - MINUTE):
        judged = judge(accepting(NOW - SECOND), circuit, previous_at=previous_at)
        assert (judged.counts, judged.circuit.state, judged.channel.state) == (False, OPEN, CLOSED)
        assert judged.circuit.not_before == NOW + 30 * SECOND
    after = judge(accepting(NOW - SECOND), judged.circuit, previous_at=NOW - HOUR, counted=4)
    assert (after.counts, after.circuit) == (False, judged.circuit)


def test_a_seller_that_fails_in_a_row_beside_nobody_tells_of_the_receiver() -> None:
    circuit = failing_since(NOW - MINUTE, RULES.failures - 1)
    judged = judge(replace(FLOWING, failures=RULES.failures - 1), circuit)
    assert (judged.counts, judged.circuit.state, judged.channel.state) == (False, CLOSED, OPEN)


def test_nothing_counts_while_the_receiver_is_down_nor_what_was_sent_before_it_was_back() -> None:
    down = replace(accepting(NOW - SECOND), state=OPEN, opened_at=NOW - HOUR, not_before=NOW + MINUTE, reason="x")
    back = replace(accepting(NOW - SECOND), closed_at=NOW - SECOND / 2)
    for channel in (down, back):
        assert not judge(channel, previous_at=NOW - MINUTE, counted=3).counts
    assert judge(back, previous_at=NOW - MINUTE, began_at=NOW).counts


@pytest.mark.parametrize("status", [429, 503])
def test_a_rest_that_the_receiver_asks_for_is_nobodys_fault(status: int) -> None:
    judged = judge(accepting(NOW - SECOND), previous_at=NOW - MINUTE, receipt=Receipt.of_answer(status, b"", HOUR))
    assert (judged.counts, judged.channel.state, judged.circuit) == (False, OPEN, NEW)


def test_after_an_outage_a_seller_starts_at_nought_but_its_old_failures_still_prove_nothing() -> None:
    """Its tries in the outage were no fault of its events: only what its seller had accepted since would tell."""
    circuit = failing_since(NOW - HOUR, failures=50).after_outage()
    judged = judge(accepting(NOW - SECOND), circuit, previous_at=NOW - MINUTE)
    assert (judged.counts, judged.circuit.failures, judged.circuit.state) == (True, 1, CLOSED)


def test_people_hear_of_a_refused_seller_and_when_it_is_accepted_again() -> None:
    refused = judge(accepting(NOW - SECOND), failing_since(NOW - MINUTE, RULES.failures - 1)).circuit
    (notice,) = refused.notices(NEW)
    assert (notice.kind, notice.subject) == ("receiver.seller_down", SELLER)
    assert f"accepts no events of seller {SELLER}" in notice.text()
    (back,) = refused.accepted(NOW + MINUTE).notices(refused)
    assert back.kind == "receiver.seller_up"
