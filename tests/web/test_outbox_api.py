"""/api/v1/outbox: lists, one message with its tries, replay and discard, pause and resume, the lag."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs
from tests.builders import NOW, SELLER, a_message, a_refused_seller, outbox_id, product_id

from sellerwatch.adapters.sql import paging
from sellerwatch.kernel.clock import stamp
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode

from .api_world import BAD_CURSORS, UNKNOWN_ID, ApiWorld

PATH = "/api/v1/outbox"


async def test_a_ping_shows_what_the_receiver_answers_and_only_an_administrator_sends_one(world: ApiWorld) -> None:
    found = (await world.admin.post(f"{PATH}/ping")).json
    assert (found["isAccepted"], found["httpStatusCode"], found["verdict"]) == (True, 200, "DELIVERED")
    world.simulator.product_server.behave(ServerBehaviour(ServerMode.ERROR))
    down = (await world.admin.post(f"{PATH}/ping")).json
    assert (down["isAccepted"], down["verdict"]) == (False, "RETRY")
    assert (await world.viewer.post(f"{PATH}/ping")).status == 403
    assert [entry.action for entry in await world.api_trail()] == ["outbox.ping", "outbox.ping"]
    assert (await world.viewer.get(PATH)).json["content"] == []


async def test_messages_are_listed_to_the_end_by_every_filter(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.register_seller()
    await world.failed_messages(4)
    for n in range(5, 9):
        waiting = a_message(n, subject_id=product_id(n))
        await world.transact(lambda tx, message=waiting: tx.product_outbox.add(message))  # type: ignore[misc]
    everyone = (await world.viewer.get(PATH, size=100)).json["content"]
    assert [message["outboxId"] for message in everyone] == [outbox_id(n) for n in range(8, 0, -1)]
    monkeypatch.setattr(paging, "MAX_ROWS_SCANNED", 3)
    before_all, after_all = (NOW + timedelta(days=days) for days in (-1, 1))
    queries = [
        ({}, range(8, 0, -1)),
        ({"sellerId": SELLER, "eventType": "PRODUCT_CREATED"}, range(8, 0, -1)),
        ({"status": "FAILED"}, range(4, 0, -1)),
        ({"status": "WAITING", "sellerId": SELLER}, range(8, 4, -1)),
        ({"since": before_all.isoformat(), "until": after_all.isoformat()}, range(8, 0, -1)),
        ({"since": after_all.isoformat()}, ()),
        ({"until": before_all.isoformat(), "status": "FAILED"}, ()),
        ({"eventType": "PRODUCT_DELETED"}, ()),
        ({"eventType": "' OR '1'='1"}, ()),
    ]
    for query, wanted in queries:
        for size in (1, 3, 100):
            found = [message["outboxId"] for message in await world.viewer.all_pages(PATH, size, **query)]
            assert found == [outbox_id(n) for n in wanted], query
    schedules = await world.viewer.all_pages(PATH, 1, kind="scheduler")
    assert [(m["kind"], m["productId"], m["sellerId"]) for m in schedules] == [("scheduler", None, SELLER)]


async def test_a_message_is_shown_with_its_payload_its_holder_and_its_tries(world: ApiWorld) -> None:
    await world.failed_messages(1)
    await world.transact(lambda tx: tx.product_outbox.add(a_message(2, subject_id=product_id(1))))
    tries = [Attempt(outbox_id(), 1, NOW, 12, 422, DeliveryVerdict.REFUSED, True, "상품명이 너무 깁니다 🚫")]
    await world.transact(lambda tx: tx.attempts.add(OutboxKind.PRODUCT, tries))
    behind = (await world.viewer.get(f"{PATH}/{outbox_id(2)}")).json
    assert (behind["heldBy"], behind["status"]) == (outbox_id(1), "WAITING")
    assert isinstance(behind["payload"], dict)
    (one,) = (await world.viewer.get(f"{PATH}/{outbox_id(1)}/attempts")).json["content"]
    assert (one["httpStatusCode"], one["verdict"], one["isCounted"]) == (422, "REFUSED", True)
    assert one["answer"] == "상품명이 너무 깁니다 🚫"


@pytest.mark.parametrize(("verb", "status"), [("replay", "WAITING"), ("discard", "DISCARDED")])
async def test_what_failed_is_moved_by_ids_and_each_has_its_answer(world: ApiWorld, verb: str, status: str) -> None:
    await world.failed_messages(2)
    answer = (await world.admin.post(f"{PATH}/{verb}", {"outboxIds": [outbox_id(1), UNKNOWN_ID]})).json
    assert (answer["done"], answer["messages"]) == ([outbox_id(1)], 1)
    assert [one["errorCode"] for one in answer["refused"]] == ["MESSAGE_NOT_FOUND"]
    assert (await world.viewer.get(f"{PATH}/{outbox_id(1)}")).json["status"] == status
    assert [(e.action, e.subject_id) for e in await world.api_trail()] == [(f"message.{verb}", outbox_id(1))]


@pytest.mark.parametrize("verb", ["replay", "discard"])
async def test_what_failed_is_moved_by_a_choice_after_a_look_at_the_numbers(world: ApiWorld, verb: str) -> None:
    await world.register_seller()
    await world.failed_messages(3)
    before = await world.all_rows()
    choice = {"sellerId": SELLER, "since": "2026-11-01T00:00:00Z"}
    numbers = (await world.admin.post(f"{PATH}/{verb}", choice, dryRun="true")).json
    assert (numbers["messages"], numbers["left"], numbers["bySeller"]) == (3, 3, {SELLER: 3})
    assert await world.all_rows() == before
    done = (await world.admin.post(f"{PATH}/{verb}", choice)).json
    assert (done["messages"], done["left"], done["dryRun"]) == (3, 0, False)
    (entry,) = await world.api_trail()
    assert (entry.action, entry.subject_id) == (f"message.{verb}", "product")


async def test_an_outbox_is_paused_and_resumed_once(world: ApiWorld) -> None:
    paused = await world.admin.post(f"{PATH}/pause", {"reason": "서버 이전 🚚"})
    assert (paused.json["isPaused"], paused.json["pausedBy"]) == (True, "token:admin@practice")
    again = await world.admin.post(f"{PATH}/pause", {})
    assert (again.status, again.json["errorCode"]) == (409, "OUTBOX_PAUSED")
    assert (await world.admin.post(f"{PATH}/resume", {"kind": "product"})).json["isPaused"] is False
    assert (await world.admin.post(f"{PATH}/resume", {})).status == 409
    assert [entry.action for entry in await world.api_trail()] == ["outbox.resume", "outbox.pause"]
    assert (await world.api_trail())[1].note == "서버 이전 🚚"


async def test_a_refused_seller_is_listed_and_tried_at_once_on_resume(world: ApiWorld) -> None:
    await world.transact(lambda tx: tx.seller_circuits.save([a_refused_seller()], NOW))
    [refused] = (await world.viewer.get(f"{PATH}/status")).json["content"][0]["refusedSellers"]
    assert (refused["sellerId"], refused["reason"]) == (SELLER, "answered 500: no")
    before = await world.all_rows()
    assert (await world.admin.post(f"{PATH}/resume", {}, dryRun="true")).status == 200
    assert await world.all_rows() == before
    assert (await world.admin.post(f"{PATH}/resume", {})).json["circuit"]["state"] == "CLOSED"
    [resumed] = (await world.viewer.get(f"{PATH}/status")).json["content"][0]["refusedSellers"]
    assert resumed["notBefore"] < refused["notBefore"]
    [entry] = await world.api_trail()
    assert (entry.action, (entry.after or {})["sellers"]) == ("outbox.resume", [SELLER])
    assert (await world.admin.post(f"{PATH}/resume", {"kind": "scheduler"})).status == 409


async def test_the_status_counts_and_says_the_lag(world: ApiWorld) -> None:
    await world.failed_messages(2)
    made = NOW - timedelta(seconds=90)
    await world.transact(lambda tx: tx.product_outbox.add(a_message(7, subject_id=product_id(7), created_at=made)))
    products, schedules = (await world.viewer.get(f"{PATH}/status")).json["content"]
    assert (products["kind"], schedules["kind"]) == ("product", "scheduler")
    assert (products["counts"]["FAILED"], products["counts"]["WAITING"], products["held"]) == (2, 1, 0)
    assert (products["lagSeconds"], schedules["lagSeconds"]) == (90.0, 0.0)
    assert products["circuit"]["state"] == "CLOSED"
    assert isinstance((await world.viewer.get(f"{PATH}/status")).json["hasReceiver"], bool)


@pytest.mark.parametrize("verb", ["replay", "discard"])
async def test_a_dry_run_of_ids_or_a_pause_changes_nothing(world: ApiWorld, verb: str) -> None:
    await world.failed_messages(1)
    before = await world.all_rows()
    result = (await world.admin.post(f"{PATH}/{verb}", {"outboxIds": [outbox_id(1), UNKNOWN_ID]}, dryRun="true")).json
    assert (result["dryRun"], result["done"], result["messages"]) == (True, [outbox_id(1)], 1)
    assert [each["errorCode"] for each in result["refused"]] == ["MESSAGE_NOT_FOUND"]
    assert (await world.admin.post(f"{PATH}/pause", {}, dryRun="true")).json["isPaused"] is True
    assert await world.all_rows() == before


async def test_a_query_parameter_that_a_route_does_not_have_is_refused(world: ApiWorld) -> None:
    refused = await world.viewer.get(PATH, sort="createdAt")
    assert (refused.status, refused.json["errorCode"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"outboxIds": [outbox_id()], "allFailed": True},
        {"outboxIds": ["x"]},
        {"outboxIds": []},
        {"allFailed": "yes"},
        {"allFailed": True, "kind": "letters"},
        {"since": "yesterday"},
        {"since": 5.5e300},
        {"sellerId": ""},
        {"eventType": ""},
        {"surprise": True},
        "text",
    ],
)
async def test_a_choice_that_cannot_be_read_is_refused_and_changes_nothing(world: ApiWorld, body: object) -> None:
    await world.failed_messages(1)
    before = await world.all_rows()
    for verb in ("replay", "discard"):
        assert (await world.admin.post(f"{PATH}/{verb}", body)).status == 400
    assert await world.all_rows() == before


async def test_what_is_not_there_or_not_allowed_is_refused(world: ApiWorld) -> None:
    await world.failed_messages(1)
    before = await world.all_rows()
    for verb, body in (
        ("replay", {"allFailed": True}),
        ("discard", {"allFailed": True}),
        ("pause", {}),
        ("resume", {}),
    ):
        assert (await world.viewer.post(f"{PATH}/{verb}", body)).status == 403
        assert (await world.nobody.post(f"{PATH}/{verb}", body)).status == 401
    assert (await world.viewer.get(f"{PATH}/{UNKNOWN_ID}")).json["errorCode"] == "MESSAGE_NOT_FOUND"
    assert (await world.viewer.get(f"{PATH}/{UNKNOWN_ID}/attempts")).status == 404
    assert (await world.viewer.get(f"{PATH}/x/attempts")).status == 400
    assert (await world.admin.post(f"{PATH}/replay", {"sellerId": "nobody"})).status == 404
    assert (await world.viewer.get(PATH, kind="letters")).status == 400
    assert (await world.viewer.get(PATH, since="0001-01-01T00:00:00+14:00")).status == 400
    for cursor in BAD_CURSORS:
        assert (await world.viewer.get(PATH, cursor=cursor)).status == 400
    assert await world.all_rows() == before


async def test_delivery_times_are_those_of_the_newest_delivered_messages(world: ApiWorld) -> None:
    assert (await world.viewer.get(f"{PATH}/delivery-times")).json == {"content": []}
    await world.transact(lambda tx: tx.product_outbox.add(a_delivered_message()))
    (found,) = (await world.viewer.get(f"{PATH}/delivery-times", kind="product")).json["content"]
    assert (found["createdAt"], found["seconds"]) == (stamp(NOW), 2.5)


def a_delivered_message() -> Message:
    return structs.replace(a_message(1), status=MessageStatus.COMPLETED, sent_at=NOW + timedelta(seconds=2.5))


async def test_a_resend_is_counted_asked_for_and_cancelled(world: ApiWorld) -> None:
    await world.crawled(4)
    resends = "/api/v1/resends"
    [event, *_] = (await world.viewer.get(PATH)).json["content"]
    before = await world.all_rows()
    counted = (await world.admin.post(f"{PATH}/resend", {"allDelivered": True}, dryRun="true")).json
    assert (counted["dryRun"], counted["resendId"], counted["messages"]) == (True, None, 4)
    assert (await world.admin.post(f"{PATH}/resend", {})).status == 400
    assert (await world.admin.post(f"{PATH}/resend", {"outboxIds": [UNKNOWN_ID]})).status == 404
    nothing = await world.admin.post(f"{PATH}/resend", {"itemNo": 1})
    assert (nothing.status, nothing.json["errorCode"]) == (409, "NOTHING_TO_RESEND")
    assert (await world.viewer.post(f"{PATH}/resend", {"allDelivered": True})).status == 403
    assert await world.all_rows() == before
    asked = await world.admin.post(f"{PATH}/resend", {"outboxIds": [event["outboxId"]]})
    assert (asked.status, asked.json["messages"], asked.json["byType"]) == (202, 1, {event["eventType"]: 1})
    resend_id = asked.json["resendId"]
    shown = (await world.viewer.get(f"{resends}/{resend_id}")).json
    assert (shown["total"], shown["left"], shown["outboxIds"]) == (1, 1, [event["outboxId"]])
    assert [each["resendId"] for each in await world.viewer.all_pages(resends, 5, status="RUNNING")] == [resend_id]
    assert (await world.viewer.get(f"{resends}/{resend_id}/answers")).json["content"] == []
    assert (await world.admin.post(f"{resends}/{resend_id}/cancel")).json["status"] == "CANCELLED"
    assert (await world.admin.post(f"{resends}/{resend_id}/cancel")).status == 409
    assert (await world.admin.get(f"{resends}/{UNKNOWN_ID}")).json["errorCode"] == "RESEND_NOT_FOUND"
    assert [entry.action for entry in await world.api_trail()] == ["resend.cancel", "resend.start"]
