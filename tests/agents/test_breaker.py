"""The pool's breaker: under 20 % available it opens, one request finds out, and a success gives the pool time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import MINUTE, NOW, SECOND, worker_id

from sellerwatch.agents.breaker import Breaker, BreakerRules, PoolBreakerOpen
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.errors import Unavailable

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN
RULES = BreakerRules()
MICROSECOND = timedelta(microseconds=1)
ME, OTHER = worker_id(1), worker_id(2)


def an_open_breaker() -> Breaker:
    return Breaker().look(19, 100, RULES, NOW)


def a_probing_breaker() -> Breaker:
    return an_open_breaker().probe(ME, RULES, NOW + 10 * MINUTE)


@pytest.mark.parametrize(
    ("available", "total", "state"),
    [(20, 100, CLOSED), (19, 100, OPEN), (1, 5, CLOSED), (0, 5, OPEN), (1, 6, OPEN), (0, 0, OPEN), (100, 100, CLOSED)],
)
def test_it_opens_under_20_percent_and_when_nobody_is_configured(
    available: int, total: int, state: CircuitState
) -> None:
    assert Breaker().look(available, total, RULES, NOW).state is state


def test_the_percentage_and_the_times_are_settings() -> None:
    rules = BreakerRules(min_percent=50, open_for=MINUTE, patience=5 * SECOND)
    breaker = Breaker().look(49, 100, rules, NOW)
    assert breaker.state is OPEN
    assert not breaker.may_probe(rules, NOW + MINUTE - MICROSECOND)
    assert breaker.may_probe(rules, NOW + MINUTE)
    assert breaker.probe(ME, rules, NOW + MINUTE).probe_until == NOW + MINUTE + 5 * SECOND


def test_looking_again_does_not_lengthen_it() -> None:
    breaker = an_open_breaker()
    assert breaker.look(0, 100, RULES, NOW + 9 * MINUTE) == breaker


def test_it_lets_nothing_through_for_10_minutes_and_then_one() -> None:
    breaker = an_open_breaker()
    assert not breaker.may_probe(RULES, NOW + 10 * MINUTE - MICROSECOND)
    assert breaker.may_probe(RULES, NOW + 10 * MINUTE)
    probing = breaker.probe(ME, RULES, NOW + 10 * MINUTE)
    assert (probing.state, probing.probe_worker_id) == (HALF_OPEN, ME)
    assert not probing.may_probe(RULES, NOW + 11 * MINUTE), "one at a time"


def test_it_closes_early_when_the_rate_is_20_percent_again() -> None:
    closed = an_open_breaker().look(20, 100, RULES, NOW + SECOND)
    assert (closed.state, closed.closed_at) == (CLOSED, NOW + SECOND)
    assert a_probing_breaker().look(20, 100, RULES, NOW + 10 * MINUTE + SECOND).state is CLOSED


def test_closed_early_it_opens_again_as_soon_as_the_rate_falls() -> None:
    closed = an_open_breaker().look(20, 100, RULES, NOW + SECOND)
    assert closed.look(19, 100, RULES, NOW + 2 * SECOND).state is OPEN


def test_a_successful_probe_keeps_it_closed_for_10_minutes_whatever_the_rate() -> None:
    answered = NOW + 10 * MINUTE + SECOND
    closed = a_probing_breaker().answered(ME, True, RULES, answered)
    assert closed.state is CLOSED
    assert closed.look(1, 100, RULES, answered + 10 * MINUTE - MICROSECOND).state is CLOSED
    assert closed.look(1, 100, RULES, answered + 10 * MINUTE).state is OPEN


def test_a_failed_probe_opens_it_for_the_whole_time_again() -> None:
    answered = NOW + 10 * MINUTE + SECOND
    opened = a_probing_breaker().answered(ME, False, RULES, answered)
    assert (opened.state, opened.opened_at) == (OPEN, answered)
    assert not opened.may_probe(RULES, answered + 10 * MINUTE - MICROSECOND)
    assert opened.may_probe(RULES, answered + 10 * MINUTE)


def test_a_probe_nobody_answers_is_given_up_after_its_time() -> None:
    probing = a_probing_breaker()
    until = NOW + 10 * MINUTE + RULES.patience
    assert probing.look(1, 100, RULES, until - MICROSECOND) == probing
    opened = probing.look(1, 100, RULES, until)
    assert (opened.state, opened.probe_worker_id, opened.opened_at) == (OPEN, None, until)


def test_only_the_one_who_was_sent_decides() -> None:
    probing = a_probing_breaker()
    assert probing.answered(OTHER, True, RULES, NOW + 10 * MINUTE) == probing
    late = probing.look(1, 100, RULES, NOW + 10 * MINUTE + RULES.patience)
    assert late.answered(ME, True, RULES, NOW + 12 * MINUTE) == late, "it came too late"
    assert Breaker().answered(ME, False, RULES, NOW) == Breaker()


def test_the_refusal_is_one_sentence_with_the_rate_and_when_to_ask_again() -> None:
    refusal = an_open_breaker().refusal(19, 100, RULES, NOW + MINUTE)
    assert isinstance(refusal, PoolBreakerOpen)
    assert isinstance(refusal, Unavailable)
    assert (refusal.code, refusal.retry_after, refusal.percent) == ("POOL_BREAKER_OPEN", 540.0, 19)
    assert "19" in str(refusal)
    assert "100" in str(refusal)
    nobody = Breaker().look(0, 0, RULES, NOW).refusal(0, 0, RULES, NOW)
    assert (nobody.percent, nobody.total) == (0, 0)
    assert str(nobody).count(".") >= 1


def test_while_a_probe_is_under_way_the_refusal_says_how_long_it_is_waited_for() -> None:
    refusal = a_probing_breaker().refusal(1, 100, RULES, NOW + 10 * MINUTE + 20 * SECOND)
    assert refusal.retry_after == 40.0


moves = st.lists(
    st.tuples(
        st.sampled_from(["look", "probe", "succeeds", "fails"]), st.integers(0, 100), st.integers(0, 700), st.booleans()
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(moves)
def test_whatever_happens_it_never_stays_open_for_good(history: list[tuple[str, int, int, bool]]) -> None:
    breaker, now = Breaker(), NOW
    for what, available, seconds, mine in history:
        now += seconds * SECOND
        before, breaker = breaker, breaker.look(available, 100, RULES, now)
        kept = before.keep_closed_until is not None and now < before.keep_closed_until
        assert breaker.state is not OPEN or available < 20
        assert not (before.state is CLOSED and kept and breaker.state is OPEN)
        if what == "probe" and breaker.may_probe(RULES, now):
            breaker = breaker.probe(ME, RULES, now)
        elif what in ("succeeds", "fails"):
            breaker = breaker.answered(ME if mine else OTHER, what == "succeeds", RULES, now)
        if breaker.state is not CLOSED:
            soon = breaker.next_look(RULES, now)
            assert soon <= now + RULES.open_for
            again = breaker.look(available, 100, RULES, soon)
            assert again.may_probe(RULES, soon + RULES.open_for) or again.state is CLOSED


@pytest.mark.parametrize(("available", "total", "rate"), [(3, 16, 18.75), (0, 5, 0.0), (0, 0, 0.0)])
def test_a_refusal_says_the_share_of_available_agents_in_percent(available: int, total: int, rate: float) -> None:
    assert PoolBreakerOpen(available, total, percent=20, seconds=60).rate == rate
