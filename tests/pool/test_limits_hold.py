"""The limits hold over restarts, reboots, set clocks, second processes and changed settings.

What left and arrived is counted by the ground's own ledger, by true time, at every departure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import HOUR, MINUTE, SECOND
from tests.pool.ground import ANSWERS, SECOND_US, VISIBILITY, Ground, Machine, Process, small_pool

from sellerwatch.agents.limits import Limits

LIMITS = Limits(window_limit=5, window=HOUR, per_second=100, margin=timedelta(0))
MICROSECOND = 1e-6


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def ground(migrated_template: Path, machine: Machine) -> Iterator[Ground]:
    """One agent with a window of five an hour."""
    made = Ground(small_pool(migrated_template, 1), machine, limits=LIMITS)
    yield made
    made.close()


def take(ground: Ground, process: Process, wanted: int = 50) -> int:
    return len(ground.claim(process, wanted).taken)


def use(ground: Ground, process: Process, wanted: int = 50) -> int:
    """Claim and have it answered at once."""
    taken = take(ground, process, wanted)
    ground.answer(process, list(process.in_flight), arrived_us=ground.machine.true_us)
    return taken


def drain(ground: Ground, process: Process) -> int:
    """As often as it takes; spacing is 10 ms and a claim looks 20 ms ahead."""
    total = 0
    while taken := use(ground, process):
        total += taken
        ground.machine.passes(0.05)
    return total


def test_a_slot_is_free_one_window_after_its_answer_to_the_microsecond(ground: Ground, machine: Machine) -> None:
    process = ground.start()
    assert drain(ground, process) == 5
    free = ground.read(lambda tx: tx.windows.next_free_us(LIMITS))
    machine.true_us = machine.true_of(free) - 1
    assert use(ground, process) == 0
    machine.passes(MICROSECOND)
    assert use(ground, process) > 0


def test_a_slow_answer_holds_its_slot_for_as_long(ground: Ground, machine: Machine) -> None:
    process = ground.start()
    assert take(ground, process, 1) == 1
    machine.passes(50 * 60)
    assert drain(ground, process) == 4 - 1 + 1, "four others, and the slow one came back with them"
    machine.passes(59 * 60)
    assert use(ground, process) == 0


def test_a_restart_in_mid_window_forgets_nothing(ground: Ground, machine: Machine) -> None:
    first = ground.start()
    assert use(ground, first, 3) == 3
    machine.passes(1)
    assert take(ground, first, 1) == 1
    ground.stop(first)
    second = ground.start()
    machine.passes(1)
    assert drain(ground, second) == 1
    machine.passes(3590)
    assert use(ground, second) == 0
    machine.passes(20)
    assert drain(ground, second) == 5


def test_what_a_killed_process_was_lent_counts_from_when_that_is_noticed(ground: Ground, machine: Machine) -> None:
    first, second = ground.start(), ground.start()
    assert take(ground, first) == 3
    ground.vanish(first)
    machine.passes(VISIBILITY.total_seconds() + 1)
    ground.tend(second)
    assert drain(ground, second) == 2
    machine.passes(3600 - 1)
    assert use(ground, second) == 0, "31 seconds after it was sent, but not yet an hour after it was noticed"
    machine.passes(1)
    assert drain(ground, second) == 5


def test_two_processes_share_one_budget(ground: Ground, machine: Machine) -> None:
    first, second = ground.start(), ground.start()
    total = 0
    for _ in range(10):
        total += use(ground, first, 1)
        machine.passes(0.05)
        total += use(ground, second, 1)
        machine.passes(0.05)
    assert total == 5


def test_a_living_process_given_up_for_dead_is_within_the_limits_all_the_same(ground: Ground, machine: Machine) -> None:
    # Somebody set the clock forward: its heart seems to have stopped long ago. Its request is on its way.
    first, second = ground.start(), ground.start()
    assert take(ground, first, 1) == 1
    machine.set_by = HOUR
    ground.tend(second)
    machine.passes(20)
    ground.answer(first, list(first.in_flight), arrived_us=machine.true_us)
    assert drain(ground, second) == 4
    machine.passes(3600 - 10)
    assert drain(ground, second) == 0, "the slot counted from when it was given up, not from when it came back"
    machine.passes(11)
    assert drain(ground, second) == 5


@pytest.mark.parametrize("by", [-2 * HOUR, -HOUR, -MINUTE, MINUTE, HOUR, 2 * HOUR], ids=str)
def test_setting_the_clock_opens_no_window_and_closes_none(ground: Ground, machine: Machine, by: timedelta) -> None:
    process = ground.start()
    assert drain(ground, process) == 5
    machine.set_by = by
    assert drain(ground, process) == 0
    other = ground.start()
    assert drain(ground, other) == 0
    machine.passes(3590)
    assert drain(ground, other) == 0
    machine.passes(20)
    assert drain(ground, other) == 5, "and it is not shut for longer either"


@pytest.mark.parametrize("down", [0, 1, 600, 3 * 3600])
@pytest.mark.parametrize("by", [timedelta(0), -HOUR, HOUR], ids=str)
def test_after_a_reboot_what_was_lent_counts_from_the_boot(
    ground: Ground, machine: Machine, down: int, by: timedelta
) -> None:
    # How long the machine was off only the wall clock could say, and nobody may believe it.
    process = ground.start()
    assert drain(ground, process) == 5
    machine.passes(down)
    machine.set_by = by
    machine.reboot()
    machine.passes(5)
    process = ground.start()
    assert drain(ground, process) == 0
    machine.passes(3600 - 6)
    assert drain(ground, process) == 0
    machine.passes(1)
    assert drain(ground, process) == 5


def test_the_first_departure_after_a_reboot_keeps_its_distance(migrated_template: Path, machine: Machine) -> None:
    ground = Ground(small_pool(migrated_template, 1), machine, limits=replace(LIMITS, per_second=1))
    process = ground.start()
    assert take(ground, process) == 1
    ground.vanish(process)
    machine.reboot()
    process = ground.start()
    machine.passes(0.9)
    assert take(ground, process) == 0
    machine.passes(0.1)
    assert take(ground, process) == 1
    ground.close()


def test_a_second_reboot_begins_anew_and_a_third_process_of_one_boot_changes_nothing(
    ground: Ground, machine: Machine
) -> None:
    assert drain(ground, ground.start()) == 5
    machine.reboot()
    machine.passes(1800)
    assert drain(ground, ground.start()) == 0
    machine.reboot()
    machine.passes(1801)
    process = ground.start()
    assert drain(ground, process) == 0, "an hour has passed, but the second boot knows of half of it"
    machine.passes(1799)
    ground.start()
    assert drain(ground, process) == 5


def test_permits_given_back_are_as_if_they_had_never_been(ground: Ground, machine: Machine) -> None:
    process = ground.start()
    ground.issue_tokens(ground.claims(process))
    found = ground.claims(process)
    assert len(found.taken) == 3
    back = [taken.permit for taken in found.taken]
    ground.transact(lambda tx: tx.permits.give_back(back))
    assert (ground.permits(), ground.buckets()[0][1]) == (0, 5)
    ground.transact(lambda tx: tx.permits.give_back(back))
    assert ground.buckets()[0][1] == 5, "once"
    machine.passes(1)
    assert drain(ground, process) == 5


def test_a_permit_that_was_answered_cannot_be_given_back(ground: Ground) -> None:
    process = ground.start()
    found = ground.claim(process, 1)
    ground.answer(process, list(process.in_flight))
    ground.transact(lambda tx: tx.permits.give_back([found.taken[0].permit]))
    assert (ground.permits(), ground.buckets()[0][1]) == (1, 4)


# Limits changed at run time.


def test_a_higher_limit_counts_at_once_and_a_lower_one_too(ground: Ground, machine: Machine) -> None:
    process = ground.start()
    assert drain(ground, process) == 5
    ground.set_limits(replace(LIMITS, window_limit=8))
    assert drain(ground, process) == 3
    ground.set_limits(replace(LIMITS, window_limit=2))
    assert drain(ground, process) == 0
    machine.passes(3600)
    assert drain(ground, process) == 2


def test_a_shorter_window_frees_what_is_older(ground: Ground, machine: Machine) -> None:
    process = ground.start()
    assert drain(ground, process) == 5
    machine.passes(600)
    ground.set_limits(replace(LIMITS, window=10 * MINUTE))
    assert drain(ground, process) == 5


def test_a_longer_window_counts_as_full_until_what_was_forgotten_is_out_of_its_reach(
    ground: Ground, machine: Machine
) -> None:
    ground.set_limits(replace(LIMITS, window=10 * MINUTE))
    process = ground.start()
    assert drain(ground, process) == 5
    machine.passes(600)
    assert use(ground, process, 1) == 1, "the five are forgotten"
    ground.set_limits(LIMITS)
    machine.passes(3600 - 600 - 1)
    assert drain(ground, process) == 0
    machine.passes(1)
    assert drain(ground, process) == 4, "the one of ten minutes ago still counts"


def test_a_slower_rate_counts_from_the_last_departure(ground: Ground, machine: Machine) -> None:
    process = ground.start()
    assert use(ground, process, 1) == 1
    ground.set_limits(replace(LIMITS, per_second=0.1))
    machine.passes(9.9)
    assert use(ground, process) == 0
    machine.passes(0.1)
    assert use(ground, process) == 1


def test_two_reasons_to_count_as_full_do_not_shorten_each_other(ground: Ground, machine: Machine) -> None:
    # A restored database is full for an hour; an operator makes the window a minute longer in the meantime.
    process = ground.start()
    at = machine.moment()
    ground.transact(lambda tx: tx.windows.fill(at, LIMITS))
    ground.set_limits(replace(LIMITS, window=HOUR + MINUTE))
    assert ground.read(lambda tx: tx.windows.full_until_us()) == at.boot_us + 3600 * SECOND_US
    machine.passes(3599)
    assert drain(ground, process) == 0
    machine.passes(1)
    assert drain(ground, process) == 5


def test_a_window_that_counted_as_full_long_ago_does_not_after_a_reboot(ground: Ground, machine: Machine) -> None:
    process = ground.start()
    at = machine.moment()
    ground.transact(lambda tx: tx.windows.fill(at, LIMITS))
    for _ in range(3):
        machine.passes(3601)
        assert drain(ground, process) == 5 * (machine.true_us > 3600 * SECOND_US)
    assert ground.read(lambda tx: tx.windows.full_until_us()) is None
    machine.passes(3601)
    machine.reboot()
    machine.passes(3601)
    assert drain(ground, ground.start()) == 5


def test_a_window_that_counts_as_full_does_so_for_a_whole_window_after_a_reboot(
    ground: Ground, machine: Machine
) -> None:
    ground.start()
    at = machine.moment()
    ground.transact(lambda tx: tx.windows.fill(at, LIMITS))
    machine.reboot()
    machine.passes(10)
    process = ground.start()
    machine.passes(3599)
    assert drain(ground, process) == 0
    machine.passes(1)
    assert drain(ground, process) == 5


def test_every_kind_of_answer_gives_its_slot_back_after_a_window(migrated_template: Path, machine: Machine) -> None:
    ground = Ground(small_pool(migrated_template, 3), machine, limits=LIMITS, percent=0)
    process = ground.start()
    for kind, answer in ANSWERS.items():
        found = ground.claim(process, 1)
        assert len(found.taken) == 1, kind
        ground.answer(process, list(process.in_flight), answer)
        machine.passes(1200)
        ground.tend(process)
    machine.passes(3600)
    ground.expire()
    assert ground.permits() == 0
    assert {left for _, left, _ in ground.buckets()} == {5}
    ground.close()


def test_the_window_moves_on_by_the_second(ground: Ground, machine: Machine) -> None:
    # A fixed window let twice the limit through at its edge.
    process = ground.start()
    made: list[int] = []
    for _ in range(40):
        if use(ground, process, 1):
            made.append(machine.true_us)
        machine.passes((13 * MINUTE + 7 * SECOND).total_seconds() / 2)
    for start in made:
        assert sum(start <= each < start + 3600 * SECOND_US for each in made) <= 5
