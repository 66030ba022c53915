"""Whose fault is a server error: one agent's, or the marketplace's where three agents meet one within a minute."""

from __future__ import annotations

from tests.builders import MINUTE, NOW, SECOND

from sellerwatch.agents.storm import Storm


def test_an_error_of_one_or_two_agents_is_their_own() -> None:
    storm = Storm()
    assert not storm.is_on(1, NOW)
    assert not storm.is_on(2, NOW)


def test_the_third_agent_within_a_minute_makes_it_the_marketplaces() -> None:
    storm = Storm()
    storm.is_on(1, NOW)
    storm.is_on(2, NOW + 30 * SECOND)
    assert storm.is_on(3, NOW + MINUTE)


def test_the_same_agent_failing_again_and_again_is_no_storm() -> None:
    storm = Storm()
    assert not any(storm.is_on(1, NOW + second * SECOND) for second in range(50))


def test_errors_older_than_a_minute_are_forgotten() -> None:
    storm = Storm()
    storm.is_on(1, NOW)
    storm.is_on(2, NOW + SECOND)
    assert not storm.is_on(3, NOW + MINUTE + SECOND / 2)


def test_a_storm_lasts_while_agents_meet_it_and_ends_a_minute_later() -> None:
    storm = Storm()
    for second in range(120):
        on = storm.is_on(second % 3, NOW + second * SECOND)
        assert on == (second >= 2)
    assert not storm.is_on(1, NOW + 5 * MINUTE)


def test_what_is_remembered_is_bounded() -> None:
    storm = Storm()
    for _ in range(5000):
        storm.is_on(1, NOW)
    storm.is_on(2, NOW)
    assert storm.is_on(3, NOW)
    assert len(storm._met) == 1000
