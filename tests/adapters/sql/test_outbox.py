"""The outbox tables: who is due, who is first in line, and what is found by an index."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import pytest
from msgspec import structs
from sqlalchemy import Engine
from tests.builders import (
    HOUR,
    ITEM,
    MINUTE,
    NOW,
    SECOND,
    SELLER,
    a_message,
    execution_id,
    outbox_id,
    product_id,
    schedule_id,
    worker_id,
)
from tests.conftest import ENGINES

from sellerwatch.adapters.sql import delivery_queue, outbox, outbox_queries
from sellerwatch.adapters.sql.delivery_queue import SqlDeliveryQueue
from sellerwatch.adapters.sql.deltas import Deltas
from sellerwatch.adapters.sql.outbox import SqlOutbox, for_table
from sellerwatch.adapters.sql.outbox_queries import SqlOutboxQueries
from sellerwatch.adapters.sql.statements import Db, open_db
from sellerwatch.kernel.ids import ItemNo, OutboxId, SellerId
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Tables(SqlOutbox):
    """Everything that reads and writes one outbox."""

    def __init__(self, db: Db, kind: OutboxKind) -> None:
        deltas = Deltas(db)
        super().__init__(db, kind, deltas)
        self.queue = SqlDeliveryQueue(db, kind, deltas)
        self.queries = SqlOutboxQueries(db, kind, deltas)


T = TypeVar("T")
Do = Callable[[Callable[[Tables], T]], T]

ENTER = """
INSERT INTO workers (worker_id, role, host, pid, boot_id, started_at, heartbeat_at)
VALUES (:worker_id, 'test', 'here', 1, 'boot', :beat, :beat)
"""


@pytest.fixture(params=list(OutboxKind))
def kind(request: pytest.FixtureRequest) -> OutboxKind:
    chosen: OutboxKind = request.param
    return chosen


@pytest.fixture
def do(engine: Engine, kind: OutboxKind) -> Do[Any]:
    """Runs work on the outbox in a transaction of its own."""

    def run(work: Callable[[Tables], T]) -> T:
        with engine.connect() as connection, connection.begin():
            return work(Tables(open_db(connection), kind))

    return run


@pytest.fixture
def message(kind: OutboxKind) -> Callable[..., Message]:
    """The number-th message, of the subject-th product or schedule."""

    def make(number: int, subject: int = 1, **changes: Any) -> Message:
        if kind is OutboxKind.PRODUCT:
            of = {"subject_id": product_id(subject), "item_no": ITEM, "version": number, "execution_id": execution_id()}
        else:
            of = {"subject_id": schedule_id(subject), "item_no": None, "version": 0, "execution_id": None}
        return a_message(number, **{**of, **changes})

    return make


def add(*messages: Message) -> Callable[[Tables], None]:
    def work(outbox: Tables) -> None:
        for message in messages:
            outbox.add(message)

    return work


def save(*messages: Message) -> Callable[[Tables], None]:
    return lambda outbox: outbox.move(messages, NOW + HOUR)


def remove(*which: int) -> Callable[[Tables], None]:
    def work(outbox: Tables) -> None:
        for number in which:
            outbox.remove(outbox_id(number))

    return work


def numbers(found: Any) -> list[int]:
    return [int(m.outbox_id[-12:], 16) for m in found]


def due(now: datetime = NOW, limit: int = 100) -> Callable[[Tables], list[int]]:
    return lambda outbox: numbers(outbox.queue.due(now, SELLER, limit))


def test_a_message_comes_back_as_it_was_put_in(do: Do[Any], message: Callable[..., Message]) -> None:
    first = message(1, payload='{"이름":"셔츠 🧵"}'.encode())
    do(add(first))
    assert do(lambda outbox: outbox.get(first.outbox_id)) == first
    assert do(lambda outbox: outbox.get(outbox_id(99))) is None


def test_every_move_of_a_message_is_kept(do: Do[Any], message: Callable[..., Message]) -> None:
    first = message(1)
    do(add(first))
    sending = first.send(worker_id())
    failed = sending.fail("503", NOW, MINUTE)
    retried = failed.retry()
    for moved in (sending, failed, retried, retried.send(worker_id(2)), retried.send(worker_id(2)).complete(NOW)):
        do(save(moved))
        assert do(lambda outbox: outbox.get(first.outbox_id)) == moved


def test_a_body_nobody_has_seen_can_be_written_anew(do: Do[Any], message: Callable[..., Message]) -> None:
    do(add(message(1)))
    do(lambda outbox: outbox.replace_payload(message(1, payload=b'{"merged":1}'), NOW))
    assert do(lambda outbox: outbox.get(outbox_id(1))).payload == b'{"merged":1}'
    do(save(message(1).send(worker_id())))
    do(lambda outbox: outbox.replace_payload(message(1, payload=b'{"late":1}'), NOW))
    assert do(lambda outbox: outbox.get(outbox_id(1))).payload == b'{"merged":1}'


def test_due_is_what_waits_and_whose_time_has_come_oldest_first(do: Do[Any], message: Callable[..., Message]) -> None:
    do(
        add(
            message(1, subject=1, next_attempt_at=NOW),
            message(2, subject=2, next_attempt_at=NOW - HOUR),
            message(3, subject=3, next_attempt_at=NOW + SECOND),
            message(4, subject=4, next_attempt_at=None),
            message(5, subject=5, status=MessageStatus.COMPLETED),
            message(6, subject=6, next_attempt_at=NOW - HOUR),
        )
    )
    assert do(due()) == [2, 6, 1]
    assert do(due(limit=2)) == [2, 6]
    assert do(due(limit=0)) == []
    assert do(due(now=NOW + HOUR)) == [2, 6, 1, 3]


@pytest.mark.parametrize(
    ("before", "goes"),
    [("WAITING", False), ("SENDING", False), ("FAILED", False), ("COMPLETED", True), ("DISCARDED", True)],
)
def test_a_message_waits_for_those_of_its_subject_before_it(
    do: Do[Any], message: Callable[..., Message], before: str, goes: bool
) -> None:
    do(
        add(
            message(1, status=MessageStatus(before), next_attempt_at=NOW + HOUR),
            message(2),
            message(3, subject=2),
        )
    )
    assert do(due()) == ([2, 3] if goes else [3])


def test_the_order_of_a_subject_is_that_of_adding_even_if_the_later_is_due_earlier(
    do: Do[Any], message: Callable[..., Message]
) -> None:
    do(add(message(1, next_attempt_at=NOW), message(2, next_attempt_at=NOW - HOUR)))
    assert do(due()) == [1]


def test_thousands_that_are_held_keep_nobody_waiting(do: Do[Any], message: Callable[..., Message]) -> None:
    held = []
    for number in range(1, 2001):
        held.append(message(2 * number, subject=number, status=MessageStatus.FAILED, next_attempt_at=None))
        held.append(message(2 * number + 1, subject=number, next_attempt_at=NOW - HOUR))
    do(add(*held, message(9001, subject=9001), message(9002, subject=9002)))
    assert do(due(limit=2)) == [9001, 9002]
    assert do(lambda outbox: outbox.queue.waiting_sellers()) == {SELLER: NOW}
    assert do(lambda outbox: outbox.queries.pending()) == 2


def test_every_seller_that_waits_is_found_with_the_time_of_its_first_in_line(
    do: Do[Any], message: Callable[..., Message]
) -> None:
    assert do(lambda outbox: outbox.queue.waiting_sellers()) == {}
    do(add(message(1, next_attempt_at=NOW + HOUR), message(2, next_attempt_at=NOW)))
    assert do(lambda outbox: outbox.queue.waiting_sellers()) == {SELLER: NOW + HOUR}
    do(add(message(3, subject=2, next_attempt_at=NOW + MINUTE)))
    others = [SellerId("다른_판매자"), SellerId("AAA"), SellerId("zzz")]
    do(add(*(message(4 + n, subject=4 + n, seller_id=seller_id) for n, seller_id in enumerate(others))))
    do(add(message(9, subject=9, seller_id=SellerId("done"), status=MessageStatus.COMPLETED, next_attempt_at=None)))
    assert do(lambda outbox: outbox.queue.waiting_sellers()) == {SELLER: NOW + MINUTE} | dict.fromkeys(others, NOW)
    assert do(lambda outbox: numbers(outbox.queue.due(NOW, others[0], 9))) == [4]


def test_what_a_silent_or_unknown_worker_is_sending_is_found(
    do: Do[Any], engine: Engine, message: Callable[..., Message]
) -> None:
    with engine.connect() as connection, connection.begin():
        open_db(connection).run(ENTER, {"worker_id": worker_id(1), "beat": NOW})
        open_db(connection).run(ENTER, {"worker_id": worker_id(2), "beat": NOW - HOUR})
    do(
        add(
            message(1, subject=1).send(worker_id(1)),
            message(2, subject=2).send(worker_id(2)),
            message(3, subject=3).send(worker_id(3)),
            message(4, subject=4),
        )
    )
    assert do(lambda outbox: numbers(outbox.queue.claimed_by_lost_workers(NOW - MINUTE))) == [2, 3]
    assert do(lambda outbox: numbers(outbox.queue.claimed_by_lost_workers(NOW + MINUTE))) == [1, 2, 3]
    assert do(lambda outbox: numbers(outbox.queue.claimed_by(worker_id(1)))) == [1]


def test_the_newest_of_a_subject_come_first(do: Do[Any], message: Callable[..., Message]) -> None:
    do(add(message(1), message(2, subject=2), message(3), message(4)))
    subject = message(1).subject_id
    assert do(lambda outbox: numbers(outbox.latest_of(subject, 2))) == [4, 3]


def test_many_are_found_by_their_ids_in_the_order_of_adding(do: Do[Any], message: Callable[..., Message]) -> None:
    do(add(message(3), message(1), message(2)))
    assert do(lambda outbox: numbers(outbox.get_many([outbox_id(1), outbox_id(3), outbox_id(9)]))) == [3, 1]
    assert do(lambda outbox: list(outbox.get_many([]))) == []


def test_only_a_message_nobody_has_seen_can_be_taken_back(do: Do[Any], message: Callable[..., Message]) -> None:
    seen = message(2, subject=2).send(worker_id()).fail("503", NOW, MINUTE).retry()
    sending = message(3, subject=3).send(worker_id())
    do(add(message(1), seen, sending))
    do(remove(1, 2, 3))
    assert do(lambda outbox: numbers(outbox.get_many([outbox_id(n) for n in (1, 2, 3)]))) == [2, 3]


def test_pending_counts_what_still_moves_by_itself(do: Do[Any], message: Callable[..., Message]) -> None:
    assert do(lambda outbox: outbox.queries.pending()) == 0
    do(
        add(
            message(1, subject=1),
            message(2, subject=1),
            message(3, subject=2).send(worker_id()),
            message(4, subject=3, status=MessageStatus.FAILED, next_attempt_at=None),
            message(5, subject=3),
            message(6, subject=4, status=MessageStatus.COMPLETED),
        )
    )
    assert do(lambda outbox: outbox.queries.pending()) == 3


def test_a_move_keeps_the_body_that_is_there(do: Do[Any], message: Callable[..., Message]) -> None:
    do(add(message(1)))
    claimed = message(1, payload=b'{"other":1}').send(worker_id())
    do(lambda outbox: outbox.move([claimed], NOW))
    assert do(lambda outbox: outbox.get(outbox_id(1))) == structs.replace(claimed, payload=message(1).payload)


def test_a_grip_is_who_sends_a_message_and_at_which_try(do: Do[Any], message: Callable[..., Message]) -> None:
    again = message(2, subject=2).send(worker_id()).fail("503", NOW, MINUTE).retry().send(worker_id(2))
    do(add(message(1, subject=1).send(worker_id()), again, message(3, subject=3)))
    found = do(lambda outbox: outbox.queue.current_attempts([outbox_id(n) for n in (1, 2, 3, 9)]))
    assert found == {outbox_id(1): (worker_id(), 0), outbox_id(2): (worker_id(2), 1)}
    assert do(lambda outbox: outbox.queue.current_attempts([])) == {}
    assert do(lambda outbox: outbox.queue.count_sending()) == 2


def test_what_is_due_behind_a_failure_is_set_aside_and_freed_by_its_subject(
    do: Do[Any], message: Callable[..., Message]
) -> None:
    failed = MessageStatus.FAILED
    do(
        add(
            message(1, subject=1, status=failed, next_attempt_at=None),
            message(2, subject=1),
            message(3, subject=2, status=failed, next_attempt_at=None),
            message(4, subject=2),
            message(5, subject=3),
            message(6, subject=3),
        )
    )
    assert do(lambda outbox: outbox.queue.postpone_held(NOW, NOW + HOUR, 100)) == 2
    assert do(lambda outbox: outbox.queue.postpone_held(NOW, NOW + HOUR, 100)) == 0
    times = do(lambda outbox: {m.outbox_id: m.next_attempt_at for m in outbox.queue.due(NOW + HOUR, SELLER, 9)})
    assert times == {outbox_id(5): NOW}
    do(save(message(1, subject=1, status=failed, next_attempt_at=None).discard()))
    do(lambda outbox: outbox.release_held([message(1, subject=1).subject_id], NOW))
    assert do(due()) == [2, 5]


def test_a_message_that_was_sent_before_keeps_the_time_it_was_asked_to_wait(
    do: Do[Any], message: Callable[..., Message]
) -> None:
    waiting = message(1).send(worker_id()).fail("429", NOW, HOUR).retry()
    do(add(waiting))
    do(lambda outbox: outbox.release_held([waiting.subject_id], NOW))
    assert do(due()) == []


def test_only_what_is_over_old_and_not_the_last_that_was_told_is_forgotten(
    do: Do[Any], message: Callable[..., Message]
) -> None:
    old, new = NOW - 48 * HOUR, NOW
    completed, discarded, failed = MessageStatus.COMPLETED, MessageStatus.DISCARDED, MessageStatus.FAILED
    do(
        add(
            message(1, subject=1, status=completed, created_at=old),
            message(2, subject=1, status=discarded, created_at=old),
            message(3, subject=1, status=completed, created_at=old),
            message(4, subject=1, status=discarded, created_at=old),
            message(5, subject=2, status=completed, created_at=old),
            message(6, subject=2, status=failed, created_at=old),
            message(7, subject=2, created_at=new),
            message(8, subject=3, status=completed, created_at=new),
            message(9, subject=3, status=completed, created_at=new),
        )
    )
    found = do(lambda outbox: outbox.queries.superseded(NOW - 24 * HOUR, 100))
    assert found == [outbox_id(1), outbox_id(2)]
    assert do(lambda outbox: outbox.queries.superseded(NOW - 24 * HOUR, 1)) == [outbox_id(1)]
    everything = [outbox_id(n) for n in range(1, 10)]
    assert do(lambda outbox: outbox.queue.delete_finished([outbox_id(6), outbox_id(7), *found])) == 2
    assert do(lambda outbox: numbers(outbox.get_many(everything))) == [3, 4, 5, 6, 7, 8, 9]


def test_a_product_number_beyond_32_bits_fits(engine: Engine) -> None:
    big = structs.replace(a_message(), item_no=ItemNo(ItemNo.LARGEST))
    with engine.connect() as connection, connection.begin():
        outbox = Tables(open_db(connection), OutboxKind.PRODUCT)
        outbox.add(big)
        assert outbox.get(OutboxId(big.outbox_id)) == big


STATEMENTS = {
    name: text
    for module in (outbox, delivery_queue, outbox_queries)
    for name, text in vars(module).items()
    if isinstance(text, str) and "{outbox}" in text and "{where}" not in text and name not in ("FIRST_IN_LINE", "ROW")
}


@pytest.mark.parametrize("on", ["sqlite"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_uses_an_index(engine: Engine, kind: OutboxKind, name: str) -> None:
    statement = for_table(STATEMENTS[name], kind).replace("(:outbox_ids)", "(:a)")
    params = dict.fromkeys(re.findall(r":(\w+)", statement), 1)
    with engine.connect() as connection:
        plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", params)]
    derived = ("SCAN held", "SCAN s")
    scans = [step for step in plan if step.startswith("SCAN") and "USING" not in step and step not in derived]
    assert scans == [], plan
    if name in ("DUE", "WAITING_SELLERS"):
        assert sum("idx_status_seller_id_next_attempt_at" in step for step in plan) == (1 if name == "DUE" else 3)
        assert not any("TEMP B-TREE" in step for step in plan), plan
