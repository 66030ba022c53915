"""The product server holds its sender to event.md."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from tests.simulator.visiting import NOW, event, header, posted

from sellerwatch.simulator.product_server import ProductServer, ServerBehaviour, ServerMode
from sellerwatch.simulator.wire import ConnectionFault, SimulatedAnswer, SimulatedRequest
from sellerwatch.simulator.world import World

FIRST = 900_000_001
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def world() -> World:
    return World(seed=5, sellers=2, products_per_seller=10, detail_kb=4)


@pytest.fixture
def data(world: World) -> dict[str, Any]:
    found = world.truth(FIRST)
    assert found is not None
    return found


def send(server: ProductServer, told: dict[str, Any], **headers: str) -> SimulatedAnswer:
    return server.answer(posted(told, **headers), NOW)


def rules(server: ProductServer) -> list[str]:
    return [violation.rule for violation in server.violations]


def repriced(data: dict[str, Any], selling: int) -> dict[str, Any]:
    return data | {"prices": data["prices"] | {"selling": selling}}


def change(field: str, before: object, after: object) -> dict[str, object]:
    return {"field": field, "before": before, "after": after}


def test_the_life_of_a_product_breaks_no_rule(data: dict[str, Any]) -> None:
    server = ProductServer()
    cheaper = repriced(data, 1)
    changes = [change("prices.selling", data["prices"]["selling"], 1)]
    life = [
        event("CREATED", data, 1),
        event("UPDATED", cheaper, 2, changes=changes),
        event("DELETED", cheaper, 3),
        event("CREATED", data, 4),
    ]
    assert [send(server, told).status for told in life] == [200] * 4
    assert server.violations == []
    assert server.product(FIRST) == data
    assert server.version(FIRST) == 4
    assert [received.event_type for received in server.events()] == [told["eventType"] for told in life]
    assert [received.sequence for received in server.events(after=2)] == [3, 4]


def test_a_duplicate_is_acknowledged_and_not_applied_again(data: dict[str, Any]) -> None:
    server = ProductServer()
    told = event("CREATED", data)
    answers = [send(server, told), send(server, told)]
    assert [answer.status for answer in answers] == [200, 200]
    assert orjson.loads(answers[1].body)["duplicate"] is True
    assert (server.duplicates, len(server.events()), server.violations) == (1, 1, [])


def test_the_same_key_with_another_body_is_a_violation_and_changes_nothing(data: dict[str, Any]) -> None:
    server = ProductServer()
    told = event("CREATED", data)
    send(server, told)
    assert send(server, told | {"productData": repriced(data, 1)}).status == 409
    assert rules(server) == ["the same Idempotency-Key with another body"]
    assert server.product(FIRST) == data


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda told: told.update(version=2), "version 2 follows 0"),
        (lambda told: told.update(eventType="PRODUCT_UPDATED"), "PRODUCT_UPDATED of an item that is not there"),
        (lambda told: told.update(eventType="PRODUCT_UPDATED"), "UPDATED without changes"),
        (lambda told: told.update(eventType="PRODUCT_DELETED"), "PRODUCT_DELETED of an item that is not there"),
        (lambda told: told.update(eventType="SOMETHING"), "unknown eventType SOMETHING"),
        (lambda told: told.update(changes=[change("stock", 1, 2)]), "PRODUCT_CREATED with changes"),
        (lambda told: told.update(sellerId="x"), "productData is of seller seller_0001"),
        (lambda told: told.update(itemNo=1), f"productData is of item {FIRST}"),
    ],
)
def test_a_first_event_that_breaks_a_rule_is_recorded(
    data: dict[str, Any], spoil: Callable[[dict[str, Any]], None], rule: str
) -> None:
    server = ProductServer()
    told = event("CREATED", data)
    spoil(told)
    assert send(server, told).status == 200
    assert rule in rules(server)


@pytest.mark.parametrize(
    ("kind", "version", "changes", "rule"),
    [
        ("CREATED", 2, [], "CREATED, but the item is there already"),
        ("UPDATED", 2, [], "UPDATED without changes"),
        ("UPDATED", 3, [change("prices.selling", 0, 1)], "version 3 follows 1"),
        ("UPDATED", 2, [change("prices.selling", 0, 2)], "after of prices.selling disagrees with productData"),
        ("UPDATED", 2, [change("prices.selling", 0, 1)], "before of prices.selling disagrees with what was sent last"),
        ("UPDATED", 2, [change("stock", 3, 3)], "prices.selling changed untold"),
        ("UPDATED", 2, [change("stock", 3, 3)], "stock did not change"),
        ("DELETED", 2, [], "DELETED does not carry the last known productData"),
        ("DELETED", 2, [change("prices.selling", 0, 1)], "PRODUCT_DELETED with changes"),
    ],
)
def test_a_second_event_that_breaks_a_rule_is_recorded(
    data: dict[str, Any], kind: str, version: int, changes: list[dict[str, object]], rule: str
) -> None:
    server = ProductServer()
    send(server, event("CREATED", data))
    send(server, event(kind, repriced(data, 1), version, changes=changes))
    assert rule in rules(server)


def test_a_snapshot_replaces_or_removes_an_item_without_its_history(data: dict[str, Any]) -> None:
    server = ProductServer()
    send(server, event("SNAPSHOT", data, 1, deleted=False))
    assert (server.product(FIRST), server.version(FIRST)) == (data, 1)
    send(
        server, event("UPDATED", repriced(data, 1), 2, changes=[change("prices.selling", data["prices"]["selling"], 1)])
    )
    send(server, event("SNAPSHOT", repriced(data, 2), 3, deleted=True))
    assert (server.product(FIRST), server.version(FIRST)) == (None, 3)
    send(server, event("SNAPSHOT", data, 4, deleted=True))
    send(server, event("CREATED", data, 5))
    assert (server.product(FIRST), server.violations) == (data, [])


@pytest.mark.parametrize(
    ("kind", "flag"), [("SNAPSHOT", {}), ("SNAPSHOT", {"deleted": 0}), ("CREATED", {"deleted": True})]
)
def test_a_snapshot_alone_says_whether_the_item_is_deleted(
    data: dict[str, Any], kind: str, flag: dict[str, Any]
) -> None:
    assert send(ProductServer(), event(kind, data) | flag).status == 400


def test_a_ping_is_answered_and_changes_nothing() -> None:
    server = ProductServer()
    ping = {"eventId": "e-1", "eventType": "PING", "occurredAt": "2026-11-15T06:04:05.123456Z", "schemaVersion": 1}
    assert send(server, ping).status == 200
    assert (server.stats()["pings"], server.stats()["events"], server.violations) == (1, 0, [])


def test_options_change_by_number(data: dict[str, Any]) -> None:
    server = ProductServer()
    send(server, event("CREATED", data))
    first, *others = data["options"]
    added = first | {"optionNo": 2**40}
    stocked = [option | {"stock": option["stock"] + 1} for option in others]
    changes = [change(f"options[{first['optionNo']}]", first, None), change(f"options[{2**40}]", None, added)]
    for old, new in zip(others, stocked, strict=True):
        changes.append(change(f"options[{old['optionNo']}].stock", old["stock"], new["stock"]))
    options = sorted([*stocked, added], key=lambda option: int(option["optionNo"]))
    send(server, event("UPDATED", data | {"options": options}, 2, changes=changes))
    assert server.violations == []


def test_a_version_already_passed_does_not_undo_a_later_one(data: dict[str, Any]) -> None:
    server = ProductServer()
    send(server, event("CREATED", data, 1))
    send(server, event("UPDATED", repriced(data, 1), 1, changes=[change("prices.selling", 0, 1)]))
    assert "version 1 follows 1" in rules(server)
    assert server.product(FIRST) == data


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"{}", b'{"eventId":1}', orjson.dumps({"eventId": "a", "eventType": "b", "itemNo": "x"})]
)
def test_a_body_that_is_no_event_is_answered_400(body: bytes) -> None:
    server = ProductServer()
    assert server.answer(SimulatedRequest("POST", "/any/path", {}, {}, body), NOW).status == 400
    assert server.stats()["violations"] == 1


@pytest.mark.parametrize("missing", ["changes", "productData", "version", "occurredAt"])
def test_every_field_of_an_event_is_required(data: dict[str, Any], missing: str) -> None:
    told = event("CREATED", data)
    del told[missing]
    server = ProductServer()
    assert send(server, told).status == 400
    assert missing in rules(server)[0]


def test_the_headers_must_name_the_event(data: dict[str, Any]) -> None:
    server = ProductServer()
    told = event("CREATED", data)
    server.answer(posted(told, **{"webhook-id": "x"}), NOW)
    told = event("DELETED", data, 2)
    server.answer(posted(told, **{"idempotency-key": "y"}), NOW)
    server.answer(replace(posted(event("CREATED", data, 3)), headers={}), NOW)
    assert rules(server) == ["webhook-id is x", "idempotency-key is y", "idempotency-key is None"]


@pytest.mark.parametrize("secret", [WHSEC, "plain secret 비밀"])
def test_a_signature_is_verified(data: dict[str, Any], secret: str) -> None:
    told = event("CREATED", data)
    server = ProductServer(secret)
    assert server.answer(posted(told), NOW).status == 401
    assert server.answer(posted(told, "wrong"), NOW).status == 401
    assert server.answer(replace(posted(told, secret), body=b"{}"), NOW).status == 401
    assert len(server) == 0
    assert server.answer(posted(told, secret), NOW).status == 200
    assert len(server) == 1


def test_a_signature_of_the_standards_own_example_is_right() -> None:
    """The example of the Standard Webhooks specification's reference libraries."""
    body = b'{"test": 2432232314}'
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    answer = ProductServer(WHSEC).answer(SimulatedRequest("POST", "/", {}, headers, body), NOW)
    assert answer.status == 400  # 401 if the signature were wrong; the body is no event


