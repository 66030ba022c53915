"""An outbox as an operator looks at it: choices, numbers, lag; the channel's row, and every try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.builders import HOUR, NOW, SECOND, SELLER, a_message, outbox_id, product_id, schedule_id, worker_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId, SellerId
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter, OutboxCounts
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict
from sellerwatch.outbox.seller_circuit import SellerCircuit


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Do = Callable[[Callable[[Transaction], Any]], Any]

FAILED, WAITING, COMPLETED = MessageStatus.FAILED, MessageStatus.WAITING, MessageStatus.COMPLETED
OTHER = SellerId("다른 가게")
PRODUCT = OutboxKind.PRODUCT


@pytest.fixture
def do(engine: Engine) -> Do:
    def run(work: Callable[[Transaction], Any]) -> Any:
        with engine.connect() as connection, connection.begin():
            return work(Transaction(connection))

    return run


@pytest.fixture
def filled(do: Do) -> Do:
    """Two failed events of one seller with one behind each, one of another seller, one waiting, one delivered."""
    made = [
        a_message(1, status=FAILED, next_attempt_at=None, created_at=NOW - 3 * HOUR),
        a_message(2, event_type="PRODUCT_UPDATED", created_at=NOW - 2 * HOUR),
        a_message(3, subject_id=product_id(2), status=FAILED, next_attempt_at=None, created_at=NOW - HOUR),
        a_message(4, subject_id=product_id(2), event_type="PRODUCT_DELETED"),
        a_message(5, subject_id=product_id(3), seller_id=OTHER, event_type="PRODUCT_UPDATED", status=FAILED),
        a_message(6, subject_id=product_id(4), created_at=NOW - HOUR),
        a_message(7, subject_id=product_id(5), status=COMPLETED),
    ]

    def work(tx: Transaction) -> None:
        for message in made:
            tx.product_outbox.add(message)

    do(work)
    return do


def chosen(do: Do, choice: MessageFilter) -> list[int]:
    found: list[OutboxId] = do(lambda tx: tx.outbox_queries(PRODUCT).ids(choice, 100))
    return [int(outbox_id[-12:], 16) for outbox_id in found]


@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        (MessageFilter(), [1, 2, 3, 4, 5, 6, 7]),
        (MessageFilter(status=FAILED), [1, 3, 5]),
        (MessageFilter(status=FAILED, seller_id=SELLER), [1, 3]),
        (MessageFilter(event_type="PRODUCT_UPDATED"), [2, 5]),
        (MessageFilter(status=FAILED, since=NOW - 2 * HOUR), [3, 5]),
        (MessageFilter(since=NOW - HOUR, until=NOW), [3, 6]),
        (MessageFilter(seller_id=SellerId("nobody")), []),
    ],
)
def test_a_choice_is_narrowed_by_what_is_given(filled: Do, choice: MessageFilter, numbers: list[int]) -> None:
    assert chosen(filled, choice) == numbers
    newest = filled(lambda tx: tx.outbox_queries(PRODUCT).page(choice, None, 100).content)
    assert sorted(m.outbox_id for m in newest) == [outbox_id(n) for n in numbers]


def test_a_choice_in_numbers(filled: Do) -> None:
    found = filled(lambda tx: tx.outbox_queries(PRODUCT).count(MessageFilter(status=FAILED)))
    assert vars(found) == {
        "messages": 3,
        "subjects": 3,
        "held": 2,
        "by_type": {"PRODUCT_CREATED": 2, "PRODUCT_UPDATED": 1},
        "by_seller": {SELLER: 2, OTHER: 1},
    }


def test_the_lag_is_that_of_the_oldest_that_waits_and_may_go(filled: Do, do: Do) -> None:
    counts: OutboxCounts = filled(lambda tx: tx.outbox_queries(PRODUCT).counts())
    assert counts.by_status == {FAILED: 3, WAITING: 3, COMPLETED: 1}
    assert (counts.held, counts.oldest_at) == (2, NOW - HOUR)
    other: OutboxCounts = do(lambda tx: tx.outbox_queries(OutboxKind.SCHEDULER).counts())
    assert (other.by_status, other.held, other.oldest_at) == ({}, 0, None)


def test_the_failed_of_a_subject_come_in_their_order(do: Do) -> None:
    def work(tx: Transaction) -> list[OutboxId]:
        for number, status in ((1, FAILED), (2, COMPLETED), (3, FAILED), (4, WAITING)):
            tx.scheduler_outbox.add(a_message(number, subject_id=schedule_id(), status=status, item_no=None))
        return list(tx.outbox_queries(OutboxKind.SCHEDULER).failed_of(schedule_id()))

    assert do(work) == [outbox_id(1), outbox_id(3)]


def test_a_channel_of_which_nothing_was_written_flows_and_comes_back_as_it_was_saved(do: Do) -> None:
    whole = Channel(
        kind=PRODUCT,
        state=CircuitState.HALF_OPEN,
        failures=4,
        openings=2,
        send_limit=7,
        opened_at=NOW,
        closed_at=NOW - HOUR,
        not_before=NOW + HOUR,
        probed_at=NOW - SECOND,
        rest_until=NOW + HOUR,
        accepted_at=NOW - SECOND,
        failed_at=NOW,
        reason="연결할 수 없음 🔌",
        next_send_at=NOW + SECOND,
        paused_at=NOW,
        paused_by="cli:민지",
    )

    def work(tx: Transaction) -> None:
        assert tx.channels.get(PRODUCT) == Channel(PRODUCT)
        tx.channels.save(whole, NOW)
        assert tx.channels.get(PRODUCT) == whole
        tx.channels.save(Channel(PRODUCT), NOW)
        assert tx.channels.get(PRODUCT) == Channel(PRODUCT)
        assert tx.channels.get(OutboxKind.SCHEDULER) == Channel(OutboxKind.SCHEDULER)

    do(work)


def test_tries_come_back_newest_first_and_the_oldest_are_forgotten(do: Do) -> None:
    tries = [
        Attempt(outbox_id(1), 1, NOW - 2 * HOUR, 12, 500, DeliveryVerdict.RETRY, True, "고장 🔥"),
        Attempt(outbox_id(2), 1, NOW - 2 * HOUR, None, None, DeliveryVerdict.RETRY, False, "its sender vanished"),
        Attempt(outbox_id(1), 2, NOW, 5001, 200, DeliveryVerdict.DELIVERED, True, ""),
    ]

    def work(tx: Transaction) -> None:
        tx.attempts.add(PRODUCT, tries)
        assert tx.attempts.of(outbox_id(1), 10) == [tries[2], tries[0]]
        assert tx.attempts.of(outbox_id(1), 1) == [tries[2]]
        assert tx.attempts.forget(NOW - HOUR, 1) == 1
        assert tx.attempts.forget(NOW - HOUR, 100) == 1
        assert tx.attempts.forget(NOW - HOUR, 100) == 0
        assert tx.attempts.of(outbox_id(1), 10) == [tries[2]]
        assert tx.attempts.of(outbox_id(2), 10) == []

    do(work)


def test_a_message_under_way_is_no_lag(do: Do) -> None:
    def work(tx: Transaction) -> None:
        tx.product_outbox.add(a_message(1).send(worker_id()))
        assert tx.outbox_queries(PRODUCT).counts().oldest_at is None

    do(work)


def test_a_sellers_circuit_comes_back_as_it_was_saved_and_goes_with_its_last_message(do: Do) -> None:
    open_ = SellerCircuit(
        PRODUCT, SELLER, CircuitState.OPEN, 5, NOW - HOUR, 2, NOW - SECOND, NOW + HOUR, "연결할 수 없음 🔌"
    )
    failing = SellerCircuit(PRODUCT, SellerId("다른_판매자"), failures=1, failing_since=NOW)

    def work(tx: Transaction) -> None:
        tx.seller_circuits.save([open_, failing], NOW)
        tx.product_outbox.add(a_message(1, seller_id=failing.seller_id))
        assert tx.seller_circuits.of(PRODUCT) == {each.seller_id: each for each in (open_, failing)}
        assert tx.seller_circuits.of(OutboxKind.SCHEDULER) == {}
        assert tx.seller_circuits.forget_idle(PRODUCT) == 1
        assert list(tx.seller_circuits.of(PRODUCT)) == [failing.seller_id]
        tx.seller_circuits.save([failing.accepted(NOW)], NOW)
        assert tx.seller_circuits.of(PRODUCT) == {}

    do(work)
