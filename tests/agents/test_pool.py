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
from tests.builders import BOOT, HOUR, MINUTE, NOW, SECOND, a_candidate, a_circuit, a_token, at, boot_us

from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.lending import lendable
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import LOOKAHEAD_US, Candidate, Grant, Lending, lend, pace
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment

LIMITS = Limits()
FAST = Limits(per_second=1000, margin=timedelta(0))
SPACING = timedelta(milliseconds=1050)
SPACING_US = 1_050_000
MICROSECOND = timedelta(microseconds=1)
LOOKAHEAD = LOOKAHEAD_US * MICROSECOND


def rows(lending: Lending) -> list[int]:
    return [grant.candidate.row for grant in lending.grants]


def test_the_healthiest_is_lent_first() -> None:
    pool = [a_candidate(1, health_score=70), a_candidate(2, health_score=100), a_candidate(3, health_score=85)]
    assert rows(lend(pool, 3, at(), LIMITS)) == [2, 3, 1]
    assert rows(lend(pool, 1, at(), LIMITS)) == [2]


def test_among_equals_the_one_used_least_recently_is_first_and_one_never_used_before_all() -> None:
    pool = [
        a_candidate(1, last_used_at=NOW - MINUTE),
        a_candidate(2, last_used_at=NOW - HOUR),
        a_candidate(3, last_used_at=None),
    ]
    assert rows(lend(pool, 3, at(), LIMITS)) == [3, 2, 1]


def test_equals_take_turns_so_that_load_spreads() -> None:
    pool = [a_candidate(number) for number in (1, 2, 3)]
    assert rows(lend(pool, 7, at(), FAST)) == [1, 2, 3, 1, 2, 3, 1]


def test_a_less_healthy_agent_is_lent_only_what_the_healthier_cannot_take() -> None:
    pool = [a_candidate(1, health_score=100, slots_left=2), a_candidate(2, health_score=95)]
    assert rows(lend(pool, 5, at(), FAST)) == [1, 1, 2, 2, 2]


def test_nobody_is_lent_more_than_its_budget() -> None:
    pool = [a_candidate(1, slots_left=3), a_candidate(2, slots_left=0), a_candidate(3, slots_left=-2)]
    assert rows(lend(pool, 50, at(), FAST)) == [1, 1, 1]


def test_departures_of_one_agent_are_a_second_and_the_margin_apart() -> None:
    assert LIMITS.spacing_us == SPACING_US
    once = lend([a_candidate()], 5, at(), LIMITS)
    assert [grant.depart_us for grant in once.grants] == [boot_us()]
    soon = a_candidate(last_departure_us=boot_us(NOW - SPACING + LOOKAHEAD))
    assert [grant.depart_us for grant in lend([soon], 5, at(), LIMITS).grants] == [boot_us() + LOOKAHEAD_US]
    later = a_candidate(last_departure_us=boot_us(NOW - SPACING + LOOKAHEAD + timedelta(microseconds=1)))
    assert lend([later], 5, at(), LIMITS).grants == ()


def test_where_the_rate_allows_several_now_they_are_still_spaced() -> None:
    departures = [grant.depart_us for grant in lend([a_candidate()], 100, at(), FAST).grants]
    assert {after - before for before, after in pairwise(departures)} == {1000}
    assert departures[0] == boot_us()
    assert departures[-1] == boot_us() + LOOKAHEAD_US


@pytest.mark.parametrize("ahead", range(0, 20, 3))
def test_a_departure_lent_ahead_of_its_time_keeps_its_distance_to_the_next(ahead: int) -> None:
    # A request lent now may leave up to 20 ms later; a claim in between must count from that moment, not from now.
    departed = NOW + timedelta(milliseconds=ahead)
    asked = NOW + timedelta(milliseconds=1)
    lending = lend([a_candidate(last_departure_us=boot_us(departed))], 1, at(asked), LIMITS)
    assert (lending.grants, lending.wait_us) == ((), boot_us(departed) + SPACING_US - boot_us(asked))