def test_while_a_secret_is_rotated_one_good_signature_among_several_is_enough(data: dict[str, Any]) -> None:
    told = event("CREATED", data)
    old, new = posted(told, "old"), posted(told, "new")
    both = f"{old.headers['webhook-signature']} {new.headers['webhook-signature']}"
    for accepted in ("old", "new", ("newest", "old")):
        assert ProductServer(accepted).answer(posted(told, **{"webhook-signature": both}), NOW).status == 200


def test_a_whsec_secret_that_is_not_base64_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="base64"):
        ProductServer("whsec_%%%")


@pytest.mark.parametrize(
    ("mode", "status", "fault", "processed"),
    [
        (ServerMode.WELL, 200, ConnectionFault.NONE, True),
        (ServerMode.DOWN, 0, ConnectionFault.DROP, False),
        (ServerMode.ERROR, 500, ConnectionFault.NONE, False),
        (ServerMode.ERROR_AFTER, 500, ConnectionFault.NONE, True),
        (ServerMode.DROP_AFTER, 0, ConnectionFault.DROP, True),
        (ServerMode.HANG, 0, ConnectionFault.HANG, False),
        (ServerMode.THROTTLE, 429, ConnectionFault.NONE, False),
        (ServerMode.REDIRECT, 302, ConnectionFault.NONE, False),
    ],
)
def test_it_misbehaves_on_command(
    data: dict[str, Any], mode: ServerMode, status: int, fault: ConnectionFault, processed: bool
) -> None:
    server = ProductServer()
    server.behave(ServerBehaviour(mode))
    answer = send(server, event("CREATED", data))
    assert (answer.status, answer.fault) == (status, fault)
    assert (len(server) == 1) == processed


