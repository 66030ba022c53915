"""The marketplace keeps to its contract: sessions, list, detail, options."""

import re
from collections.abc import Callable
from random import Random

import orjson
import pytest
import zstandard
from tests.simulator.visiting import (
    AGENT,
    LIST,
    NOW,
    Visitor,
    cookies_of,
    credentials,
    detail_path,
    open_simulator,
    read_product,
)

from sellerwatch.simulator.rendering import Redesign
from sellerwatch.simulator.wire import SimulatedRequest

FIRST = 900_000_001
VOLATILE_ON_LIST = {"webSpacingInfo", "likeStatus", "likeImageUrl"}
VOLATILE_MODULES = {
    "SellerModule",
    "CatalogModule",
    "PromotionBannerModule",
    "NonMemberBannerModule",
    "PurchaseBenefitModule",
}


def test_the_three_parts_read_independently_make_the_truth() -> None:
    simulator = open_simulator(sellers=2, products=60)
    visitor = Visitor(simulator).enter()
    simulator.mutate(60, seed="x")
    for seller in simulator.world.sellers:
        page = orjson.loads(visitor.page(seller).body)
        assert page["count"] == simulator.world.count(seller) == len(page["items"])
        for entry in page["items"]:
            item_no = entry["itemNo"]
            detail = orjson.loads(visitor.detail(item_no).body)
            options = orjson.loads(visitor.options(item_no).body)
            assert read_product(entry, detail, options) == simulator.world.truth(item_no)


def test_home_gives_a_session_with_a_lifetime() -> None:
    answer = open_simulator().answer(SimulatedRequest("GET", "/", {}, {"user-agent": AGENT}), NOW)
    assert answer.status == 200
    assert set(cookies_of(answer)) == {"token", "nid", "mustit_uid"}
    assert cookies_of(answer)["mustit_uid"].startswith("1795000000000.")
    assert all("Max-Age=7200" in value for name, value in answer.headers if name == "set-cookie")


def test_another_user_agent_gets_another_token_and_cannot_use_mine() -> None:
    simulator = open_simulator()
    mine, yours = Visitor(simulator, "a").enter(), Visitor(simulator, "b").enter()
    assert mine.headers["authorization"] != yours.headers["authorization"]
    mine.headers["user-agent"] = "b"
    assert mine.detail(FIRST).status == 401


@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        (lambda headers: headers.pop("authorization"), 401),
        (lambda headers: headers.update(authorization="Bearer unknown"), 401),
        (lambda headers: headers.update(cookie=headers["cookie"].partition(";")[0]), 401),
        (lambda headers: headers.update(cookie="nid=x; mustit_uid=y"), 401),
        (lambda headers: headers.pop("cookie"), 401),
        (lambda headers: headers.update(authorization="Basic abc"), 400),
        (lambda headers: headers.update(authorization="Bearer "), 400),
        (lambda headers: headers.update(authorization="Bearer a b"), 400),
        (lambda headers: headers.update(cookie=headers["cookie"] + "; token=abc"), 400),
    ],
)
def test_credentials_that_are_missing_or_wrong_are_refused(
    spoil: Callable[[dict[str, str]], object], status: int
) -> None:
    visitor = Visitor(open_simulator()).enter()
    assert visitor.detail(FIRST).status == 200
    spoil(visitor.headers)
    assert visitor.detail(FIRST).status == status


def test_a_token_lives_as_long_as_it_says() -> None:
    visitor = Visitor(open_simulator()).enter(NOW)
    assert visitor.detail(FIRST, NOW + 7199).status == 200
    assert visitor.detail(FIRST, NOW + 7200).status == 401


def test_both_spellings_of_the_list_are_answered() -> None:
    visitor = Visitor(open_simulator(volatile=False)).enter()
    other = LIST.replace("searchmini", "search/mini")
    query = {"sellerId": "seller_0001", "pageNo": 0, "pageSize": 10, "order": "LATEST"}
    assert visitor.get(LIST, NOW, **query) == visitor.get(other, NOW, **query)


