"""`sellerwatch outbox`: what is on its way out, what failed for good, and what an operator does about it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.builders import a_message, product_id, schedule_id, worker_id

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.outbox.message import MessageStatus

from .conftest import Run, refused
from .prepared import SELLER, Office, outbox_id

FIRST, BEHIND, FREE = outbox_id(1), outbox_id(2), outbox_id(3)


@pytest.fixture
def office(run: Run, inline_store: SqlStore, database_file: Path) -> Office:
    return Office(run, inline_store, database_file)


@pytest.fixture
def held(office: Office) -> Office:
    """A message that failed for good, one that waits behind it, and one of another product."""
    office.failed_message(1)
    office.do(lambda tx: tx.product_outbox.add(a_message(2, event_type="PRODUCT_UPDATED", version=2)))
    office.do(lambda tx: tx.product_outbox.add(a_message(3, subject_id=product_id(2))))
    return office


def due(office: Office) -> list[str]:
    found = office.see(lambda tx: tx.product_outbox.due(datetime(9999, 1, 1, tzinfo=UTC), 10))
    return [message.outbox_id for message in found]


def test_an_empty_outbox_says_what_fills_it(office: Office) -> None:
    assert "sellerwatch crawl SELLER_ID" in office.said("outbox", "list")
    assert office.json("outbox", "list") == {"content": [], "limit": 20}


def test_the_list_shows_what_failed_and_what_is_held_behind_it(held: Office) -> None:
    free, behind, first = held.json("outbox", "list")["content"]
    assert (first["outboxId"], first["status"], first["heldBy"]) == (FIRST, "FAILED", None)
    assert first["errorMessage"] == "answered 422: 상품명이 너무 깁니다"
    assert (behind["outboxId"], behind["status"], behind["heldBy"]) == (BEHIND, "WAITING", FIRST)
    assert (free["outboxId"], free["heldBy"]) == (FREE, None)
    said = held.said("outbox", "list").splitlines()
    assert ["held" in line.split() for id_ in (FIRST, BEHIND, FREE) for line in said if id_ in line] == [
        False,
        True,
        False,
    ]
    assert said[-1].startswith("Held: ")


def test_the_list_is_narrowed_by_state_and_seller(held: Office) -> None:
    held.register()
    (failed,) = held.json("outbox", "list", "--status", "failed", "--seller", SELLER)["content"]
    assert failed["outboxId"] == FIRST
    assert "All of them: sellerwatch outbox list" in held.said("outbox", "list", "--status", "DISCARDED")
    assert "no seller nobody" in refused(held("outbox", "list", "--seller", "nobody"), 1)


def test_the_schedulers_outbox_is_the_other_one(office: Office) -> None:
    office.register()
    (event,) = office.json("outbox", "list", "--kind", "scheduler")["content"]
    assert (event["eventType"], event["sellerId"], event["itemNo"]) == ("SCHEDULE_REGISTERED", SELLER, None)
    assert "scheduleId" in event
    assert "SCHEDULE_REGISTERED" in office.said("outbox", "show", event["outboxId"])


def test_show_has_the_payload_and_how_to_replay(held: Office) -> None:
    shown = held.json("outbox", "show", FIRST)
    assert shown["payload"] == {"itemNo": 900000001}
    assert shown["productId"] == product_id()
    assert f"sellerwatch outbox replay {FIRST}" in held.said("outbox", "show", FIRST)
    assert FIRST in held.said("outbox", "show", BEHIND)


@pytest.mark.parametrize("command", ["show", "replay", "discard"])
def test_an_unknown_message_is_one_sentence_and_no_uuid_is_bad_usage(office: Office, command: str) -> None:
    assert refused(office("outbox", command, outbox_id(9)), 1) == f"There is no outbox message {outbox_id(9)}."
    assert "UUID" in refused(office("outbox", command, "x"), 2)


def test_a_replayed_message_waits_again_with_a_fresh_count_and_the_same_body(held: Office) -> None:
    said = held.said("outbox", "replay", FIRST)
    assert "1 message(s) wait again" in said
    assert "within 300 s" in said
    message = held.see(lambda tx: tx.product_outbox.get(FIRST))
    assert message is not None
    assert (message.status, message.retry_count, message.attempted) == (MessageStatus.WAITING, 0, True)
    assert message.payload == a_message(1).payload
    assert due(held) == [FREE, FIRST]
    (entry,) = held.trail()
    assert (entry.action, entry.subject_type, entry.subject_id) == ("message.replay", "message", FIRST)
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["status"], entry.before["errorMessage"]) == ("FAILED", "answered 422: 상품명이 너무 깁니다")
    assert (entry.after["status"], entry.after["errorMessage"]) == ("WAITING", None)


def test_a_discarded_message_frees_what_waits_behind_it_and_is_kept(held: Office) -> None:
    assert held.json("outbox", "discard", FIRST) == {"done": [FIRST], "refused": []}
    assert due(held) == [BEHIND, FREE]
    message = held.see(lambda tx: tx.product_outbox.get(FIRST))
    assert message is not None
    assert message.status is MessageStatus.DISCARDED
    (entry,) = held.trail()
    assert entry.action == "message.discard"
    assert entry.after is not None
    assert entry.after["status"] == "DISCARDED"


def test_a_message_of_the_scheduler_is_replayed_in_its_own_outbox(office: Office) -> None:
    waiting = a_message(5, subject_id=schedule_id(), event_type="SCHEDULE_UPDATED", item_no=None, version=0)
    failed = waiting.send(worker_id()).refuse("no such rule")
    office.do(lambda tx: tx.scheduler_outbox.add(waiting))
    office.do(lambda tx: tx.scheduler_outbox.save([failed], waiting.created_at))
    office.said("outbox", "replay", outbox_id(5))
    message = office.see(lambda tx: tx.scheduler_outbox.get(outbox_id(5)))
    assert message is not None
    assert message.status is MessageStatus.WAITING


def test_where_some_cannot_be_replayed_the_others_are_and_the_exit_code_says_so(held: Office) -> None:
    done = held("outbox", "replay", BEHIND, FIRST)
    assert done.returncode == 3
    assert done.stderr == f"error: The message {BEHIND} is WAITING; to replay it must be FAILED.\n"
    assert [entry.subject_id for entry in held.trail()] == [FIRST]


def test_what_did_not_fail_cannot_be_discarded_and_nothing_changes(held: Office) -> None:
    before = held.everything()
    assert "to discard it must be FAILED" in refused(held("outbox", "discard", FREE), 1)
    assert held.everything() == before
