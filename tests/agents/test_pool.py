"""Whom the pool lends: healthiest first, in turns among equals, inside the limits of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import HOUR, MINUTE, NOW, SECOND, a_candidate, a_token

from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import LOOKAHEAD, Candidate, Lending, NoBudget, lend
from sellerwatch.kernel.errors import Unavailable

LIMITS = Limits()
FAST = Limits(per_second=1000, margin=timedelta(0))
SPACING = timedelta(milliseconds=1050)


def rows(lending: Lending) -> list[int]:
    return [grant.candidate.row for grant in lending.grants]


def test_the_healthiest_is_lent_first() -> None:
    pool = [a_candidate(1, health_score=70), a_candidate(2, health_score=100), a_candidate(3, health_score=85)]
    assert rows(lend(pool, 3, NOW, LIMITS)) == [2, 3, 1]
    assert rows(lend(pool, 1, NOW, LIMITS)) == [2]


def test_among_equals_the_one_used_least_recently_is_first_and_one_never_used_before_all() -> None:
    pool = [
        a_candidate(1, last_used_at=NOW - MINUTE),
        a_candidate(2, last_used_at=NOW - HOUR),
        a_candidate(3, last_used_at=None),
    ]
    assert rows(lend(pool, 3, NOW, LIMITS)) == [3, 2, 1]


def test_equals_take_turns_so_that_load_spreads() -> None:
    pool = [a_candidate(number) for number in (1, 2, 3)]
    assert rows(lend(pool, 7, NOW, FAST)) == [1, 2, 3, 1, 2, 3, 1]


def test_a_less_healthy_agent_is_lent_only_what_the_healthier_cannot_take() -> None:
    pool = [a_candidate(1, health_score=100, slots_left=2), a_candidate(2, health_score=95)]
    assert rows(lend(pool, 5, NOW, FAST)) == [1, 1, 2, 2, 2]


def test_nobody_is_lent_more_than_its_budget() -> None:
    pool = [a_candidate(1, slots_left=3), a_candidate(2, slots_left=0), a_candidate(3, slots_left=-2)]
    assert rows(lend(pool, 50, NOW, FAST)) == [1, 1, 1]


def test_departures_of_one_agent_are_a_second_and_the_margin_apart() -> None:
    assert LIMITS.spacing == SPACING
    once = lend([a_candidate()], 5, NOW, LIMITS)
    assert [grant.depart_at for grant in once.grants] == [NOW]
    soon = a_candidate(last_departure=NOW - SPACING + LOOKAHEAD)
    assert [grant.depart_at for grant in lend([soon], 5, NOW, LIMITS).grants] == [NOW + LOOKAHEAD]
    later = a_candidate(last_departure=NOW - SPACING + LOOKAHEAD + timedelta(microseconds=1))
    assert lend([later], 5, NOW, LIMITS).grants == ()


def test_where_the_rate_allows_several_now_they_are_still_spaced() -> None:
    departures = [grant.depart_at for grant in lend([a_candidate()], 100, NOW, FAST).grants]
    assert {after - before for before, after in pairwise(departures)} == {timedelta(milliseconds=1)}
    assert departures[0] == NOW
    assert departures[-1] == NOW + LOOKAHEAD


@pytest.mark.parametrize("ahead", range(0, 20, 3))
def test_a_departure_lent_ahead_of_its_time_keeps_its_distance_to_the_next(ahead: int) -> None:
    # A request lent now may leave up to 20 ms later; a claim in between must count from that moment, not from now.
    departed = NOW + timedelta(milliseconds=ahead)
    asked = NOW + timedelta(milliseconds=1)
    assert lend([a_candidate(last_departure=departed)], 1, asked, LIMITS).not_before == departed + SPACING


def test_a_departure_stamped_further_in_the_future_counts_as_now() -> None:
    # The clock was set back: the stamp may delay the agent by one spacing, and never for a day.
    lending = lend([a_candidate(last_departure=NOW + HOUR)], 1, NOW, LIMITS)
    assert (lending.grants, lending.not_before) == ((), NOW + SPACING)
    assert rows(lend([a_candidate(last_departure=NOW)], 1, NOW + SPACING, LIMITS)) == [1]


@pytest.mark.parametrize(
    "token", [None, a_token(expires_at=NOW), a_token(expires_at=NOW - SECOND)], ids=["none", "expires-now", "expired"]
)
def test_an_agent_without_a_valid_token_is_never_lent(token: object) -> None:
    tokenless = a_candidate(1, health_score=100, token=token)
    assert rows(lend([tokenless, a_candidate(2, health_score=30)], 5, NOW, LIMITS)) == [2]
    assert lend([tokenless], 5, NOW, LIMITS) == Lending((), None)


def test_with_nothing_lent_the_pool_says_when_a_rate_allows_the_next() -> None:
    pool = [a_candidate(1, last_departure=NOW), a_candidate(2, last_departure=NOW - SECOND / 2)]
    assert lend(pool, 1, NOW, LIMITS) == Lending((), NOW - SECOND / 2 + SPACING)


def test_full_windows_name_no_time_because_only_an_answer_ends_them() -> None:
    assert lend([a_candidate(slots_left=0)], 1, NOW, LIMITS) == Lending((), None)
    assert lend([], 1, NOW, LIMITS) == Lending((), None)


def test_whoever_wants_nothing_is_lent_nothing() -> None:
    assert lend([a_candidate()], 0, NOW, LIMITS).grants == ()


def test_no_budget_says_when_to_come_back() -> None:
    error = NoBudget(seconds=12.5)
    assert isinstance(error, Unavailable)
    assert (error.code, error.retry_after) == ("NO_BUDGET", 12.5)
    assert str(error) == "No agent may make a request now; the next one may in about 12.5 s."


def read_by_hand(pool: Sequence[Candidate], wanted: int, now: datetime, limits: Limits) -> list[tuple[int, datetime]]:
    """The specification word by word: one grant at a time, each to the best of all that may have one."""
    granted: list[tuple[int, datetime]] = []

    def departure(candidate: Candidate) -> datetime:
        own = [when for row, when in granted if row == candidate.row]
        stamped = candidate.last_departure if candidate.last_departure <= now + LOOKAHEAD else now
        return max(now, (own[-1] if own else stamped) + limits.spacing)

    def turns(candidate: Candidate) -> int:
        return sum(row == candidate.row for row, _ in granted)

    def may(candidate: Candidate) -> bool:
        has_token = candidate.token is not None and now < candidate.token.expires_at
        return has_token and turns(candidate) < candidate.slots_left and departure(candidate) <= now + LOOKAHEAD

    while len(granted) < wanted and any(map(may, pool)):
        best = min(
            filter(may, pool),
            key=lambda c: (-c.health_score, turns(c), c.last_used_at or NOW - 1000 * HOUR, c.row),
        )
        granted.append((best.row, departure(best)))
    return granted


moments = st.integers(-2000, 100).map(lambda milliseconds: NOW + timedelta(milliseconds=milliseconds))


@st.composite
def pools(draw: st.DrawFn) -> list[Candidate]:
    return [
        a_candidate(
            number,
            health_score=draw(st.sampled_from([100, 95, 70, 30])),
            last_used_at=draw(st.none() | moments),
            slots_left=draw(st.integers(-1, 6)),
            last_departure=draw(moments | st.just(NOW + HOUR)),
            token=draw(st.sampled_from([None, a_token(), a_token(expires_at=NOW), a_token()])),
        )
        for number in range(1, draw(st.integers(0, 8)) + 1)
    ]


limits_of_all_sorts = st.builds(
    Limits,
    per_second=st.sampled_from([0.5, 1.0, 10.0, 100.0, 1000.0]),
    margin=st.sampled_from([timedelta(0), timedelta(milliseconds=50)]),
)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(pool=pools(), wanted=st.integers(0, 30), limits=limits_of_all_sorts, order=st.randoms(use_true_random=False))
def test_lending_is_what_the_specification_says(
    pool: list[Candidate], wanted: int, limits: Limits, order: Random
) -> None:
    lending = lend(order.sample(pool, len(pool)), wanted, NOW, limits)
    granted = [(grant.candidate.row, grant.depart_at) for grant in lending.grants]
    assert granted == read_by_hand(pool, wanted, NOW, limits)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(pool=pools(), wanted=st.integers(0, 30), limits=limits_of_all_sorts)
def test_no_limit_is_ever_broken(pool: list[Candidate], wanted: int, limits: Limits) -> None:
    lending = lend(pool, wanted, NOW, limits)
    assert len(lending.grants) <= wanted
    for row, number in Counter(rows(lending)).items():
        candidate = next(each for each in pool if each.row == row)
        departures = [grant.depart_at for grant in lending.grants if grant.candidate.row == row]
        assert number <= candidate.slots_left
        assert all(NOW <= departure <= NOW + LOOKAHEAD for departure in departures)
        before = [] if candidate.last_departure > NOW + LOOKAHEAD else [candidate.last_departure]
        assert all(later - earlier >= limits.spacing for earlier, later in pairwise([*before, *departures]))
        assert candidate.token is not None
        assert candidate.token.is_valid(NOW)
