"""Waits double, stay in bounds, and are spread by rng."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import rng

from sellerwatch.kernel.backoff import Backoff

OUTBOX = Backoff(first=30, longest=3600)


@pytest.mark.parametrize(("tries", "whole"), [(1, 30), (2, 60), (3, 120), (4, 240), (7, 1920), (8, 3600), (500, 3600)])
def test_a_wait_without_jitter_doubles_up_to_the_longest(tries: int, whole: float) -> None:
    assert Backoff(first=30, longest=3600, jitter=0).wait(tries, rng()) == timedelta(seconds=whole)


@given(tries=st.integers(1, 10_000), seed=st.integers(0, 2**32), jitter=st.floats(0, 1))
def test_a_wait_lies_between_the_share_that_is_sure_and_the_whole(tries: int, seed: int, jitter: float) -> None:
    whole = min(30 * 2.0 ** min(tries - 1, 60), 3600)
    wait = Backoff(first=30, longest=3600, jitter=jitter).wait(tries, rng(seed)).total_seconds()
    assert whole * (1 - jitter) - 1e-6 <= wait <= whole + 1e-6


def test_things_that_failed_together_do_not_come_back_together() -> None:
    chance = rng(1)
    waits = {OUTBOX.wait(8, chance) for _ in range(100)}
    assert len(waits) == 100
    assert max(waits) - min(waits) > timedelta(minutes=20)


def test_the_wait_is_decided_by_the_given_rng_alone() -> None:
    assert OUTBOX.wait(3, rng(5)) == timedelta(seconds=120 * (1 - 0.5 * rng(5).random()))


def test_no_try_yet_counts_as_the_first() -> None:
    assert Backoff(first=30, longest=3600, jitter=0).wait(0, rng()) == timedelta(seconds=30)
