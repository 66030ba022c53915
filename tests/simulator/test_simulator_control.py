"""The simulator's own doors."""

from typing import Any

import orjson
import pytest
from tests.simulator.visiting import NOW, Visitor, event, open_simulator, posted

from sellerwatch.simulator.simulator import Simulator
from sellerwatch.simulator.wire import SimulatedRequest

FIRST = 900_000_001


def knock(simulator: Simulator, method: str, door: str, **query: object) -> tuple[int, Any]:
    texts = {name: str(value) for name, value in query.items()}
    answer = simulator.answer(SimulatedRequest(method, f"/__simulator__/{door}", texts), NOW)
    return answer.status, orjson.loads(answer.body)


def test_stats_are_of_the_marketplace_and_of_the_product_server() -> None:
    simulator = open_simulator()
    Visitor(simulator).enter().detail(FIRST)
    status, stats = knock(simulator, "GET", "stats")
    assert status == 200
    assert stats["marketplace"]["requests"] == {"session": 1, "detail": 1}
    assert stats["marketplace"]["over_budget"] == stats["marketplace"]["over_rate"] == 0
    assert stats["productServer"]["events"] == 0


def test_control_requests_are_not_counted_as_the_marketplaces() -> None:
    simulator = open_simulator()
    knock(simulator, "GET", "sellers")
    assert simulator.marketplace.stats()["requests"] == {}


def test_sellers_are_told_with_their_counts() -> None:
    assert knock(open_simulator(), "GET", "sellers") == (200, {"seller_0001": 50, "seller_0002": 50})


def test_the_truth_of_an_item_is_told_and_404_when_there_is_none() -> None:
    simulator = open_simulator()
    assert knock(simulator, "GET", f"truth/{FIRST}") == (200, simulator.world.truth(FIRST))
    assert knock(simulator, "GET", "truth/1")[0] == 404
    assert knock(simulator, "GET", "truth/x")[0] == 400


def test_a_mutation_tells_what_it_did_and_repeats_with_its_seed() -> None:
    one, other = open_simulator(), open_simulator()
    status, told = knock(one, "POST", "mutate", count=20, seed=9)
    assert status == 200
    assert len(told["done"]) == 20
    assert knock(other, "POST", "mutate", count=20, seed=9)[1] == told
    assert knock(open_simulator(), "POST", "mutate", count=20, seed=8)[1] != told


def test_a_mutation_may_be_of_one_kind() -> None:
    _, told = knock(open_simulator(), "POST", "mutate", count=20, only="changed")
    assert {done["deed"] for done in told["done"]} == {"changed"}


def test_every_changed_product_may_be_changed_alike() -> None:
    _, told = knock(open_simulator(), "POST", "mutate", count=20, only="changed", how="reprice")
    assert {done["how"] for done in told["done"]} == {"reprice"}


def test_events_and_violations_and_comparison_are_told() -> None:
    simulator = open_simulator(sellers=1, products=2)
    truths = [truth for _, truth in simulator.world.catalogue()]
    for truth in truths:
        simulator.answer(posted(event("CREATED", truth)), NOW)
    assert knock(simulator, "GET", "compare")[1] == {"mismatches": 0, "first": []}
    simulator.answer(posted(event("DELETED", truths[0], version=7)), NOW)
    _, events = knock(simulator, "GET", "events", after=2)
    assert [(told["sequence"], told["event_type"]) for told in events] == [(3, "PRODUCT_DELETED")]
    _, violations = knock(simulator, "GET", "violations")
    assert [told["rule"] for told in violations] == ["version 7 follows 1"]
    _, compared = knock(simulator, "GET", "compare", seller="seller_0001")
    assert (compared["mismatches"], compared["first"][0]["actual"]) == (1, "missing")


def test_the_profile_can_be_changed() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    assert knock(simulator, "POST", "profile", name="slow") == (200, {"profile": "slow"})
    assert visitor.detail(FIRST).delay > 0


def test_a_latency_asked_for_survives_a_change_of_profile() -> None:
    simulator = open_simulator(latency_ms=20)
    visitor = Visitor(simulator).enter()
    knock(simulator, "POST", "profile", name="slow")
    assert visitor.detail(FIRST).delay <= 0.025