def test_a_throttled_sender_is_told_how_long_to_wait(data: dict[str, Any]) -> None:
    server = ProductServer()
    server.behave(ServerBehaviour(ServerMode.THROTTLE, retry_after=17))
    assert header(send(server, event("CREATED", data)), "retry-after") == "17"


def test_it_misbehaves_for_the_next_requests_only(data: dict[str, Any]) -> None:
    server = ProductServer()
    server.behave(ServerBehaviour(ServerMode.ERROR, requests=2))
    told = event("CREATED", data)
    assert [send(server, told).status for _ in range(4)] == [500, 500, 200, 200]


def test_it_misbehaves_by_chance(data: dict[str, Any]) -> None:
    server = ProductServer()
    server.behave(ServerBehaviour(ServerMode.ERROR, probability=0.3))
    told = event("CREATED", data)
    failed = sum(send(server, told).status == 500 for _ in range(500))
    assert 100 < failed < 200


def test_only_posts_are_taken() -> None:
    assert ProductServer().answer(SimulatedRequest("GET", "/"), NOW).status == 405


def test_a_catalogue_equal_to_the_truth_has_no_mismatch(world: World) -> None:
    server = ProductServer()
    for _, truth in world.catalogue():
        send(server, event("CREATED", truth))
    assert server.compare(world) == []
    assert dict(server.catalogue()) == dict(world.catalogue())


