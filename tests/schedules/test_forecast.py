"""When runs would finish, against what the pool may ask."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import HOUR, SELLER

from sellerwatch.agents.limits import Host, Limits
from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.forecast import DAY, LONGEST, Budget, agents_needed, finishes
from sellerwatch.schedules.outlook import Due, ExpectedRuns

NOW = datetime.fromisoformat("2026-11-15T06:00:00+00:00")
MINUTE = timedelta(minutes=1)
#: Ten agents of 80 an hour, a request a second each.
TEN = Budget.of_so_many(10, Limits(margin=timedelta(0)), Host())


def ends(*requests: int, budget: Budget = TEN, apart: timedelta = timedelta(0)) -> list[timedelta | None]:
    runs = [Due(NOW + number * apart, SellerId(f"s{number}"), asked) for number, asked in enumerate(requests)]
    return [None if finish.at is None else finish.at - NOW for finish in finishes(runs, budget, NOW)]


def test_what_the_windows_hold_goes_at_the_agents_rate() -> None:
    assert ends(600) == [MINUTE]
    assert ends(800) == [2 * MINUTE]


def test_what_they_do_not_hold_waits_until_they_are_free_again() -> None:
    assert ends(801) == [61 * MINUTE]
    assert ends(1600) == [62 * MINUTE]
    assert ends(801, budget=replace(TEN, left=0)) == [61 * MINUTE]


def test_what_is_used_by_now_comes_back_evenly() -> None:
    assert ends(400, budget=replace(TEN, left=0)) == [30 * MINUTE]


def test_runs_that_go_on_together_share_and_a_small_one_does_not_wait_for_a_large_one() -> None:
    assert ends(10, 790) == [MINUTE, 2 * MINUTE]
    assert ends(400, 400) == [2 * MINUTE, 2 * MINUTE]
    assert ends(800, 100, apart=MINUTE * 30) == [2 * MINUTE, 61 * MINUTE]


def test_the_marketplace_as_a_whole_may_be_slower_than_the_agents() -> None:
    slow = Budget.of_so_many(10, Limits(), Host(per_second=1.0))
    assert ends(120, budget=slow) == [2 * MINUTE]
    assert slow.within(DAY) == min(86_400, 10 * 80 * 24)


def test_with_no_agent_nothing_ends() -> None:
    assert ends(1, budget=Budget.of_so_many(0, Limits(), Host())) == [None]


def test_a_window_shorter_than_a_minute_is_used_again_and_again() -> None:
    quick = Budget.of_so_many(1, Limits(window_limit=5, window=timedelta(seconds=10), margin=timedelta(0)), Host())
    assert ends(60, budget=quick) == [2 * MINUTE]


def test_as_many_agents_are_needed_as_a_day_takes() -> None:
    assert [agents_needed(asked, Limits()) for asked in (0, 1, 80 * 24, 80 * 24 + 1)] == [0, 1, 1, 2]


def test_a_rhythm_starts_what_is_overdue_once_and_is_kept() -> None:
    rhythm = ExpectedRuns(SELLER, NOW - 5 * HOUR, 6 * HOUR, 10)
    assert [run.at - NOW for run in rhythm.starts(NOW, NOW + DAY)] == [-5 * HOUR, HOUR, 7 * HOUR, 13 * HOUR, 19 * HOUR]
    missed_thrice = replace(rhythm, next_run_at=NOW - 20 * HOUR)
    assert [run.at - NOW for run in missed_thrice.starts(NOW, NOW + 8 * HOUR)] == [-20 * HOUR, 4 * HOUR]
    assert replace(rhythm, next_run_at=NOW + DAY).starts(NOW, NOW + DAY) == []
    assert replace(rhythm, next_run_at=None).starts(NOW, NOW + DAY) == []


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 3000)), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(0, 80),
)
def test_never_more_is_asked_than_the_pool_may_and_nobody_waits_for_nothing(
    runs: list[tuple[int, int]], agents: int, left: int
) -> None:
    budget = replace(Budget.of_so_many(agents, Limits(), Host()), left=agents * left)
    dues = [Due(NOW + start * MINUTE, SellerId(f"s{n}"), asked) for n, (start, asked) in enumerate(runs)]
    ended = finishes(dues, budget, NOW)
    last = max((finish.at for finish in ended if finish.at), default=NOW)
    done = sum(finish.run.requests for finish in ended if finish.at)
    # In any time at most what was free and what came back, and what came back was used a window before.
    assert done <= budget.left + budget.slots * (1 + (last - NOW) // budget.window)
    for finish in ended:
        assert finish.at is None or finish.at > finish.run.at
        if finish.at is None:
            assert sum(asked for _, asked in runs) > budget.within(LONGEST) - budget.slots
    alone = finishes([dues[0]], budget.rested(), dues[0].at)[0].at
    together = ended[0].at
    assert alone is not None
    assert together is None or together > dues[0].at