def test_pages_count_from_0_and_do_not_overlap() -> None:
    simulator = open_simulator(products=25)
    visitor = Visitor(simulator).enter()
    pages = [orjson.loads(visitor.page("seller_0001", number, 10).body)["items"] for number in range(4)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert [entry["itemNo"] for page in pages for entry in page] == list(simulator.world.listing("seller_0001"))


def test_prices_on_the_list_are_text_with_thousands_commas() -> None:
    simulator = open_simulator()
    entry = orjson.loads(Visitor(simulator).enter().page("seller_0001", 0, 1).body)["items"][0]
    product = simulator.world.product(entry["itemNo"])
    assert product is not None
    assert entry["price"] == f"{product.prices.discount:,}"
    assert entry["originalPrice"] == entry["normalPrice"] == f"{product.prices.normal:,}"
    assert entry["discountRate"] == str(product.prices.rate)


def test_a_list_name_may_differ_from_the_details_name() -> None:
    simulator = open_simulator()
    entries = orjson.loads(Visitor(simulator).enter().page("seller_0001").body)["items"]
    names = {item_no: truth["name"] for item_no, truth in simulator.world.catalogue("seller_0001")}
    assert any(entry["name"] != names[entry["itemNo"]] for entry in entries)


def test_an_unknown_seller_has_count_0_and_no_items() -> None:
    page = orjson.loads(Visitor(open_simulator()).enter().page("nobody").body)
    assert (page["count"], page["items"]) == (0, [])


@pytest.mark.parametrize(
    "query",
    [
        {"pageNo": 0, "pageSize": 10, "order": "LATEST"},
        {"sellerId": "seller_0001", "pageNo": -1, "pageSize": 10, "order": "LATEST"},
        {"sellerId": "seller_0001", "pageNo": 0, "pageSize": 0, "order": "LATEST"},
        {"sellerId": "seller_0001", "pageNo": 0, "pageSize": 1001, "order": "LATEST"},
        {"sellerId": "seller_0001", "pageNo": "x", "pageSize": 10, "order": "LATEST"},
        {"sellerId": "seller_0001", "pageNo": 0, "pageSize": 10},
    ],
)
def test_a_malformed_list_question_is_answered_400(query: dict[str, object]) -> None:
    assert Visitor(open_simulator()).enter().get(LIST, NOW, **query).status == 400


def test_what_is_not_there_is_404_and_what_is_not_got_is_405() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    simulator.world.vanish(FIRST)
    assert visitor.detail(FIRST).status == 404
    assert visitor.options(FIRST).status == 404
    assert visitor.detail(1).status == 404
    assert visitor.get(detail_path(FIRST).replace(str(FIRST), "x")).status == 404
    assert visitor.get("/elsewhere").status == 404
    assert simulator.answer(SimulatedRequest("POST", detail_path(FIRST + 1), {}, visitor.headers), NOW).status == 405
    assert visitor.get("/robots.txt").status == 200


def test_details_have_the_size_asked_for() -> None:
    for kilobytes in (4, 30):
        visitor = Visitor(open_simulator(detail_kb=kilobytes)).enter()
        sizes = [len(visitor.detail(FIRST + at).body) for at in range(40)]
        assert all(0.85 < size / 1024 / kilobytes < 1.15 for size in sizes)


def test_random_text_has_the_size_asked_for_and_compresses_as_a_shops_text_does() -> None:
    visitor = Visitor(open_simulator(detail_kb=14, random_text=True)).enter()
    bodies = [visitor.detail(FIRST + at).body for at in range(40)]
    assert all(0.85 < len(body) / 1024 / 14 < 1.15 for body in bodies)
    for level in (1, 3):
        packed = sum(len(zstandard.ZstdCompressor(level=level).compress(body)) for body in bodies)
        assert 2.4 < sum(map(len, bodies)) / packed < 3


def test_random_text_does_not_repeat_between_products_and_stays_random_when_changed() -> None:
    world = open_simulator(detail_kb=14, random_text=True).world
    world.change(FIRST, Random(1), "redescribe")
    seen = set[str]()
    for item_no in range(FIRST, FIRST + 10):
        product = world.product(item_no)
        assert product is not None
        text = re.sub("<[^>]*>", "", product.description.html())
        assert "정품" not in text
        assert not {text[at : at + 60] for at in range(0, len(text) - 60, 20)} & seen
        seen |= {text[at : at + 60] for at in range(len(text))}


def test_details_are_14_to_150_kilobytes_unless_said_otherwise() -> None:
    visitor = Visitor(open_simulator()).enter()
    sizes = [len(visitor.detail(FIRST + at).body) / 1024 for at in range(40)]
    assert 13 < min(sizes) < 20
    assert 140 < max(sizes) < 155


def test_volatile_fields_of_the_list_really_vary_and_nothing_else_does() -> None:
    visitor = Visitor(open_simulator()).enter()
    pages = [orjson.loads(visitor.page("seller_0001").body)["items"] for _ in range(8)]
    for name in VOLATILE_ON_LIST - {"webSpacingInfo"}:
        assert len({orjson.dumps([entry[name] for entry in page]) for page in pages}) > 1
    assert {entry["webSpacingInfo"] for entry in pages[0]} == {"odd", "even"}
    facts = [[{k: v for k, v in entry.items() if k not in VOLATILE_ON_LIST} for entry in page] for page in pages]
    assert all(page == facts[0] for page in facts)


def test_web_spacing_depends_on_the_position() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    simulator.world.bump(FIRST)
    first = orjson.loads(visitor.page("seller_0001").body)["items"][0]
    simulator.world.bump(FIRST + 1)
    second = orjson.loads(visitor.page("seller_0001").body)["items"][1]
    assert first["itemNo"] == second["itemNo"] == FIRST
    assert first["webSpacingInfo"] != second["webSpacingInfo"]


def test_volatile_modules_of_the_detail_really_vary_and_nothing_else_does() -> None:
    visitor = Visitor(open_simulator()).enter()
    details = [orjson.loads(visitor.detail(FIRST).body) for _ in range(12)]
    modules = [{module["type"]: module["data"] for module in detail["moduleList"]} for detail in details]
    for kind in modules[0]:
        versions = {orjson.dumps(each[kind]) for each in modules}
        assert (len(versions) > 1) == (kind in VOLATILE_MODULES)
    assert len({orjson.dumps(detail["bottom"]) for detail in details}) > 1
    assert len({detail["nextApiUrl"] for detail in details}) > 1
    assert isinstance(modules[0]["PromotionBannerModule"], list)
    assert isinstance(modules[0]["TabListModule"], list)


def test_the_order_of_modules_and_options_varies() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    details = [orjson.loads(visitor.detail(FIRST).body) for _ in range(8)]
    assert len({tuple(module["type"] for module in detail["moduleList"]) for detail in details}) > 1
    many = FIRST + 16
    orders = [[option["optionNo"] for option in orjson.loads(visitor.options(many).body)] for _ in range(3)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_without_volatility_equal_facts_give_equal_bytes() -> None:
    simulator = open_simulator(volatile=False)
    visitor, other = Visitor(simulator).enter(), Visitor(open_simulator(volatile=False), "other").enter()
    for ask in (Visitor.detail, Visitor.options):
        assert ask(visitor, FIRST).body == ask(visitor, FIRST).body == ask(other, FIRST).body
    assert visitor.page("seller_0001").body == other.page("seller_0001").body
    simulator.world.change(FIRST, simulator.marketplace.chaos.rng, "reprice")
    assert visitor.detail(FIRST).body != other.detail(FIRST).body


def test_a_change_is_seen_in_the_next_answer() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    visitor.detail(FIRST)
    simulator.world.change(FIRST, simulator.marketplace.chaos.rng, "rename")
    truth = simulator.world.truth(FIRST)
    assert truth is not None
    assert orjson.dumps(truth["name"]) in visitor.detail(FIRST).body


def test_a_redesign_renames_fields_and_changes_a_type_for_one_seller_only() -> None:
    simulator = open_simulator(products=50)
    visitor = Visitor(simulator).enter()
    simulator.marketplace.renderer.redesign(Redesign(), ("seller_0001",))

    def info(item_no: int) -> dict[str, object]:
        modules = orjson.loads(visitor.detail(item_no).body)["moduleList"]
        (found,) = (module["data"] for module in modules if module["type"] == "ProductInfoModule")
        return dict(found)

    assert "itemName" not in info(FIRST)
    assert "productTitle" in info(FIRST)
    assert isinstance(info(FIRST)["stock"], str)
    assert "itemName" in info(FIRST + 50)
    simulator.marketplace.renderer.redesign(None)
    assert "itemName" in info(FIRST)


def test_tokens_and_requests_are_counted() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    visitor.page("seller_0001")
    visitor.detail(FIRST)
    visitor.detail(1)
    visitor.options(FIRST)
    stats = simulator.marketplace.stats()
    assert stats["requests"] == {"session": 1, "list": 1, "detail": 2, "options": 1}
    assert stats["statuses"] == {"200": 4, "404": 1}
    assert stats["tokens_issued"] == 1
    assert stats["most_in_a_window"] == 4


def test_several_sessions_of_one_user_agent_live_at_once() -> None:
    simulator = open_simulator()
    old = Visitor(simulator).enter()
    new = Visitor(simulator).enter()
    assert old.headers != new.headers == credentials(AGENT, _cookies(new))
    assert old.detail(FIRST).status == new.detail(FIRST).status == 200


def _cookies(visitor: Visitor) -> dict[str, str]:
    cookies = dict(part.strip().split("=", 1) for part in visitor.headers["cookie"].split(";"))
    return cookies | {"token": visitor.headers["authorization"].removeprefix("Bearer ")}
