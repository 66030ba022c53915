"""The marketplace's own judge of limits."""

import pytest
from tests.simulator.visiting import AGENT, NOW, Visitor, header, open_simulator

from sellerwatch.simulator.limits import LimitVerdict, RequestLimiter, SimulatedLimits, SlidingWindow
from sellerwatch.simulator.wire import SimulatedRequest

FIRST = 900_000_001


def limited(**knobs: float | None) -> Visitor:
    return Visitor(open_simulator(**({"window_limit": 3, "window_seconds": 60.0} | knobs))).enter()


def stats(visitor: Visitor) -> dict[str, object]:
    return visitor.simulator.marketplace.stats()


def test_a_request_over_the_window_is_answered_429_and_counted() -> None:
    visitor = limited()
    statuses = [visitor.detail(FIRST, NOW + second).status for second in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert stats(visitor)["over_budget"] == 2
    assert stats(visitor)["most_in_a_window"] == 5


def test_a_slot_is_free_exactly_one_window_after_its_arrival() -> None:
    early, exact = limited(), limited()
    for visitor in (early, exact):
        for second in range(3):
            visitor.detail(FIRST, NOW + second)
    assert early.detail(FIRST, NOW + 59.999).status == 429
    assert exact.detail(FIRST, NOW + 60).status == 200


def test_a_slot_is_free_after_the_window_in_spite_of_float_rounding() -> None:
    for start in (0.1, 1_795_000_000.3, 1_795_000_000.7):
        window = SlidingWindow(3600)
        window.arrive(start)
        assert window.arrive(start + 3600) == 1


def test_no_fixed_window_lets_a_double_share_through_at_its_edge() -> None:
    visitor = limited()
    assert [visitor.detail(FIRST, NOW + 59 + at / 10).status for at in range(3)] == [200] * 3
    assert [visitor.detail(FIRST, NOW + 61 + at / 10).status for at in range(3)] == [429] * 3


def test_the_429_says_when_the_window_has_room_again() -> None:
    visitor = limited()
    for second in range(3):
        visitor.detail(FIRST, NOW + second)
    refused = visitor.detail(FIRST, NOW + 10)
    assert header(refused, "retry-after") == str(51)
    assert visitor.detail(FIRST, NOW + 10 + 51).status == 200


def test_requests_answered_with_an_error_count_too() -> None:
    visitor = limited()
    visitor.detail(1)
    visitor.headers["authorization"] = "Bearer nonsense"
    assert visitor.detail(FIRST).status == 401
    assert visitor.detail(FIRST).status == 401
    assert visitor.detail(FIRST).status == 429


def test_sessions_do_not_count() -> None:
    visitor = limited()
    for _ in range(10):
        visitor.enter()
    assert visitor.detail(FIRST).status == 200


def test_each_user_agent_has_its_own_window() -> None:
    visitor = limited()
    other = Visitor(visitor.simulator, "another").enter()
    for _ in range(3):
        visitor.detail(FIRST)
    assert visitor.detail(FIRST).status == 429
    assert other.detail(FIRST).status == 200


def test_the_default_limits_are_80_an_hour_and_1_a_second() -> None:
    assert SimulatedLimits() == SimulatedLimits(window_limit=80, window_seconds=3600, requests_per_second=1)


def test_two_requests_in_one_second_are_over_a_rate_of_one() -> None:
    visitor = limited(window_limit=100, requests_per_second=1)
    assert visitor.detail(FIRST, NOW).status == 200
    refused = visitor.detail(FIRST, NOW + 0.5)
    assert (refused.status, header(refused, "retry-after")) == (429, "1")
    assert (stats(visitor)["over_rate"], stats(visitor)["over_budget"]) == (1, 0)
    assert visitor.detail(FIRST, NOW + 1.5).status == 200


def test_the_rate_is_judged_with_a_small_tolerance() -> None:
    visitor = limited(window_limit=100, requests_per_second=1)
    assert [visitor.detail(FIRST, NOW + at).status for at in (0, 0.96, 1.95)] == [200, 200, 200]


@pytest.mark.parametrize(("rate", "allowed_at_once"), [(1.0, 1), (5.0, 5), (0.5, 1), (2.5, 2)])
def test_a_rate_allows_so_many_at_once(rate: float, allowed_at_once: int) -> None:
    judge = RequestLimiter(SimulatedLimits(1000, 3600, rate))
    verdicts = [judge.judge(NOW) for _ in range(allowed_at_once + 1)]
    assert verdicts == [LimitVerdict.WITHIN] * allowed_at_once + [LimitVerdict.OVER_RATE]


def test_requests_that_ignore_a_retry_after_are_counted_but_not_those_in_flight() -> None:
    visitor = limited()
    for _ in range(4):
        visitor.detail(FIRST, NOW)
    visitor.detail(FIRST, NOW + 0.5)
    assert stats(visitor)["ignored_retry_after"] == 0
    visitor.detail(FIRST, NOW + 30)
    assert stats(visitor)["ignored_retry_after"] == 1


def test_a_client_without_user_agent_is_judged_as_one_identity() -> None:
    visitor = Visitor(open_simulator(window_limit=1))
    path = f"/mustit-api/facade-api/v1/item/{FIRST}/detail/top"
    answers = [visitor.simulator.answer(SimulatedRequest("GET", path), NOW) for _ in range(2)]
    assert [answer.status for answer in answers] == [401, 429]
    assert AGENT not in visitor.simulator.marketplace.stats()["most_in_a_window_by_agent"]
