"""The limits hold over restarts, reboots, set clocks, second processes and changed settings.

What left and arrived is counted by the world's own log, by true time, at every departure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import HOUR, MINUTE, SECOND
from tests.pool.pool_world import ANSWERS, SECOND_US, VISIBILITY, Computer, PoolWorld, Process, small_pool

from sellerwatch.agents.agent_status import FullReason
from sellerwatch.agents.limits import Host, Limits

LIMITS = Limits(window_limit=5, window=HOUR, per_second=100, margin=timedelta(0))
MICROSECOND = 1e-6
FULL_UNTIL = "SELECT full_until_us FROM rate_limit_bucket"


@pytest.fixture
def computer() -> Computer:
    return Computer()


@pytest.fixture
def world(migrated_template: Path, computer: Computer) -> Iterator[PoolWorld]:
    """One agent with a window of five an hour."""
    made = PoolWorld(small_pool(migrated_template, 1), computer, limits=LIMITS)
    yield made
    made.close()


def take(world: PoolWorld, process: Process, wanted: int = 50) -> int:
    return len(world.claim(process, wanted).taken)


def use(world: PoolWorld, process: Process, wanted: int = 50) -> int:
    """Claim and have it answered at once."""
    taken = take(world, process, wanted)
    world.answer(process, list(process.in_flight), arrived_us=world.computer.true_us)
    return taken


def drain(world: PoolWorld, process: Process) -> int:
    """As often as it takes; spacing is 10 ms and a claim looks 20 ms ahead."""
    total = 0
    while taken := use(world, process):
        total += taken
        world.computer.passes(0.05)
    return total


def test_a_slot_is_free_one_window_after_its_answer_to_the_microsecond(world: PoolWorld, computer: Computer) -> None:
    process = world.start()
    assert drain(world, process) == 5
    free = world.read(lambda tx: tx.windows.next_free_us(LIMITS))
    computer.true_us = computer.true_of(free) - 1
    assert use(world, process) == 0
    computer.passes(MICROSECOND)
    assert use(world, process) > 0


def test_a_slow_answer_holds_its_slot_for_as_long(world: PoolWorld, computer: Computer) -> None:
    process = world.start()
    assert take(world, process, 1) == 1
    computer.passes(50 * 60)
    assert drain(world, process) == 4 - 1 + 1, "four others, and the slow one came back with them"
    computer.passes(59 * 60)
    assert use(world, process) == 0


def test_a_restart_in_mid_window_forgets_nothing(world: PoolWorld, computer: Computer) -> None:
    first = world.start()
    assert use(world, first, 3) == 3
    computer.passes(1)
    assert take(world, first, 1) == 1
    world.stop(first)
    second = world.start()
    computer.passes(1)
    assert drain(world, second) == 1
    computer.passes(3590)
    assert use(world, second) == 0
    computer.passes(20)
    assert drain(world, second) == 5


def test_what_a_killed_process_was_lent_counts_from_when_that_is_noticed(world: PoolWorld, computer: Computer) -> None:
    first, second = world.start(), world.start()
    assert take(world, first) == 3
    world.vanish(first)
    computer.passes(VISIBILITY.total_seconds() + 1)
    world.tend(second)
    assert drain(world, second) == 2
    computer.passes(3600 - 1)
    assert use(world, second) == 0, "31 seconds after it was sent, but not yet an hour after it was noticed"
    computer.passes(1)
    assert drain(world, second) == 5


def test_two_processes_share_one_budget(world: PoolWorld, computer: Computer) -> None:
    first, second = world.start(), world.start()
    total = 0
    for _ in range(10):
        total += use(world, first, 1)
        computer.passes(0.05)
        total += use(world, second, 1)
        computer.passes(0.05)
    assert total == 5


def test_a_living_process_given_up_for_dead_is_within_the_limits_all_the_same(
    world: PoolWorld, computer: Computer
) -> None:
    # Somebody set the clock forward: its heart seems to have stopped long ago. Its request is on its way.
    first, second = world.start(), world.start()
    assert take(world, first, 1) == 1
    computer.set_by = HOUR
    world.tend(second)
    computer.passes(20)
    world.answer(first, list(first.in_flight), arrived_us=computer.true_us)
    assert drain(world, second) == 4
    computer.passes(3600 - 10)
    assert drain(world, second) == 0, "the slot counted from when it was given up, not from when it came back"
    computer.passes(11)
    assert drain(world, second) == 5


@pytest.mark.parametrize("by", [-2 * HOUR, -HOUR, -MINUTE, MINUTE, HOUR, 2 * HOUR], ids=str)
def test_setting_the_clock_opens_no_window_and_closes_none(world: PoolWorld, computer: Computer, by: timedelta) -> None:
    process = world.start()
    assert drain(world, process) == 5
    computer.set_by = by
    assert drain(world, process) == 0
    other = world.start()
    assert drain(world, other) == 0
    computer.passes(3590)
    assert drain(world, other) == 0
    computer.passes(20)
    assert drain(world, other) == 5, "and it is not shut for longer either"


@pytest.mark.parametrize("down", [0, 1, 600, 3 * 3600])
@pytest.mark.parametrize("by", [timedelta(0), -HOUR, HOUR], ids=str)
def test_after_a_reboot_what_was_lent_counts_from_the_boot(
    world: PoolWorld, computer: Computer, down: int, by: timedelta
) -> None:
    # How long the computer was off only the wall clock could say, and nobody may believe it.
    process = world.start()
    assert drain(world, process) == 5
    computer.passes(down)
    computer.set_by = by
    computer.reboot()
    computer.passes(5)
    process = world.start()
    assert drain(world, process) == 0
    computer.passes(3600 - 6)
    assert drain(world, process) == 0
    computer.passes(1)
    assert drain(world, process) == 5


def test_the_first_departure_after_a_reboot_keeps_its_distance(migrated_template: Path, computer: Computer) -> None:
    world = PoolWorld(small_pool(migrated_template, 1), computer, limits=replace(LIMITS, per_second=1))
    process = world.start()
    assert take(world, process) == 1
    world.vanish(process)
    computer.reboot()
    process = world.start()
    computer.passes(0.9)
    assert take(world, process) == 0
    computer.passes(0.1)
    assert take(world, process) == 1
    world.close()


def test_a_second_reboot_begins_anew_and_a_third_process_of_one_boot_changes_nothing(
    world: PoolWorld, computer: Computer
) -> None:
    assert drain(world, world.start()) == 5
    computer.reboot()
    computer.passes(1800)
    assert drain(world, world.start()) == 0
    computer.reboot()
    computer.passes(1801)
    process = world.start()
    assert drain(world, process) == 0, "an hour has passed, but the second boot knows of half of it"
    computer.passes(1799)
    world.start()
    assert drain(world, process) == 5


def test_a_refusal_says_when_the_rate_towards_the_marketplace_allows_the_next(
    migrated_template: Path, computer: Computer
) -> None:
    """A claim that looked again sooner would find nothing, and one that looked later would leave the rate unused."""
    world = PoolWorld(small_pool(migrated_template, 3), computer, limits=LIMITS)
    world.host = Host(concurrency=1000, per_second=0.5)
    process = world.start()
    assert take(world, process, 1) == 1
    refused = world.claims(process)
    assert refused.taken == ()
    assert refused.not_before == computer.wall + 2 * SECOND
    computer.passes(2)
    assert take(world, process, 1) == 1
    world.close()


# Limits changed at run time.


def test_a_higher_limit_counts_at_once_and_a_lower_one_too(world: PoolWorld, computer: Computer) -> None:
    process = world.start()
    assert drain(world, process) == 5
    world.set_limits(replace(LIMITS, window_limit=8))
    assert drain(world, process) == 3
    world.set_limits(replace(LIMITS, window_limit=2))
    assert drain(world, process) == 0
    computer.passes(3600)
    assert drain(world, process) == 2


def test_a_shorter_window_frees_what_is_older(world: PoolWorld, computer: Computer) -> None:
    process = world.start()
    assert drain(world, process) == 5
    computer.passes(600)
    world.set_limits(replace(LIMITS, window=10 * MINUTE))
    assert drain(world, process) == 5


def test_a_longer_window_counts_as_full_until_what_was_forgotten_is_out_of_its_reach(
    world: PoolWorld, computer: Computer
) -> None:
    world.set_limits(replace(LIMITS, window=10 * MINUTE))
    process = world.start()
    assert drain(world, process) == 5
    computer.passes(600)
    assert use(world, process, 1) == 1, "the five are forgotten"
    world.set_limits(LIMITS)
    computer.passes(3600 - 600 - 1)
    assert drain(world, process) == 0
    computer.passes(1)
    assert drain(world, process) == 4, "the one of ten minutes ago still counts"


def test_a_slower_rate_counts_from_the_last_departure(world: PoolWorld, computer: Computer) -> None:
    process = world.start()
    assert use(world, process, 1) == 1
    world.set_limits(replace(LIMITS, per_second=0.1))
    computer.passes(9.9)
    assert use(world, process) == 0
    computer.passes(0.1)
    assert use(world, process) == 1


def test_two_reasons_to_count_as_full_do_not_shorten_each_other(world: PoolWorld, computer: Computer) -> None:
    # A restored database is full for an hour; an operator makes the window a minute longer in the meantime.
    process = world.start()
    at = computer.moment()
    world.transact(lambda tx: tx.windows.fill(at, LIMITS, FullReason.RESTORED))
    world.set_limits(replace(LIMITS, window=HOUR + MINUTE))
    assert world.read(lambda tx: tx.db.value(FULL_UNTIL)) == at.boot_us + 3600 * SECOND_US
    computer.passes(3599)
    assert drain(world, process) == 0
    computer.passes(1)
    assert drain(world, process) == 5


def test_a_window_that_counted_as_full_long_ago_does_not_after_a_reboot(world: PoolWorld, computer: Computer) -> None:
    process = world.start()
    at = computer.moment()
    world.transact(lambda tx: tx.windows.fill(at, LIMITS, FullReason.RESTORED))
    for _ in range(3):
        computer.passes(3601)
        assert drain(world, process) == 5 * (computer.true_us > 3600 * SECOND_US)
    assert world.read(lambda tx: tx.db.value(FULL_UNTIL)) is None
    computer.passes(3601)
    computer.reboot()
    computer.passes(3601)
    assert drain(world, world.start()) == 5


def test_a_window_that_counts_as_full_does_so_for_a_whole_window_after_a_reboot(
    world: PoolWorld, computer: Computer
) -> None:
    world.start()
    at = computer.moment()
    world.transact(lambda tx: tx.windows.fill(at, LIMITS, FullReason.RESTORED))
    computer.reboot()
    computer.passes(10)
    process = world.start()
    computer.passes(3599)
    assert drain(world, process) == 0
    computer.passes(1)
    assert drain(world, process) == 5


def test_every_kind_of_answer_gives_its_slot_back_after_a_window(migrated_template: Path, computer: Computer) -> None:
    world = PoolWorld(small_pool(migrated_template, 3), computer, limits=LIMITS, percent=0)
    process = world.start()
    for kind, answer in ANSWERS.items():
        found = world.claim(process, 1)
        assert len(found.taken) == 1, kind
        world.answer(process, list(process.in_flight), answer)
        computer.passes(1200)
        world.tend(process)
    computer.passes(3600)
    world.expire()
    assert world.permits() == 0
    assert {left for _, left, _ in world.buckets()} == {5}
    world.close()


def test_the_window_moves_on_by_the_second(world: PoolWorld, computer: Computer) -> None:
    # A fixed window let twice the limit through at its edge.
    process = world.start()
    made: list[int] = []
    for _ in range(40):
        if use(world, process, 1):
            made.append(computer.true_us)
        computer.passes((13 * MINUTE + 7 * SECOND).total_seconds() / 2)
    for start in made:
        assert sum(start <= each < start + 3600 * SECOND_US for each in made) <= 5
