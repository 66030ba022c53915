"""The event on the wire, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest
from tests.builders import ITEM, NOW, SELLER, a_message, detail_facts, list_facts, option_facts, outbox_id, whole_of

from sellerwatch.catalog.differences import Change
from sellerwatch.outbox.event import FieldChange, data_json, event_body, ping_body, read_event, snapshot_body
from sellerwatch.outbox.message import InvalidPayload

CHANGES = [Change("prices.selling", 600000, 590000), Change("options[4134224619]", None, {"optionNo": 4134224619})]


def test_the_body_has_the_keys_of_the_specification_in_their_order() -> None:
    body = event_body(
        outbox_id(), "PRODUCT_UPDATED", ITEM, SELLER, 2, NOW, CHANGES, data_json({"itemNo": ITEM, "name": "티셔츠 🧵"})
    )
    assert body.decode() == (
        '{"eventId":"0198c0de-0000-7000-8005-000000000001","eventType":"PRODUCT_UPDATED","itemNo":900000001,'
        '"sellerId":"seller_12345","version":2,"occurredAt":"2026-11-15T06:04:05.123456Z","schemaVersion":1,"changes":['
        '{"field":"prices.selling","before":600000,"after":590000},'
        '{"field":"options[4134224619]","before":null,"after":{"optionNo":4134224619}}],'
        '"productData":{"itemNo":900000001,"name":"티셔츠 🧵"}}'
    )


def test_the_same_event_is_the_same_bytes_every_time() -> None:
    data = whole_of(list_facts(), detail_facts(), option_facts())
    made = {event_body(outbox_id(), "PRODUCT_CREATED", ITEM, SELLER, 1, NOW, (), data_json(data)) for _ in range(3)}
    assert len(made) == 1
    assert a_message(payload=made.pop()).payload.startswith(b'{"eventId"')


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 15, 6, 4, 5, tzinfo=UTC),
        datetime(2026, 11, 15, 15, 4, 5, tzinfo=timezone(timedelta(hours=9))),
    ],
)
def test_a_moment_has_one_spelling_with_microseconds_in_utc(moment: datetime) -> None:
    body = event_body(outbox_id(), "PRODUCT_CREATED", ITEM, SELLER, 1, moment, (), b"{}")
    assert orjson.loads(body)["occurredAt"] == "2026-11-15T06:04:05.000000Z"


def test_creation_and_deletion_have_empty_changes() -> None:
    assert b'"changes":[]' in event_body(outbox_id(), "PRODUCT_DELETED", ITEM, SELLER, 3, NOW, (), b"{}")


@pytest.mark.parametrize("deleted", [False, True])
def test_a_snapshot_has_the_envelope_of_events_and_says_whether_the_product_is_deleted(deleted: bool) -> None:
    body = snapshot_body(outbox_id(), ITEM, SELLER, 3, NOW, data_json({"itemNo": ITEM}), deleted=deleted)
    assert body.decode() == (
        '{"eventId":"0198c0de-0000-7000-8005-000000000001","eventType":"PRODUCT_SNAPSHOT","itemNo":900000001,'
        '"sellerId":"seller_12345","version":3,"occurredAt":"2026-11-15T06:04:05.123456Z","schemaVersion":1,'
        f'"deleted":{str(deleted).lower()},"changes":[],"productData":{{"itemNo":900000001}}}}'
    )
    assert read_event(body).product_data == {"itemNo": ITEM}


def test_a_ping_is_about_no_product() -> None:
    assert ping_body(outbox_id(), NOW).decode() == (
        '{"eventId":"0198c0de-0000-7000-8005-000000000001","eventType":"PING",'
        '"occurredAt":"2026-11-15T06:04:05.123456Z","schemaVersion":1}'
    )


def test_an_event_stored_without_a_schema_version_is_of_version_1() -> None:
    body = orjson.loads(event_body(outbox_id(), "PRODUCT_CREATED", ITEM, SELLER, 1, NOW, (), b"{}"))
    del body["schemaVersion"]
    assert read_event(orjson.dumps(body)).schema_version == 1


def test_what_the_receiver_was_told_can_be_read_back() -> None:
    data = whole_of(list_facts(), detail_facts(), option_facts())
    event = read_event(event_body(outbox_id(), "PRODUCT_UPDATED", ITEM, SELLER, 7, NOW, CHANGES, data_json(data)))
    assert (event.event_id, event.event_type, event.item_no) == (outbox_id(), "PRODUCT_UPDATED", ITEM)
    assert (event.seller_id, event.version, event.occurred_at) == (SELLER, 7, NOW)
    assert event.changes[0] == FieldChange("prices.selling", 600000, 590000)
    assert event.product_data == data


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"{}", "eventId is missing"),
        (b"{", "not an event"),
        (b"[]", "not an event"),
        (b'{"eventId":"x","eventType":"y","itemNo":"z"}', "not an event"),
    ],
)
def test_a_body_that_is_no_event_is_refused_and_says_why(payload: bytes, problem: str) -> None:
    with pytest.raises(InvalidPayload) as refusal:
        read_event(payload)
    assert problem in refusal.value.problem
