"""Whose fault is a server error: one agent's, or the marketplace's where three agents meet one within a minute."""

from __future__ import annotations

from datetime import datetime

from tests.builders import MINUTE, NOW, SECOND

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.storm import Storm

BROKEN, CUT_OFF = Outcome.SERVER_ERROR, Outcome.NETWORK_ERROR


def met(storm: Storm, row: int, now: datetime) -> bool:
    return storm.met(row, BROKEN, now)[0]


def test_an_error_of_one_or_two_agents_is_their_own() -> None:
    storm = Storm()
    assert not met(storm, 1, NOW)
    assert not met(storm, 2, NOW)


def test_the_third_agent_within_a_minute_makes_it_the_marketplaces() -> None:
    storm = Storm()
    met(storm, 1, NOW)
    met(storm, 2, NOW + 30 * SECOND)
    assert met(storm, 3, NOW + MINUTE)


def test_the_same_agent_failing_again_and_again_is_no_storm() -> None:
    storm = Storm()
    assert not any(met(storm, 1, NOW + second * SECOND) for second in range(50))


def test_errors_older_than_a_minute_are_forgotten() -> None:
    storm = Storm()
    met(storm, 1, NOW)
    met(storm, 2, NOW + SECOND)
    assert not met(storm, 3, NOW + MINUTE + SECOND / 2)


def test_a_storm_lasts_while_agents_meet_it_and_ends_a_minute_later() -> None:
    storm = Storm()
    for second in range(120):
        on = met(storm, second % 3, NOW + second * SECOND)
        assert on == (second >= 2)
    assert not met(storm, 1, NOW + 5 * MINUTE)


def test_what_is_remembered_is_bounded() -> None:
    storm = Storm()
    for _ in range(5000):
        met(storm, 1, NOW)
    met(storm, 2, NOW)
    assert met(storm, 3, NOW)
    assert len(storm._met) == 1000


def test_who_was_charged_before_it_was_known_to_be_a_storm_is_forgiven_once() -> None:
    storm = Storm()
    assert storm.met(1, BROKEN, NOW) == (False, ())
    assert storm.met(2, CUT_OFF, NOW + SECOND) == (False, ())
    assert storm.met(1, BROKEN, NOW + SECOND) == (False, ())
    assert storm.met(3, BROKEN, NOW + 2 * SECOND) == (True, ((1, BROKEN), (2, CUT_OFF), (1, BROKEN)))
    assert storm.met(4, BROKEN, NOW + 3 * SECOND) == (True, ())


def test_what_is_older_than_a_minute_is_not_forgiven() -> None:
    storm = Storm()
    storm.met(9, BROKEN, NOW)
    storm.met(1, BROKEN, NOW + MINUTE + SECOND)
    storm.met(2, BROKEN, NOW + MINUTE + SECOND)
    assert storm.met(3, BROKEN, NOW + MINUTE + SECOND) == (True, ((1, BROKEN), (2, BROKEN)))
