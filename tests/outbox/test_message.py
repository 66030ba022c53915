"""An outbox message: five tries, a back-off between, and a person for what failed for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.builders import HOUR, LATER, MINUTE, NOW, a_message, outbox_id, worker_id
from tests.machines import spec

from sellerwatch.kernel.errors import Conflict, IllegalMove, Invalid
from sellerwatch.outbox.message import InvalidPayload, Message, MessageStatus, TriesSpent

WAITING, SENDING, COMPLETED = MessageStatus.WAITING, MessageStatus.SENDING, MessageStatus.COMPLETED
FAILED, DISCARDED = MessageStatus.FAILED, MessageStatus.DISCARDED

ACTS: dict[str, Callable[[Message], Message]] = {
    "send": lambda m: m.send(worker_id()),
    "complete": lambda m: m.complete(LATER),
    "fail": lambda m: m.fail("503", LATER, MINUTE),
    "refuse": lambda m: m.refuse("410"),
    "lose_lease": lambda m: m.lose_lease(LATER, MINUTE),
    "put_back": lambda m: m.put_back(LATER),
    "retry": lambda m: m.retry(),
    "replay": lambda m: m.replay(LATER),
    "discard": lambda m: m.discard(),
}


def sending(**changes: Any) -> Message:
    return a_message(**changes).send(worker_id())


def failed_for_good() -> Message:
    message = a_message()
    for _ in range(4):
        message = message.send(worker_id()).fail("503", NOW, MINUTE).retry()
    return message.send(worker_id()).fail("503", NOW, MINUTE)


def test_a_new_message_waits_and_is_due() -> None:
    message = a_message()
    assert (message.status, message.retry_count, message.attempted, message.sent_at) == (WAITING, 0, False, None)
    assert message.is_due(NOW)
    assert not message.is_due(NOW - MINUTE)


@pytest.mark.parametrize(
    "payload", ["", "[]", '"x"', "null", "1", "not json", "{", "}", '[{"a":1}]', '{"a":1} ', ' {"a":1}']
)
def test_a_payload_must_be_a_json_object(payload: str) -> None:
    with pytest.raises(InvalidPayload) as refusal:
        a_message(payload=payload.encode())
    assert isinstance(refusal.value, Invalid)
    assert refusal.value.code == "INVALID_PAYLOAD"
    assert str(refusal.value).startswith("A message's payload must be one JSON object: ")


@pytest.mark.parametrize("payload", ["{}", '{"a": {"b": [1, null]}}'])
def test_a_json_object_is_a_payload(payload: str) -> None:
    assert a_message(payload=payload.encode()).payload.decode() == payload


def test_sending_holds_the_message_and_freezes_its_body() -> None:
    message = a_message().send(worker_id())
    assert (message.status, message.worker_id, message.attempted) == (SENDING, worker_id(), True)
    assert not message.is_due(LATER)


def test_completing_stamps_sent_at() -> None:
    message = sending(error_message="earlier").complete(LATER)
    assert (message.status, message.sent_at, message.worker_id) == (COMPLETED, LATER, None)
    assert (message.error_message, message.next_attempt_at) == (None, None)


def test_a_failure_counts_a_try_and_names_the_next() -> None:
    message = sending().fail("503", LATER, MINUTE)
    assert (message.status, message.retry_count, message.error_message) == (FAILED, 1, "503")
    assert (message.next_attempt_at, message.worker_id) == (LATER + MINUTE, None)
    assert message.can_retry()


def test_a_retried_message_waits_for_its_time_with_the_error_cleared() -> None:
    message = sending().fail("503", LATER, MINUTE).retry()
    assert (message.status, message.error_message, message.retry_count) == (WAITING, None, 1)
    assert not message.is_due(LATER)
    assert message.is_due(LATER + MINUTE)


def test_the_fifth_failed_try_is_the_last() -> None:
    message = failed_for_good()
    assert (message.status, message.retry_count, message.next_attempt_at) == (FAILED, 5, None)
    assert not message.can_retry()
    with pytest.raises(TriesSpent) as refusal:
        message.retry()
    assert isinstance(refusal.value, Conflict)
    assert refusal.value.code == "TRIES_SPENT"
    assert refusal.value.facts == {"outbox_id": outbox_id(), "tries": 5}
    assert (
        str(refusal.value) == f"The message {outbox_id()} has failed for good after 5 attempts; replay or discard it."
    )


def test_the_number_of_tries_is_a_setting() -> None:
    assert not sending().fail("503", NOW, MINUTE, max_attempts=1).can_retry()
    assert sending(retry_count=7).fail("503", NOW, MINUTE, max_attempts=9).can_retry()


def test_a_refusal_for_good_fails_at_the_first_answer() -> None:
    message = sending().refuse("410 Gone")
    assert (message.status, message.retry_count, message.error_message) == (FAILED, 1, "410 Gone")
    assert not message.can_retry()
    with pytest.raises(TriesSpent):
        message.retry()


def test_a_lost_lease_counts_the_try_because_it_may_have_arrived() -> None:
    message = sending().lose_lease(LATER, MINUTE)
    assert (message.status, message.retry_count, message.next_attempt_at) == (WAITING, 1, LATER + MINUTE)
    assert (message.worker_id, message.attempted) == (None, True)


def test_a_lease_lost_at_the_last_try_fails_for_good() -> None:
    message = sending(retry_count=4).lose_lease(LATER, MINUTE)
    assert (message.status, message.retry_count, message.next_attempt_at) == (FAILED, 5, None)
    assert not message.can_retry()
    assert message.worker_id is None


def test_a_message_put_back_has_lost_no_try() -> None:
    message = sending().put_back(LATER)
    assert (message.status, message.retry_count, message.next_attempt_at) == (WAITING, 0, LATER)
    assert message.worker_id is None


def test_a_message_put_back_may_have_been_seen_so_its_body_stays_as_it_is() -> None:
    assert sending().put_back(LATER).attempted


def test_an_answer_counts_only_for_the_try_that_asked() -> None:
    # "A second change while the first was being sent was cleared with it": the same row, but another try.
    claimed = sending()
    assert claimed.attempt_key == (worker_id(), 0)
    assert claimed.lose_lease(NOW, MINUTE).attempt_key is None
    assert claimed.lose_lease(NOW, MINUTE).send(worker_id()).attempt_key == (worker_id(), 1)
    assert claimed.put_back(NOW).send(worker_id(2)).attempt_key == (worker_id(2), 0)


def test_a_replay_starts_from_a_fresh_count_with_the_same_key_and_body() -> None:
    failed = failed_for_good()
    again = failed.replay(LATER)
    assert (again.status, again.retry_count, again.error_message) == (WAITING, 0, None)
    assert again.is_due(LATER)
    assert (again.outbox_id, again.payload, again.attempted) == (failed.outbox_id, failed.payload, True)


def test_a_discarded_message_keeps_its_error_and_is_never_due() -> None:
    message = failed_for_good().discard()
    assert (message.status, message.error_message, message.next_attempt_at) == (DISCARDED, "503", None)
    assert not message.is_due(NOW + 1000 * HOUR)


@pytest.mark.parametrize("act", ["fail", "refuse"])
def test_an_error_longer_than_its_column_is_cut(act: str) -> None:
    # "Rows that could not be saved as failed because the error text was longer than its column."
    message = sending()
    failed = message.fail("x" * 100_000, NOW, MINUTE) if act == "fail" else message.refuse("x" * 100_000)
    assert failed.error_message == "x" * 2000


@pytest.mark.parametrize("status", MessageStatus)
@pytest.mark.parametrize("verb", ACTS)
def test_a_verb_the_specification_does_not_know_in_a_state_is_refused(status: MessageStatus, verb: str) -> None:
    if (status.value, verb) in spec.MESSAGE:
        return
    with pytest.raises(IllegalMove) as refusal:
        ACTS[verb](a_message(status=status))
    assert (refusal.value.noun, refusal.value.name, refusal.value.state) == ("message", outbox_id(), status)
    assert set(refusal.value.needs) == spec.needs(spec.MESSAGE, verb)