@pytest.mark.parametrize("set_by", [-26 * HOUR, -HOUR, -SECOND, SECOND, HOUR, 26 * HOUR], ids=str)
def test_setting_the_wall_clock_brings_no_departure_closer_and_puts_none_off(set_by: timedelta) -> None:
    lent = a_candidate(last_departure_us=boot_us(NOW), token=a_token(expires_at=NOW + 1000 * HOUR))
    early = Moment(NOW + set_by, boot_us(NOW + SPACING - LOOKAHEAD - MICROSECOND), BOOT)
    assert lend([lent], 1, early, LIMITS) == Lending((), LOOKAHEAD_US + 1)
    assert rows(lend([lent], 1, Moment(NOW + set_by, boot_us(NOW + SPACING), BOOT), LIMITS)) == [1]


@pytest.mark.parametrize(
    "token", [None, a_token(expires_at=NOW), a_token(expires_at=NOW - SECOND)], ids=["none", "expires-now", "expired"]
)
def test_an_agent_without_a_valid_token_is_never_lent(token: object) -> None:
    tokenless = a_candidate(1, health_score=100, token=token)
    assert rows(lend([tokenless, a_candidate(2, health_score=30)], 5, at(), LIMITS)) == [2]
    assert lend([tokenless], 5, at(), LIMITS) == Lending((), None)


def test_with_nothing_lent_the_pool_says_when_a_rate_allows_the_next() -> None:
    pool = [a_candidate(1, last_departure_us=boot_us(NOW)), a_candidate(2, last_departure_us=boot_us(NOW - SECOND / 2))]
    assert lend(pool, 1, at(), LIMITS) == Lending((), SPACING_US - 500_000)


def test_full_windows_name_no_time_because_only_an_answer_ends_them() -> None:
    assert lend([a_candidate(slots_left=0)], 1, at(), LIMITS) == Lending((), None)
    assert lend([], 1, at(), LIMITS) == Lending((), None)


def test_whoever_wants_nothing_is_lent_nothing() -> None:
    assert lend([a_candidate()], 0, at(), LIMITS).grants == ()


def read_by_hand(pool: Sequence[Candidate], wanted: int, now: datetime, limits: Limits) -> list[tuple[int, int]]:
    """The specification word by word: one grant at a time, each to the best of all that may have one."""
    granted: list[tuple[int, int]] = []
    asked = boot_us(now)

    def departure(candidate: Candidate) -> int:
        own = [when for row, when in granted if row == candidate.row]
        return max(asked, (own[-1] if own else candidate.last_departure_us) + limits.spacing_us)

    def turns(candidate: Candidate) -> int:
        return sum(row == candidate.row for row, _ in granted)

    def may(candidate: Candidate) -> bool:
        has_token = candidate.token is not None and now < candidate.token.expires_at
        circuit = candidate.circuit
        closed = circuit.state is CircuitState.CLOSED
        rested = circuit.opened_at is not None and circuit.opened_at + circuit.timeout <= now
        willing = closed or (rested and turns(candidate) == 0)
        has_slot = turns(candidate) < candidate.slots_left
        return has_token and willing and has_slot and departure(candidate) <= asked + LOOKAHEAD_US

    while len(granted) < wanted and any(map(may, pool)):
        best = min(
            filter(may, pool),
            key=lambda c: (-c.health_score, turns(c), c.last_used_at or NOW - 1000 * HOUR, c.row),
        )
        granted.append((best.row, departure(best)))
    return granted


moments = st.integers(-2000, 100).map(lambda milliseconds: NOW + timedelta(milliseconds=milliseconds))


CIRCUITS = [
    Circuit(),
    Circuit(),
    a_circuit(failure_count=2),
    a_circuit(state=CircuitState.OPEN, opened_at=NOW - 10 * MINUTE),
    a_circuit(state=CircuitState.OPEN, opened_at=NOW - 10 * MINUTE + MICROSECOND),
    a_circuit(state=CircuitState.HALF_OPEN, opened_at=NOW - 10 * MINUTE),
    a_circuit(state=CircuitState.HALF_OPEN, opened_at=NOW),
]


