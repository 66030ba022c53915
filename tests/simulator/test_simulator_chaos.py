"""What goes wrong on purpose."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from email.utils import parsedate_to_datetime
from itertools import count

import orjson
import pytest
from tests.simulator.visiting import AGENT, NOW, Visitor, header, open_simulator

from sellerwatch.simulator.chaos import PROFILES, Chaos, ChaosProfile, FaultKind, Outage, Storms
from sellerwatch.simulator.simulator import Simulator
from sellerwatch.simulator.wire import ConnectionFault, SimulatedAnswer

FIRST = 900_000_001


def on_a_day(profile: ChaosProfile, **knobs: object) -> Visitor:
    """A visitor who came in on a calm day, before this one began."""
    simulator = open_simulator(**knobs)
    visitor = Visitor(simulator).enter()
    simulator.marketplace.chaos.become(profile)
    return visitor


def test_on_a_calm_day_nothing_goes_wrong() -> None:
    visitor = Visitor(open_simulator()).enter()
    answers = [visitor.detail(FIRST + at % 50) for at in range(500)]
    assert all(
        answer.status == 200 and answer.fault is ConnectionFault.NONE and answer.delay == 0 for answer in answers
    )
    assert visitor.simulator.marketplace.stats()["faults"] == {}


def test_an_error_is_a_5xx() -> None:
    visitor = on_a_day(ChaosProfile(error=1))
    assert {visitor.detail(FIRST).status for _ in range(50)} == {500, 502, 503}


def test_a_drop_answers_nothing() -> None:
    answer = on_a_day(ChaosProfile(drop=1)).detail(FIRST)
    assert (answer.fault, answer.body) == (ConnectionFault.DROP, b"")


def test_a_cut_has_its_whole_body_to_be_cut_on_the_way() -> None:
    answer = on_a_day(ChaosProfile(cut=1)).detail(FIRST)
    assert answer.fault is ConnectionFault.CUT
    assert orjson.loads(answer.body)


def test_a_truncated_body_arrives_whole_but_is_no_json() -> None:
    answer = on_a_day(ChaosProfile(truncated=1)).detail(FIRST)
    assert (answer.status, answer.fault) == (200, ConnectionFault.NONE)
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(answer.body)


def test_an_html_page_comes_with_status_200() -> None:
    answer = on_a_day(ChaosProfile(html=1)).detail(FIRST)
    assert (answer.status, answer.content_type) == (200, "text/html; charset=utf-8")
    assert answer.body.startswith(b"<!doctype html>")


def test_a_failed_home_page_sets_no_token() -> None:
    for profile in (ChaosProfile(html=1), ChaosProfile(error=1), ChaosProfile(drop=1)):
        with pytest.raises(AssertionError, match="no session"):
            on_a_day(profile).enter()


def test_a_revoked_token_is_refused_and_a_new_one_is_needed() -> None:
    visitor = on_a_day(ChaosProfile(revoked=1))
    assert visitor.detail(FIRST).status == 401
    visitor.simulator.marketplace.chaos.become(PROFILES["calm"])
    assert visitor.detail(FIRST).status == 401
    assert visitor.enter().detail(FIRST).status == 200


def test_a_short_lived_token_expires() -> None:
    visitor = on_a_day(replace(PROFILES["expiring"], revoked=0)).enter()
    assert visitor.detail(FIRST, NOW + 19).status == 200
    assert visitor.detail(FIRST, NOW + 20).status == 401


def test_a_storm_comes_at_the_end_of_each_period_and_passes() -> None:
    visitor = on_a_day(ChaosProfile(storms=Storms(every=10, length=2, share=1)))
    statuses = [visitor.detail(FIRST, NOW + second + 0.5).status for second in range(20)]
    assert statuses == ([200] * 8 + [429] * 2) * 2
    assert visitor.simulator.marketplace.stats()["faults"] == {"storm": 4}


def test_a_storm_is_nobody_over_budget() -> None:
    visitor = on_a_day(ChaosProfile(storms=Storms(every=1, length=1, share=1)))
    assert visitor.detail(FIRST).status == 429
    stats = visitor.simulator.marketplace.stats()
    assert (stats["over_budget"], stats["over_rate"]) == (0, 0)


def test_a_storm_refuses_no_more_than_its_bound() -> None:
    visitor = on_a_day(ChaosProfile(storms=Storms(every=10, length=10, share=1, at_most=3)))
    first = [visitor.detail(FIRST, NOW + at / 10).status for at in range(10)]
    second = [visitor.detail(FIRST, NOW + 10 + at / 10).status for at in range(10)]
    assert Counter(first)[429] == Counter(second)[429] == 3


def test_a_storms_retry_after_is_seconds_or_a_date_or_missing() -> None:
    visitor = on_a_day(ChaosProfile(storms=Storms(every=1, length=1, share=1, retry_after=(2, 5))))
    said = [header(visitor.detail(FIRST, NOW + at), "retry-after") for at in range(60)]
    seconds = [text for text in said if text is not None and text.isdigit()]
    dates = [(at, text) for at, text in enumerate(said) if text is not None and not text.isdigit()]
    assert seconds
    assert all(2 <= int(text) <= 5 for text in seconds)
    assert dates
    assert all(2 <= parsedate_to_datetime(text).timestamp() - NOW - at <= 6 for at, text in dates)
    assert None in said


@pytest.mark.parametrize("profile", [ChaosProfile(cut=1), ChaosProfile(truncated=1)])
def test_only_faults_that_were_really_inflicted_are_counted(profile: ChaosProfile) -> None:
    visitor = on_a_day(profile)
    visitor.detail(1)
    visitor.enter()
    assert visitor.simulator.marketplace.stats()["faults"] == {}
    visitor.detail(FIRST)
    assert sum(visitor.simulator.marketplace.stats()["faults"].values()) == 1


def test_a_storm_over_the_home_page_or_a_token_that_never_was_is_not_counted() -> None:
    stormy = on_a_day(ChaosProfile(storms=Storms(every=1, length=1, share=1))).enter()
    assert stormy.simulator.marketplace.stats()["faults"] == {}
    revoking = on_a_day(ChaosProfile(revoked=1))
    assert [revoking.detail(FIRST).status for _ in range(3)] == [401] * 3
    assert revoking.simulator.marketplace.stats()["faults"] == {"revoked": 1}


def test_latency_is_a_delay_of_the_answer_with_jitter() -> None:
    visitor = on_a_day(PROFILES["slow"])
    delays = [visitor.detail(FIRST).delay for _ in range(200)]
    assert 0.1 <= min(delays) < max(delays) <= 0.7


def test_latency_asked_for_overrides_the_profiles() -> None:
    visitor = Visitor(open_simulator(profile="slow", latency_ms=20)).enter()
    delays = [visitor.detail(FIRST).delay for _ in range(100)]
    assert all(0.015 <= delay <= 0.025 for delay in delays)


def test_a_foreign_item_is_mixed_in_and_its_detail_says_whose_it_is() -> None:
    visitor = on_a_day(PROFILES["foreign"])
    world = visitor.simulator.world
    page = orjson.loads(visitor.page("seller_0001", page_size=60).body)
    foreign = [entry["itemNo"] for entry in page["items"] if world.seller_of(entry["itemNo"]) != "seller_0001"]
    assert len(foreign) == 1
    assert len(page["items"]) == 51
    assert len(orjson.loads(visitor.page("seller_0001", page_size=20).body)["items"]) == 20, "a full page has no room"
    assert b'"sellerId":"seller_0002"' in visitor.detail(foreign[0]).body


def test_a_detail_without_its_module_has_all_the_others() -> None:
    visitor = on_a_day(PROFILES["moduleless"])
    kinds = {module["type"] for module in orjson.loads(visitor.detail(FIRST).body)["moduleList"]}
    assert "ProductInfoModule" not in kinds
    assert "ProductDetailInfoModule" in kinds


def test_an_inflated_list_states_a_total_that_no_seller_can_have() -> None:
    visitor = on_a_day(PROFILES["inflated"])
    page = orjson.loads(visitor.page("seller_0001", page_size=20).body)
    assert (page["count"], len(page["items"])) == (4611686018427387904, 20)


def test_asking_the_total_is_never_disturbed_by_foreign_or_shifting_items() -> None:
    visitor = on_a_day(ChaosProfile(foreign=1, shift=1))
    before = list(visitor.simulator.world.listing("seller_0001"))
    page = orjson.loads(visitor.page("seller_0001", page_size=1).body)
    assert (page["count"], len(page["items"])) == (50, 1)
    assert list(visitor.simulator.world.listing("seller_0001")) == before


def test_items_shift_between_pages_until_the_list_settles() -> None:
    visitor = on_a_day(replace(PROFILES["shifting"], shift=1.0))
    world = visitor.simulator.world
    orders = []
    for _ in range(8):
        visitor.page("seller_0001", page_size=10)
        orders.append(list(world.listing("seller_0001")))
    assert len({tuple(order) for order in orders[:5]}) > 1
    assert orders[4] == orders[5] == orders[7]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("calm", set()),
        ("flaky", {"error", "drop", "cut", "truncated", "html", "revoked", "foreign", "shift"}),
        ("hostile", {"error", "drop", "cut", "truncated", "html", "revoked", "storm", "foreign", "shift"}),
        ("slow", set()),
        ("storm", {"storm"}),
        ("expiring", {"revoked"}),
        ("shifting", {"shift"}),
        ("foreign", {"foreign"}),
        ("html", {"html"}),
        ("truncated", {"truncated"}),
        ("drops", {"drop", "cut"}),
        ("errors", {"error"}),
        ("moduleless", {"moduleless"}),
        ("inflated", {"inflated"}),
    ],
)
def test_a_profile_inflicts_what_its_name_says(name: str, expected: set[str]) -> None:
    visitor = Visitor(open_simulator(profile=name, seed=3)).enter()
    for at in range(3000):
        now = NOW + at / 20
        visitor.page("seller_0001", 8, page_size=6, now=now)
        if visitor.detail(FIRST, now).status == 401:
            visitor.enter(now)
    assert set(visitor.simulator.marketplace.stats()["faults"]) == expected


def test_every_profile_has_a_test_of_its_name() -> None:
    marks = test_a_profile_inflicts_what_its_name_says.pytestmark  # type: ignore[attr-defined]
    assert {name for name, _ in marks[0].args[1]} == set(PROFILES)


@pytest.mark.parametrize(("name", "least", "most"), [("flaky", 0.02, 0.05), ("hostile", 0.06, 0.12)])
def test_a_survivable_day_harms_few_enough_requests(name: str, least: float, most: float) -> None:
    chaos = Chaos(PROFILES[name], seed=1)
    struck = sum(chaos.strike(NOW + at / 50) is not FaultKind.NONE for at in range(20_000))
    assert least < struck / 20_000 < most


def test_a_crawler_that_tries_again_gets_everything_on_a_hostile_day() -> None:
    """Each task is tried three times in a run, and at most 5 runs are started."""
    simulator = open_simulator(profile="hostile", sellers=3, products=200)
    visitor = Visitor(simulator).enter()
    ticks = count()

    def tried(path: str, **query: object) -> object:
        for _ in range(3):
            for _ in range(20):
                answer = visitor.get(path, NOW + next(ticks) / 50, **query)
                if answer.status == 401:
                    visitor.enter(NOW + next(ticks) / 50)
                elif answer.status != 429:
                    break
            if (value := _json(answer)) is not None:
                return value
        return None

    got: set[int] = set()
    for _ in range(5):
        for seller in simulator.world.sellers:
            for page in range(5):
                query = {"sellerId": seller, "pageNo": page, "pageSize": 40, "order": "LATEST"}
                found = tried("/mustit-api/facade-api/v1/searchmini-shop-search", **query)
                for entry in found["items"] if isinstance(found, dict) else ():
                    item_no = entry["itemNo"]
                    if item_no not in got and tried(f"/mustit-api/facade-api/v1/item/{item_no}/detail/top"):
                        got.add(item_no)
    assert got == {item_no for item_no, _ in simulator.world.catalogue()}


def _json(answer: SimulatedAnswer) -> object:
    if answer.status != 200 or answer.fault is not ConnectionFault.NONE:
        return None
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return None


def test_an_unknown_profile_is_refused_with_the_known_names() -> None:
    with pytest.raises(ValueError, match="no chaos profile 'sunny'; there are calm, flaky"):
        Simulator(profile="sunny")


HISTORY = """
import hashlib
from sellerwatch.simulator.simulator import Simulator
from tests.simulator.visiting import NOW, Visitor
simulator = Simulator(seed="s", profile="hostile", requests_per_second=20, window_limit=300)
visitor = Visitor(simulator).enter()
digest = hashlib.sha256()
for at in range(600):
    now = NOW + at / 10
    if at % 50 == 0:
        visitor.enter(now)
    for answer in (visitor.page("seller_0001", 0, 20, now), visitor.detail(900000001 + at % 300, now)):
        digest.update(repr(answer).encode())
    if at % 100 == 0:
        simulator.mutate(10, at)
