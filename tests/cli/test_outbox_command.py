"""`sellerwatch outbox`: what is on its way out, what failed for good, and what an operator does about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs
from tests.builders import LATER, NOW, a_message, a_refused_seller, product_id, schedule_id, worker_id
from tests.world import due_messages

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict

from .cli_world import SELLER, CliWorld, outbox_id
from .conftest import refused

PRODUCT = OutboxKind.PRODUCT
FIRST, BEHIND, FREE = outbox_id(1), outbox_id(2), outbox_id(3)


@pytest.fixture
def held(world: CliWorld) -> CliWorld:
    """A message that failed for good, one that waits behind it, and one of another product."""
    world.failed_message(1)
    world.do(lambda tx: tx.product_outbox.add(a_message(2, event_type="PRODUCT_UPDATED", version=2)))
    world.do(lambda tx: tx.product_outbox.add(a_message(3, subject_id=product_id(2))))
    return world


def due(world: CliWorld) -> list[str]:
    found = world.see(lambda tx: due_messages(tx, OutboxKind.PRODUCT, datetime(9999, 1, 1, tzinfo=UTC), 10))
    return [message.outbox_id for message in found]


def test_an_empty_outbox_says_what_fills_it(world: CliWorld) -> None:
    assert "sellerwatch crawl SELLER_ID" in world.said("outbox", "list")
    assert world.json("outbox", "list") == {"content": [], "next": None, "limit": 20}


def test_the_list_shows_what_failed_and_what_is_held_behind_it(held: CliWorld) -> None:
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


def test_the_list_is_narrowed_by_state_and_seller(held: CliWorld) -> None:
    held.register()
    (failed,) = held.json("outbox", "list", "--status", "failed", "--seller", SELLER)["content"]
    assert failed["outboxId"] == FIRST
    assert "All of them: sellerwatch outbox list" in held.said("outbox", "list", "--status", "DISCARDED")
    assert "no seller nobody" in refused(held("outbox", "list", "--seller", "nobody"), 1)


def test_the_schedulers_outbox_is_the_other_one(world: CliWorld) -> None:
    world.register()
    (event,) = world.json("outbox", "list", "--kind", "scheduler")["content"]
    assert (event["eventType"], event["sellerId"], event["itemNo"]) == ("SCHEDULE_REGISTERED", SELLER, None)
    assert "scheduleId" in event
    assert "SCHEDULE_REGISTERED" in world.said("outbox", "show", event["outboxId"])


def test_show_has_the_payload_and_how_to_replay(held: CliWorld) -> None:
    shown = held.json("outbox", "show", FIRST)
    assert shown["payload"] == {"itemNo": 900000001}
    assert shown["productId"] == product_id()
    assert f"sellerwatch outbox replay {FIRST}" in held.said("outbox", "show", FIRST)
    assert FIRST in held.said("outbox", "show", BEHIND)


@pytest.mark.parametrize("command", ["show", "attempts", "replay", "discard"])
def test_an_unknown_message_is_one_sentence_and_no_uuid_is_bad_usage(world: CliWorld, command: str) -> None:
    assert refused(world("outbox", command, outbox_id(9)), 1) == f"There is no outbox message {outbox_id(9)}."
    assert "UUID" in refused(world("outbox", command, "x"), 2)


def test_a_replayed_message_waits_again_with_a_fresh_count_and_the_same_body(held: CliWorld) -> None:
    said = held.said("outbox", "replay", FIRST)
    assert "1 message waits to be sent again" in said
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


def test_a_discarded_message_frees_what_waits_behind_it_and_is_kept(held: CliWorld) -> None:
    result = held.json("outbox", "discard", FIRST)
    assert (result["done"], result["refused"], result["dryRun"]) == ([FIRST], [], False)
    assert due(held) == [BEHIND, FREE]
    message = held.see(lambda tx: tx.product_outbox.get(FIRST))
    assert message is not None
    assert message.status is MessageStatus.DISCARDED
    (entry,) = held.trail()
    assert entry.action == "message.discard"
    assert entry.after is not None
    assert entry.after["status"] == "DISCARDED"


def test_a_message_of_the_scheduler_is_replayed_in_its_own_outbox(world: CliWorld) -> None:
    waiting = a_message(5, subject_id=schedule_id(), event_type="SCHEDULE_UPDATED", item_no=None, version=0)
    failed = waiting.send(worker_id()).refuse("no such rule")
    world.do(lambda tx: tx.scheduler_outbox.add(waiting))
    world.do(lambda tx: tx.scheduler_outbox.move([failed], waiting.created_at))
    world.said("outbox", "replay", outbox_id(5))
    message = world.see(lambda tx: tx.scheduler_outbox.get(outbox_id(5)))
    assert message is not None
    assert message.status is MessageStatus.WAITING


def test_where_some_cannot_be_replayed_the_others_are_and_the_exit_code_says_so(held: CliWorld) -> None:
    done = held("outbox", "replay", BEHIND, FIRST)
    assert done.returncode == 3
    assert done.stderr == f"error: The message {BEHIND} is WAITING; to replay it must be FAILED.\n"
    assert [entry.subject_id for entry in held.trail()] == [FIRST]


def test_what_did_not_fail_cannot_be_discarded_and_nothing_changes(held: CliWorld) -> None:
    before = held.everything()
    assert "to discard it must be FAILED" in refused(held("outbox", "discard", FREE), 1)
    assert held.everything() == before


def test_the_list_is_narrowed_by_type_and_time(held: CliWorld) -> None:
    held.do(lambda tx: tx.product_outbox.add(a_message(4, subject_id=product_id(4), created_at=LATER)))

    def listed(*options: str) -> list[str]:
        return [message["outboxId"] for message in held.json("outbox", "list", *options)["content"]]

    assert listed("--type", "product_updated") == [BEHIND]
    assert listed("--since", "2026-11-15T07:00") == [outbox_id(4)]
    assert listed("--until", "2026-11-15T16:00+09:00") == [FREE, BEHIND, FIRST]
    assert listed("--since", "2026-11-16") == []
    assert "not a time" in refused(held("outbox", "list", "--since", "gestern"), 2)


def test_status_has_the_counts_the_lag_and_what_holds_messages_back(held: CliWorld) -> None:
    product, scheduler = held.json("outbox", "status")["content"]
    assert (product["kind"], scheduler["kind"]) == ("product", "scheduler")
    assert product["counts"] == {"WAITING": 2, "SENDING": 0, "COMPLETED": 0, "FAILED": 1, "DISCARDED": 0}
    assert (product["held"], product["oldestWaitingAt"]) == (1, "2026-11-15T06:04:05.123456Z")
    assert product["lagSeconds"] >= 0
    assert (product["isPaused"], product["circuit"]["state"]) == (False, "CLOSED")
    assert (scheduler["lagSeconds"], scheduler["held"]) == (0, 0)
    said = held.said("outbox", "status")
    assert "age of the oldest message that waits and is not held" in said
    assert "1 message waits behind one that failed for good" in said
    assert "No product server is set (SELLERWATCH_PRODUCT_SERVER_URL)" in said
    assert held.json("outbox", "status")["hasReceiver"] is False


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        (Channel(PRODUCT, paused_at=NOW, paused_by="cli:민지"), "paused by cli:민지"),
        (Channel(PRODUCT, CircuitState.OPEN, opened_at=NOW, not_before=NOW, reason="no answer"), "next probe now"),
        (
            Channel(PRODUCT, CircuitState.HALF_OPEN, opened_at=NOW, reason="[503] 점검 중"),
            "[503] 점검 중; a probe is being sent",
        ),
        (Channel(PRODUCT, send_limit=4), "at most 4 at a time"),
    ],
)
def test_status_says_why_nothing_is_sent(world: CliWorld, channel: Channel, said: str) -> None:
    world.do(lambda tx: tx.channels.save(channel, NOW))
    assert said in world.said("outbox", "status")


def test_attempts_are_listed_newest_first_with_what_the_receiver_said(held: CliWorld) -> None:
    tries = [
        Attempt(FIRST, 1, NOW, 5000, None, DeliveryVerdict.RETRY, False, "no answer within 5 s"),
        Attempt(FIRST, 1, LATER, 12, 422, DeliveryVerdict.REFUSED, True, "상품명이 너무 깁니다 [🧵]"),
    ]
    held.do(lambda tx: tx.attempts.add(PRODUCT, tries))
    newest, oldest = held.json("outbox", "attempts", FIRST)["content"]
    assert (newest["httpStatusCode"], newest["verdict"], newest["durationMs"]) == (422, "REFUSED", 12)
    assert newest["answer"] == "상품명이 너무 깁니다 [🧵]"
    assert (oldest["isCounted"], oldest["at"]) == (False, "2026-11-15T06:04:05.123456Z")
    said = held.said("outbox", "attempts", FIRST)
    assert "상품명이 너무 깁니다 [🧵]" in said
    assert "1 (not counted)" in said
    assert "never sent" in held.said("outbox", "attempts", FREE)


@pytest.fixture
def several(held: CliWorld) -> CliWorld:
    """Two more that failed for good, one of them of another type."""
    held.register()
    held.failed_message(11, subject_id=product_id(11))
    held.failed_message(12, subject_id=product_id(12), event_type="PRODUCT_DELETED")
    return held


def test_a_dry_run_says_in_numbers_what_would_happen_and_changes_nothing(several: CliWorld) -> None:
    before = several.everything()
    for command in ("replay", "discard"):
        assert several.json("outbox", command, "--all-failed", "--dry-run") == {
            "dryRun": True,
            "done": [],
            "refused": [],
            "messages": 3,
            "left": 3,
            "subjects": 3,
            "held": 1,
            "byType": {"PRODUCT_CREATED": 2, "PRODUCT_DELETED": 1},
            "bySeller": {SELLER: 3},
        }
    assert "3 messages of 3 subjects would be replayed; 1 message waits behind them." in several.said(
        "outbox", "replay", "--seller", SELLER, "--dry-run"
    )
    assert several.everything() == before


def test_many_are_replayed_or_discarded_by_a_choice(several: CliWorld) -> None:
    assert several.json("outbox", "discard", "--type", "PRODUCT_DELETED", "--yes")["discarded"] == 1
    said = several.said("outbox", "replay", "--all-failed", "--since", "2026-11-15")
    assert "2 messages wait to be sent again" in said
    assert several.json("outbox", "list", "--status", "FAILED")["content"] == []
    replayed, discarded = several.trail()
    assert (replayed.action, discarded.action) == ("message.replay", "message.discard")
    assert discarded.before is not None
    assert discarded.before["chosenBy"]["event_type"] == "PRODUCT_DELETED"


@pytest.mark.parametrize("command", ["replay", "discard"])
def test_a_dry_run_of_ids_refuses_the_same_and_changes_nothing(several: CliWorld, command: str) -> None:
    before = several.everything()
    result = several.json("outbox", command, FIRST, FREE, "--dry-run", code=3)
    assert (result["dryRun"], result["done"], result["messages"]) == (True, [FIRST], 1)
    assert [each["errorCode"] for each in result["refused"]] == ["ILLEGAL_MOVE"]
    assert "1 message would be" in several.said("outbox", command, FIRST, "--dry-run")
    assert several.everything() == before


def test_a_dry_run_of_a_pause_changes_nothing(world: CliWorld) -> None:
    before = world.everything()
    assert world.json("outbox", "pause", "--dry-run")["isPaused"]
    assert world.everything() == before


def test_a_long_list_is_read_page_by_page(several: CliWorld) -> None:
    first = several.json("outbox", "list", "--limit", "3")
    rest = several.json("outbox", "list", "--cursor", first["next"])
    assert (len(first["content"]), len(rest["content"]), rest["next"]) == (3, 2, None)
    assert f"--cursor {first['next']}" in several.said("outbox", "list", "--limit", "3")


def test_every_command_speaks_korean(several: CliWorld) -> None:
    def said(*arguments: str) -> str:
        done = several("outbox", *arguments, LANGUAGE="ko")
        assert done.returncode == 0
        return done.stdout

    assert "상품 아웃박스" in said("list")
    assert "보류: 앞선 메시지가 최종 실패했습니다." in said("list")
    assert "재전송" in said("show", FIRST)
    assert "보낸 적이 없거나" in said("attempts", FIRST)
    assert "최종 실패한 메시지 뒤에서 1건 대기" in said("status")
    assert "대상 3건의 메시지 3건을 폐기하게 됩니다." in said("discard", "--all-failed", "--dry-run")
    assert "메시지 1건을 재전송합니다." in said("replay", FIRST)
    assert "일시 중지했습니다." in said("pause")
    assert "일시 중지(cli:" in said("status")
    assert "재개했습니다." in said("resume")


def test_discarding_many_asks_first(several: CliWorld) -> None:
    before = several.everything()
    done = several("outbox", "discard", "--all-failed")
    assert done.returncode == 1
    assert "Discard 3 messages for good?" in done.stderr
    assert several.everything() == before


@pytest.mark.parametrize("command", ["replay", "discard"])
def test_which_messages_must_be_said_in_one_of_two_ways(held: CliWorld, command: str) -> None:
    assert "No messages were chosen" in refused(held("outbox", command), 2)
    assert "not both" in refused(held("outbox", command, FIRST, "--all-failed"), 2)
    assert "no seller nobody" in refused(held("outbox", command, "--seller", "nobody"), 1)


def test_the_schedulers_failures_are_chosen_by_kind(world: CliWorld) -> None:
    waiting = a_message(5, subject_id=schedule_id(), event_type="SCHEDULE_UPDATED", item_no=None, version=0)
    world.do(lambda tx: tx.scheduler_outbox.add(waiting.send(worker_id()).refuse("no such rule")))
    assert world.json("outbox", "replay", "--all-failed")["replayed"] == 0
    assert world.json("outbox", "replay", "--all-failed", "--kind", "scheduler")["replayed"] == 1


def test_a_pause_holds_until_it_is_resumed(world: CliWorld) -> None:
    said = world.said("outbox", "pause", "--reason", "the product server is being moved")
    assert "sellerwatch outbox resume" in said
    assert "is already paused" in refused(world("outbox", "pause"), 1)
    assert world.json("outbox", "status")["content"][0]["isPaused"]
    resumed = world.json("outbox", "resume")
    assert (resumed["kind"], resumed["isPaused"], resumed["circuit"]) == ("product", False, "CLOSED")
    assert "nothing to resume" in refused(world("outbox", "resume"), 1)
    resume, paused = world.trail()
    assert (paused.action, paused.note) == ("outbox.pause", "the product server is being moved")
    assert resume.action == "outbox.resume"
    assert "outbox product" in world.said("audit", "list", "--subject", "outbox")


def test_a_refused_seller_is_shown_and_tried_at_once_on_resume(world: CliWorld) -> None:
    world.do(lambda tx: tx.seller_circuits.save([a_refused_seller()], NOW))
    shown = world.said("outbox", "status")
    assert f"{SELLER} since" in shown
    assert "beside other sellers: answered 500: no" in shown
    before = world.everything()
    assert "It would be resumed" in world.said("outbox", "resume", "--dry-run")
    assert world.everything() == before
    assert "sends within seconds" in world.said("outbox", "resume")
    [circuit] = world.see(lambda tx: tx.seller_circuits.of(OutboxKind.PRODUCT)).values()
    assert (circuit.not_before == a_refused_seller().not_before, circuit.openings) == (False, 1)
    (entry,) = world.trail()
    assert (entry.action, (entry.after or {})["sellers"]) == ("outbox.resume", [SELLER])
    assert "nothing to resume" in refused(world("outbox", "resume", "--kind", "scheduler"), 1)


def test_delivery_times_are_shown_once_something_was_delivered(world: CliWorld) -> None:
    assert "No message was delivered yet." in world.said("outbox", "delivery-times")
    sent = structs.replace(a_message(1), status=MessageStatus.COMPLETED, sent_at=NOW + timedelta(seconds=2.5))
    world.do(lambda tx: tx.product_outbox.add(sent))
    assert world.said("outbox", "delivery-times").split()[-1] == "2.5"
    assert [each["seconds"] for each in world.json("outbox", "delivery-times")["content"]] == [2.5]