@st.composite
def pools(draw: st.DrawFn) -> list[Candidate]:
    return [
        a_candidate(
            number,
            health_score=draw(st.sampled_from([100, 95, 70, 30])),
            last_used_at=draw(st.none() | moments),
            slots_left=draw(st.integers(-1, 6)),
            last_departure_us=boot_us(draw(moments | st.just(NOW + HOUR))),
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
    lending = lend(order.sample(pool, len(pool)), wanted, at(), limits)
    granted = [(grant.candidate.row, grant.depart_us) for grant in lending.grants]
    assert granted == read_by_hand(pool, wanted, NOW, limits)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(pool=pools(), wanted=st.integers(0, 30), limits=limits_of_all_sorts)
def test_no_limit_is_ever_broken(pool: list[Candidate], wanted: int, limits: Limits) -> None:
    lending = lend(pool, wanted, at(), limits)
    assert len(lending.grants) <= wanted
    for row, number in Counter(rows(lending)).items():
        candidate = next(each for each in pool if each.row == row)
        departures = [grant.depart_us for grant in lending.grants if grant.candidate.row == row]
        assert number <= candidate.slots_left
        assert all(boot_us() <= departure <= boot_us() + LOOKAHEAD_US for departure in departures)
        in_order = [candidate.last_departure_us, *departures]
        assert all(later - earlier >= limits.spacing_us for earlier, later in pairwise(in_order))
        assert candidate.circuit.state is CircuitState.CLOSED or number == 1, "a circuit that finds out is asked once"
        assert candidate.token is not None
        assert candidate.token.is_valid(NOW)


# Circuits.


@pytest.mark.parametrize("state", [CircuitState.OPEN, CircuitState.HALF_OPEN])
def test_an_agent_whose_circuit_is_open_is_lent_once_when_its_time_has_come(state: CircuitState) -> None:
    resting = a_candidate(1, circuit=a_circuit(state=state, opened_at=NOW - 10 * MINUTE + MICROSECOND))
    assert lend([resting], 5, at(), FAST) == Lending((), 1)
    ready = a_candidate(1, circuit=a_circuit(state=state, opened_at=NOW - 10 * MINUTE))
    [grant] = lend([ready], 5, at(), FAST).grants
    assert grant.is_probe


def test_the_circuit_of_one_agent_keeps_nobody_else_from_work() -> None:
    ill = a_candidate(1, circuit=a_circuit(state=CircuitState.OPEN, opened_at=NOW))
    assert rows(lend([ill, a_candidate(2, health_score=50)], 2, at(), FAST)) == [2, 2]


# The marketplace as a whole.


def grants_at(*departures: int) -> list[Grant]:
    return [Grant(a_candidate(number), departure) for number, departure in enumerate(departures, 1)]


def test_the_marketplace_as_a_whole_is_asked_at_most_so_often() -> None:
    now = boot_us()
    paced = pace(grants_at(now, now, now, now), now - 1_000_000, 200.0, at())
    assert [grant.depart_us - now for grant in paced] == [0, 5000, 10_000, 15_000]


def test_what_the_pace_would_put_off_too_long_is_left_for_a_later_claim() -> None:
    now = boot_us()
    paced = pace(grants_at(*[now] * 50), now - 4000, 200.0, at())
    assert [grant.depart_us - now for grant in paced] == [1000, 6000, 11_000, 16_000]
    assert pace(grants_at(now), now, 10.0, at()) == []


def test_a_grant_that_departs_later_than_the_pace_asks_keeps_its_own_time() -> None:
    now = boot_us()
    assert [g.depart_us - now for g in pace(grants_at(now, now + 9000), 0, 1000.0, at())] == [0, 9000]


@pytest.mark.parametrize(
    ("only", "may_probe", "expected"),
    [(None, True, [1, 2, 3]), (None, False, [1, 3]), (2, False, [2]), (3, False, [3]), (3, True, [3])],
)
def test_an_agent_whose_circuit_is_not_closed_is_lent_where_it_may_probe_or_no_other_is_there(
    only: int | None, expected: list[int], *, may_probe: bool
) -> None:
    pool = [a_candidate(1), a_candidate(2, circuit=a_circuit(state=CircuitState.OPEN, opened_at=NOW)), a_candidate(3)]
    assert [each.row for each in lendable(pool, only=only, may_probe=may_probe)] == expected