print(digest.hexdigest(), sorted(simulator.marketplace.stats()["faults"].items()))
"""


def test_one_seed_gives_one_history_whatever_the_hash_seed() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", HISTORY],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert b"storm" in outputs[0]


def test_another_seed_gives_another_history() -> None:
    def faults(seed: int) -> list[str]:
        visitor = Visitor(open_simulator(profile="hostile", seed=seed)).enter()
        return [f"{answer.status} {answer.fault}" for answer in (visitor.detail(FIRST) for _ in range(300))]

    assert faults(1) == faults(1) != faults(2)


def during(outage: Outage) -> Visitor:
    visitor = Visitor(open_simulator()).enter()
    visitor.simulator.marketplace.plan(outage)
    return visitor


def test_refused_connections_reach_no_endpoint_and_count_in_no_window() -> None:
    visitor = during(Outage(FaultKind.REFUSED, NOW + 1, NOW + 2))
    for at in (1.0, 1.999):
        for answer in (visitor.detail(FIRST, NOW + at), visitor.page("seller_0001", now=NOW + at)):
            assert (answer.status, answer.fault) == (0, ConnectionFault.REFUSE)
        assert visitor.get("/", NOW + at).fault is ConnectionFault.REFUSE
    assert visitor.detail(FIRST, NOW + 2).status == 200
    stats = visitor.simulator.marketplace.stats()
    assert stats["statuses"] == {"200": 2, "refused": 6}
    assert stats["most_in_a_window"] == 1


@pytest.mark.parametrize("endpoint", ["list", "detail", "options", "session"])
def test_a_5xx_of_one_endpoint_leaves_the_others_alone(endpoint: str) -> None:
    visitor = during(Outage(FaultKind.ERROR, NOW, NOW + 60, endpoint=endpoint))
    answers = {
        "list": visitor.page("seller_0001"),
        "detail": visitor.detail(FIRST),
        "options": visitor.options(FIRST),
        "session": visitor.get("/"),
    }
    assert {name for name, answer in answers.items() if answer.status >= 500} == {endpoint}


def test_one_product_can_be_broken_alone() -> None:
    visitor = during(Outage(FaultKind.ERROR, NOW, item_no=FIRST))
    assert visitor.detail(FIRST, NOW + 10**6).status >= 500
    assert visitor.detail(FIRST + 1).status == 200


def test_one_identity_can_be_banned_whatever_token_it_has() -> None:
    visitor = during(Outage(FaultKind.UNAUTHORISED, NOW, user_agent=AGENT))
    other = Visitor(visitor.simulator, "another").enter()
    assert visitor.detail(FIRST).status == visitor.enter().detail(FIRST).status == 401
    assert other.detail(FIRST).status == 200


def test_everything_but_sessions_can_be_answered_429() -> None:
    visitor = during(Outage(FaultKind.STORM, NOW, NOW + 3600))
    assert {visitor.detail(FIRST).status, visitor.options(FIRST).status, visitor.page("seller_0001").status} == {429}
    assert visitor.enter().detail(FIRST, NOW + 3600).status == 200


def test_details_can_be_without_their_main_module() -> None:
    visitor = during(Outage(FaultKind.WITHOUT_MODULE, NOW, NOW + 600))
    kinds = {module["type"] for module in orjson.loads(visitor.detail(FIRST).body)["moduleList"]}
    assert "ShippingModule" in kinds
    assert "ProductInfoModule" not in kinds
    whole = orjson.loads(visitor.detail(FIRST, NOW + 600).body)["moduleList"]
    assert "ProductInfoModule" in {module["type"] for module in whole}


def test_a_restart_voids_the_tokens_of_before() -> None:
    visitor = Visitor(open_simulator()).enter()
    visitor.simulator.marketplace.restart(NOW + 5)
    assert visitor.detail(FIRST, NOW + 4).status == 200
    assert visitor.detail(FIRST, NOW + 5).status == 401
    assert visitor.enter(NOW + 6).detail(FIRST, NOW + 6).status == 200