def test_the_receiver_can_be_made_to_misbehave() -> None:
    simulator = open_simulator()
    truth = simulator.world.truth(FIRST)
    assert truth is not None
    delivery = posted(event("CREATED", truth))
    assert knock(simulator, "POST", "receiver", mode="error", requests=1)[0] == 200
    assert [simulator.answer(delivery, NOW).status for _ in range(2)] == [500, 200]
    knock(simulator, "POST", "receiver", mode="throttle", retryAfter=9)
    assert dict(simulator.answer(delivery, NOW).headers)["retry-after"] == "9"


def test_a_redesign_can_be_put_on_and_taken_back() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    knock(simulator, "POST", "redesign", seller="seller_0001")
    assert b'"itemName"' not in visitor.detail(FIRST).body
    assert b'"itemName"' in visitor.detail(FIRST + 50).body
    knock(simulator, "POST", "redesign", on="false")
    assert b'"itemName"' in visitor.detail(FIRST).body


@pytest.mark.parametrize(
    ("method", "door", "query", "status"),
    [
        ("GET", "nothing", {}, 404),
        ("POST", "stats", {}, 405),
        ("GET", "mutate", {"count": 1}, 405),
        ("POST", "mutate", {}, 400),
        ("POST", "mutate", {"count": "many"}, 400),
        ("POST", "mutate", {"count": 1, "only": "exploded"}, 400),
        ("POST", "mutate", {"count": 1, "how": "explode"}, 400),
        ("POST", "profile", {"name": "sunny"}, 400),
        ("POST", "receiver", {"mode": "angry"}, 400),
        ("POST", "receiver", {"mode": "error", "probability": 2}, 400),
        ("POST", "receiver", {"mode": "error", "probability": "x"}, 400),
        ("GET", "events", {"after": -1}, 400),
        ("GET", "compare", {"seller": "nobody"}, 400),
    ],
)
def test_a_wrong_knock_is_refused_with_a_sentence(
    method: str, door: str, query: dict[str, object], status: int
) -> None:
    answered, body = knock(open_simulator(), method, door, **query)
    assert answered == status
    assert body["message"]


def test_a_warmed_marketplace_has_rendered_everything_and_counts_nothing() -> None:
    cold, warm = open_simulator(), open_simulator()
    assert knock(warm, "POST", "warm") == (200, {"warm": True})
    assert warm.marketplace.stats()["requests"] == {}
    assert Visitor(warm).enter().detail(FIRST) == Visitor(cold).enter().detail(FIRST)
    assert knock(warm, "GET", "warm")[0] == 405


def test_an_outage_is_planned_from_outside_and_ended_again() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    _, said = knock(simulator, "POST", "outage", **{"ailment": "error", "endpoint": "options", "in": 5, "seconds": 10})
    assert said == {"ailment": "error", "start": NOW + 5, "end": NOW + 15}
    assert visitor.options(FIRST).status == 200
    assert visitor.options(FIRST, NOW + 5).status >= 500
    assert visitor.detail(FIRST, NOW + 6).status == 200
    assert knock(simulator, "POST", "outage", ailment="none")[0] == 200
    assert visitor.options(FIRST, NOW + 7).status == 200


def test_an_outage_that_makes_no_sense_is_refused_with_a_sentence() -> None:
    simulator = open_simulator()
    assert knock(simulator, "POST", "outage", ailment="plague")[0] == 400
    assert knock(simulator, "POST", "outage", ailment="cut")[0] == 400
    assert knock(simulator, "POST", "outage", ailment="without module", endpoint="list")[0] == 400
    assert knock(simulator, "POST", "outage", ailment="error", seconds="nan")[0] == 400


def test_a_restart_voids_every_token() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    knock(simulator, "POST", "restart")
    assert visitor.detail(FIRST).status == 401
    assert visitor.enter().detail(FIRST).status == 200


def test_the_log_is_counted_by_endpoint_identity_and_status_within_a_period() -> None:
    simulator = open_simulator()
    visitor = Visitor(simulator).enter()
    visitor.detail(FIRST, NOW + 1)
    visitor.options(FIRST, NOW + 2)
    visitor.options(1, NOW + 3)
    status, counted = knock(simulator, "GET", "requests", since=NOW + 1, until=NOW + 3)
    assert status == 200
    assert counted == {
        "now": NOW,
        "total": 2,
        "byEndpoint": {"detail": 1, "options": 1},
        "byIdentity": {visitor.agent: 2},
        "byStatus": {"200": 2},
    }
    assert knock(simulator, "GET", "requests")[1]["total"] == 4