def test_a_comparison_names_every_field_that_differs(world: World) -> None:
    server = ProductServer()
    for item_no, truth in world.catalogue():
        if item_no == FIRST:
            spoilt = repriced(truth, 1) | {"soldOut": int(truth["soldOut"]), "tags": ["x"]}
            spoilt["options"] = [truth["options"][0] | {"stock": 99}, *truth["options"][1:]]
            send(server, event("CREATED", spoilt))
        elif item_no != FIRST + 1:
            send(server, event("CREATED", truth))
    send(server, event("CREATED", {"itemNo": 5, "sellerId": "seller_0001"}))
    found = {(mismatch.item_no, mismatch.field): mismatch for mismatch in server.compare(world)}
    stock = f"options[{FIRST * 1000}].stock"
    assert set(found) == {
        (5, "item"),
        (FIRST, "prices.selling"),
        (FIRST, "soldOut"),
        (FIRST, "tags"),
        (FIRST, stock),
        (FIRST + 1, "item"),
    }
    assert found[FIRST, stock].actual == 99
    assert (found[5, "item"].expected, found[5, "item"].actual) == ("absent", "present")
    assert (found[FIRST + 1, "item"].expected, found[FIRST + 1, "item"].actual) == ("present", "missing")


def test_options_in_the_wrong_order_are_a_mismatch(world: World) -> None:
    server = ProductServer()
    item_no = next(no for no, truth in world.catalogue() if len(truth["options"]) > 1)
    truth = world.truth(item_no)
    assert truth is not None
    send(server, event("CREATED", truth | {"options": truth["options"][::-1]}))
    assert [m.field for m in server.compare(world) if m.item_no == item_no] == ["options"]


def test_a_comparison_may_be_of_one_seller(world: World) -> None:
    server = ProductServer()
    for _, truth in world.catalogue("seller_0002"):
        send(server, event("CREATED", truth))
    assert server.compare(world, ["seller_0002"]) == []
    assert len(server.compare(world, ["seller_0001"])) == 10


def test_a_vanished_product_that_is_still_held_is_a_mismatch(world: World, data: dict[str, Any]) -> None:
    server = ProductServer()
    send(server, event("CREATED", data))
    world.vanish(FIRST)
    assert [m.item_no for m in server.compare(world) if m.expected == "absent"] == [FIRST]


def test_the_history_is_bounded(data: dict[str, Any]) -> None:
    server = ProductServer(history=3)
    for version in range(1, 6):
        send(server, event("CREATED", data, version))
    assert [received.sequence for received in server.events()] == [3, 4, 5]
    assert server.stats()["events"] == 5


def test_a_product_of_14_kilobytes_is_kept_in_a_fraction_of_it() -> None:
    """200,000 of them must fit in a test machine's memory."""
    server = ProductServer()
    world = World(seed=1, sellers=1, products_per_seller=300, detail_kb=14)
    requests = [posted(event("CREATED", truth)) for _, truth in world.catalogue()]
    tracemalloc.start()
    try:
        for request in requests:
            server.answer(request, NOW)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held / 300 < 6_000


@pytest.mark.parametrize("odd", [None, "x", [1], [{"optionNo": "a"}], [{"optionNo": 1}, {"optionNo": 1}]])
def test_data_of_an_unexpected_shape_is_one_difference_and_no_crash(world: World, odd: object) -> None:
    server = ProductServer()
    truth = world.truth(FIRST)
    assert truth is not None
    send(server, event("CREATED", truth | {"options": odd, "brand": "x"}))
    assert {m.field for m in server.compare(world) if m.item_no == FIRST} == {"options", "brand"}
