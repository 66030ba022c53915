"""The whole pool under random answers, deaths, reboots, operators and clocks: agents, circuits, tokens, limits. In some
lives also under migrations there and back, and databases that are restored from an older copy. Twice: with the embedded
limiter, and with the one in a real Redis, which is emptied, goes away and comes back.

The count of what left and arrived, and of each agent's failures in a row, is kept by the test alone, by a time that
nobody can set. At every departure it is within both limits; a circuit opens after three failures in a row by the order
of the answers, and never before; in the end every agent is back and every slot is free.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.pool.pool_world import ANSWERS, REST, SECOND_US, Computer, PoolWorld, Process, Request, small_pool
from tests.pool.redis_world import RedisPoolWorld
from tests.servers import Redis
from tests.world import keep_agents

from sellerwatch.adapters.sql.migrate import downgrade, upgrade
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.limits import Limits
from sellerwatch.kernel.circuit import CircuitState

#: The client's patience: no request of a living process is on its way for longer.
PATIENCE_US = 8 * SECOND_US
SMALL = Limits(window_limit=6, window=timedelta(seconds=20), per_second=4, margin=timedelta(milliseconds=50))
LIMITS = st.builds(
    Limits,
    window_limit=st.integers(1, 6),
    window=st.integers(10, 40).map(lambda seconds: timedelta(seconds=seconds)),
    per_second=st.sampled_from([0.5, 1.0, 2.0, 60.0]),
    margin=st.sampled_from([timedelta(0), timedelta(milliseconds=50)]),
)
WHICH = st.integers(0, 1000)
KINDS = st.sampled_from(sorted(ANSWERS))
#: A 429 is the one failure that is never excused as the marketplace's. Two open no circuit, three do.
RANDOM = st.integers(0, 10_000).map(Random)
IN_A_ROW = st.sampled_from(
    [["429", "429"], ["429", "429", "429"], ["429", "success", "429", "429"], ["429", "429", "429", "success"]]
)


#: Answers that may count against an agent, and those that show that it is welcome. A rejected token may be either.
COUNTS = {"429", "429 for 10 minutes"}
AGAINST = {*COUNTS, "500", "503", "503 for a minute", "dropped"}
TAKEN_BACK_WITHIN_US = 120 * SECOND_US
NEITHER = {"401"}
THREE = 3
MULTIPLE_TOKENS = "SELECT agent_id FROM user_agent_token WHERE is_active = 1 GROUP BY agent_id HAVING COUNT(*) > 1"
RENEWALS_OF_NONE = """
SELECT s.agent_id FROM token_refresh_schedule s
WHERE NOT EXISTS (SELECT 1 FROM user_agent_token t WHERE t.token_id = s.token_id AND t.is_active = 1)
"""


@dataclass
class InARow:
    """Failures in a row of one agent by the order of its answers. None: not known. Whether an outage failure counted is
    not known either, for as long as it may be taken back; a 429 always counts."""

    most: int | None = 0
    least: int = 0
    unsure_until_us: int = 0

    def note(self, kind: str, now_us: int) -> None:
        if kind in NEITHER:
            self.most, self.least = None, 0
        elif kind not in AGAINST:
            self.most = self.least = 0
        else:
            self.most = None if self.most is None else self.most + 1
            self.least += kind in COUNTS
            if kind not in COUNTS:
                self.unsure_until_us = now_us + TAKEN_BACK_WITHIN_US


def pool_machine(
    new_world: Callable[[Computer, Limits], PoolWorld], *, disasters: bool = False
) -> type[RuleBasedStateMachine]:
    class PoolMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.computer = Computer()
            self.world = new_world(self.computer, SMALL)
            self.processes: list[Process] = [self.world.start(), self.world.start()]
            self.in_a_row: defaultdict[int, InARow] = defaultdict(InARow)
            self.copy: sqlite3.Connection | None = None

        def answer(
            self,
            process: Process,
            given: Sequence[tuple[Request, str]],
            arrived_us: int | None,
            seconds_between: float = 0.001,
        ) -> None:
            """Answers in their order, written in one transaction; then each circuit is as its answers say."""
            numbers = [request.claim.permit.number for request, _ in given]
            # One that was given up before is counted no more.
            counted = self.world.read(lambda tx: tx.permits.still_open(numbers))
            before = self.circuits()
            answers = [(request, ANSWERS[kind]) for request, kind in given]
            self.world.answer_in_order(process, answers, arrived_us=arrived_us, seconds_between=seconds_between)
            after = self.circuits()
            may_open, must_open = set[int](), set[int]()
            for request, kind in given:
                if request.claim.permit.number not in counted:
                    continue
                streak = self.in_a_row[request.row]
                streak.note(kind, self.computer.true_us)
                may_open |= {request.row} if streak.most is None or streak.most >= THREE else set()
                must_open |= {request.row} if streak.least >= THREE else set()
            for row in {request.row for request, _ in given} & set(after):
                if before.get(row) is not CircuitState.CLOSED:
                    continue
                assert after[row] is CircuitState.CLOSED or row in may_open, f"agent {row} opened before three in a row"
                if row in must_open and self.in_a_row[row].unsure_until_us < self.computer.true_us:
                    assert after[row] is CircuitState.OPEN, f"agent {row} did not open after three in a row"

        def circuits(self) -> dict[int, CircuitState]:
            return {each.row: each.circuit.state for each in self.world.read(lambda tx: tx.pool_report.agents())}

        def process(self, which: int) -> Process:
            return self.processes[which % len(self.processes)]

        def time_goes_to(self, until_us: int) -> None:
            """Living hearts beat, and nobody waits for an answer beyond the patience."""
            while True:
                waiting = [(each.left_us, p, each) for p in self.processes for each in p.in_flight]
                left, process, request = min(waiting, key=lambda w: w[0], default=(until_us, None, None))
                if process is None or request is None or left + PATIENCE_US > until_us:
                    break
                self.computer.true_us = max(self.computer.true_us, left + PATIENCE_US)
                self.answer(process, [(request, "dropped")], self.computer.true_us)
            self.computer.true_us = max(self.computer.true_us, until_us)
            for process in self.processes:
                self.world.beat(process)

        @rule(milliseconds=st.integers(0, 45_000))
        def time_passes(self, milliseconds: int) -> None:
            self.time_goes_to(self.computer.true_us + milliseconds * 1000)

        @rule(which=WHICH, early_us=st.sampled_from([0, 1]))
        def work_is_claimed_the_moment_a_slot_is_free_or_just_before(self, which: int, early_us: int) -> None:
            free = self.world.read(lambda tx: tx.windows.next_free_us(self.world.limits))
            if free is not None:
                self.time_goes_to(self.world.true_of(free) - early_us)
            self.world.claim(self.process(which))

        @rule(which=WHICH, commits=st.booleans())
        def a_process_is_killed_in_the_middle_of_a_claim(self, which: int, commits: bool) -> None:
            number = which % len(self.processes)
            process = self.processes[number]
            ahead = self.world.ahead(process)
            if commits:
                self.world.committed(process, ahead)
            self.world.vanish(process)
            self.processes[number] = self.world.start()

        @rule(which=WHICH, wanted=st.integers(1, 12))
        def work_is_claimed(self, which: int, wanted: int) -> None:
            self.world.claim(self.process(which), wanted)

        @precondition(lambda self: any(process.in_flight for process in self.processes))
        @rule(which=WHICH, kind=KINDS, late=st.booleans())
        def an_answer_comes(self, which: int, kind: str, late: bool) -> None:
            process = next(p for p in (self.processes[which % 2 :] + self.processes) if p.in_flight)
            request = process.in_flight[which % len(process.in_flight)]
            arrived = self.computer.true_us if late else request.left_us
            self.answer(process, [(request, kind)], arrived)

        @rule(which=WHICH, kinds=IN_A_ROW, rng=RANDOM, together=st.booleans())
        def requests_pile_up_and_are_answered(
            self, which: int, kinds: list[str], rng: Random, *, together: bool
        ) -> None:
            """After a rest, an agent has several requests in flight, sent one after the other, before the first is
            answered. They are answered in any order, together or one by one."""
            process = self.process(which)
            self.time_goes_to(self.computer.true_us + REST // timedelta(microseconds=1))
            self.world.tend(process)
            for _ in kinds:
                self.world.claim(process)
                self.time_goes_to(self.computer.true_us + self.world.limits.spacing_us)
            of_agent: defaultdict[int, list[Request]] = defaultdict(list)
            for request in rng.sample(process.in_flight, len(process.in_flight)):
                of_agent[request.row].append(request)
            given = [each for requests in of_agent.values() for each in zip(requests, kinds, strict=False)]
            at_once = max(1, len(given)) if together else 1
            for first in range(0, len(given), at_once):
                self.answer(process, given[first : first + at_once], self.computer.true_us)

        @rule(which=WHICH, seconds=st.sampled_from([0, 1, 5]))
        def windows_are_used_up(self, which: int, seconds: int) -> None:
            """Every slot is lent, each request is answered so much later, and the next slot is asked for just before it
            is free and when it is."""
            process = self.process(which)
            for _ in range(self.world.limits.window_limit):
                self.world.claim(process)
                self.time_goes_to(self.computer.true_us + self.world.limits.spacing_us)
            self.time_goes_to(self.computer.true_us + seconds * SECOND_US)
            self.everything_succeeds(which)
            for early_us in (1, 0):
                self.work_is_claimed_the_moment_a_slot_is_free_or_just_before(which, early_us)

        @precondition(lambda self: any(len(process.in_flight) > 1 for process in self.processes))
        @rule(which=WHICH, rng=RANDOM, kinds=st.lists(KINDS, min_size=1, max_size=3))
        def several_answers_come_in_any_order(self, which: int, rng: Random, kinds: list[str]) -> None:
            process = max(self.processes, key=lambda each: len(each.in_flight))
            requests = rng.sample(process.in_flight, rng.randint(2, len(process.in_flight)))
            given = [(request, rng.choice(kinds)) for request in requests]
            self.answer(process, given, self.computer.true_us)

        @rule(which=WHICH)
        def everything_succeeds(self, which: int) -> None:
            """In one moment, so that all slots are free in one moment, too."""
            process = self.process(which)
            self.answer(process, [(request, "success") for request in process.in_flight], self.computer.true_us, 0)

        @rule(which=WHICH)
        def a_process_is_killed_and_another_started(self, which: int) -> None:
            """With requests on their way, where it could send some."""
            number = which % len(self.processes)
            self.world.claim(self.processes[number])
            self.world.vanish(self.processes[number])
            self.processes[number] = self.world.start()

        @rule(which=WHICH)
        def a_process_stops_and_another_is_started(self, which: int) -> None:
            number = which % len(self.processes)
            self.world.stop(self.processes[number])
            self.processes[number] = self.world.start()

        @rule(seconds=st.integers(0, 60))
        def the_machine_is_rebooted(self, seconds: int) -> None:
            for process in self.processes:
                self.world.vanish(process)
            self.computer.reboot()
            self.computer.passes(seconds)
            self.processes = [self.world.start(), self.world.start()]

        @precondition(lambda _: disasters)
        @rule(to=st.sampled_from(["-1", "0003", "0002"]))
        def the_schema_goes_down_and_up_again(self, to: str) -> None:
            self.everybody_is_killed()
            engine = self.world.store.engine
            downgrade(engine, to)
            upgrade(engine, self.computer.wall)
            self.world.transact(lambda tx: keep_agents(tx, 3))
            if to == "0002":
                # The permits are gone with their table: each window counts as full for one window.
                self.forget_failures()
            self.processes = [self.world.start(), self.world.start()]

        @precondition(lambda _: disasters)
        @rule()
        def a_copy_of_the_database_is_made(self) -> None:
            if self.copy is not None:
                self.copy.close()
            self.copy = self.world.image()

        @precondition(lambda self: disasters and self.copy is not None)
        @rule()
        def the_copy_is_restored(self) -> None:
            self.everybody_is_killed()
            assert self.copy is not None
            self.world.restore(self.copy)
            self.forget_failures()
            self.processes = [self.world.start(), self.world.start()]

        def forget_failures(self) -> None:
            """The database knows of other answers than the marketplace gave."""
            self.in_a_row = defaultdict(lambda: InARow(most=None))

        def everybody_is_killed(self) -> None:
            for process in self.processes:
                self.world.vanish(process)

        @rule(minutes=st.integers(-120, 120))
        def somebody_sets_the_clock(self, minutes: int) -> None:
            self.computer.set_by = timedelta(minutes=minutes)

        @rule(limits=LIMITS)
        def the_limits_are_changed(self, limits: Limits) -> None:
            self.world.set_limits(limits)

        @rule(which=WHICH)
        def the_pool_is_tended(self, which: int) -> None:
            self.world.tend(self.process(which))

        @rule(which=WHICH, block=st.booleans())
        def an_operator_steps_in(self, which: int, block: bool) -> None:
            now = self.computer.wall
            row, agent = sorted(self.world.agents().items())[which % 3]
            blocked = agent.status is AgentStatus.BLOCKED
            if block and not blocked:
                agent = agent.block(now, "an operator")
            elif blocked and not block:
                agent = agent.unblock(now)
            self.world.transact(lambda tx: tx.agents.save({row: agent}))

        @invariant()
        def every_slot_in_use_has_its_permit_and_every_permit_its_slot(self) -> None:
            counted = dict(self.world.read(_permits_by_agent))
            for row, left, most in self.world.buckets():
                assert most - left == counted.get(row, 0)

        @invariant()
        def an_agent_has_one_token_at_most_and_renewals_are_of_tokens(self) -> None:
            assert self.world.read(lambda tx: tx.db.rows(MULTIPLE_TOKENS)) == []
            assert self.world.read(lambda tx: tx.db.rows(RENEWALS_OF_NONE)) == []

        @invariant()
        def health_stays_within_bounds_and_rests_have_an_end(self) -> None:
            for agent in self.world.agents().values():
                assert 0 <= agent.health_score <= 100
                assert (agent.suspended_until is not None) == (agent.status is AgentStatus.SUSPENDED)

        def teardown(self) -> None:
            try:
                self._in_the_end_everybody_is_back()
            finally:
                self.world.close()
                if self.copy is not None:
                    self.copy.close()

        def _in_the_end_everybody_is_back(self) -> None:
            world, process = self.world, self.processes[0]
            for row, agent in world.agents().items():
                if agent.status is AgentStatus.BLOCKED:
                    back = agent.unblock(self.computer.wall)
                    world.transact(lambda tx, row=row, back=back: tx.agents.save({row: back}))
            seen: set[int] = set()
            # Six hours: the wall clock may have been set by four between a stamp and now.
            for _ in range(24):
                self.time_goes_to(self.computer.true_us + 901 * SECOND_US)
                world.tend(process)
                seen |= {taken.candidate.row for taken in world.claim(process).taken}
                world.answer(process, list(process.in_flight), arrived_us=self.computer.true_us)
            assert {agent.status for agent in world.agents().values()} == {AgentStatus.AVAILABLE}
            assert seen == set(world.agents()), "somebody was never lent again"
            states = {stored.circuit.state for stored in world.read(lambda tx: tx.pool_report.agents())}
            assert states == {CircuitState.CLOSED}
            self.computer.passes(self.world.limits.window.total_seconds())
            world.expire()
            self.nothing_is_left()

        def nothing_is_left(self) -> None:
            assert self.world.permits() == 0, "a slot leaked"
            assert all(left == most for _, left, most in self.world.buckets())

    return PoolMachine


def redis_pool_machine(
    new_world: Callable[[Computer, Limits], RedisPoolWorld], *, disasters: bool = False
) -> type[RuleBasedStateMachine]:
    class RedisPoolMachine(pool_machine(new_world, disasters=disasters)):  # type: ignore[misc]
        world: RedisPoolWorld

        @rule(which=WHICH)
        def redis_is_emptied_between_two_claims(self, which: int) -> None:
            self.world.claim(self.process(which))
            self.world.empty_redis()
            self.world.claim(self.process(which))

        @rule(which=WHICH, empties=st.booleans(), milliseconds=st.integers(0, 45_000))
        def redis_is_away_while_answers_come(self, which: int, empties: bool, milliseconds: int) -> None:
            self.world.redis.is_away = True
            self.everything_succeeds(which)
            assert not self.world.claim(self.process(which)).taken
            self.time_goes_to(self.computer.true_us + milliseconds * 1000)
            self.world.redis.is_away = False
            if empties:
                self.world.empty_redis()

        @invariant()
        def redis_counts_its_slots_right(self) -> None:
            assert self.world.counted_slots() == self.world.open_slots()

        def nothing_is_left(self) -> None:
            super().nothing_is_left()
            assert self.world.open_slots() == {}, "a slot leaked in Redis"

    return RedisPoolMachine


def embedded_worlds(template: Path) -> Callable[[Computer, Limits], PoolWorld]:
    return lambda computer, limits: PoolWorld(template, computer, limits=limits)


def redis_worlds(url: str, template: Path) -> Callable[[Computer, Limits], RedisPoolWorld]:
    return lambda computer, limits: RedisPoolWorld(url, template, computer, limits=limits)


def of_lives(lives: int, steps: int) -> settings:
    return settings(
        max_examples=lives,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def _permits_by_agent(tx: Transaction) -> list[tuple[int, int]]:
    return [(row[0], row[1]) for row in tx.db.rows("SELECT agent_id, COUNT(*) FROM permits GROUP BY agent_id")]


@pytest.mark.parametrize(("steps", "lives", "disasters"), [(15, 25, False), (50, 10, False), (20, 3, True)])
def test_the_pool_keeps_its_limits_and_never_shrinks_for_good(
    migrated_template: Path, steps: int, lives: int, *, disasters: bool
) -> None:
    machine = pool_machine(embedded_worlds(small_pool(migrated_template, 3)), disasters=disasters)
    run_state_machine_as_test(machine, settings=of_lives(lives, steps))


@pytest.mark.parametrize(("steps", "lives", "disasters"), [(15, 12, False), (50, 4, False), (20, 3, True)])
def test_the_pool_does_so_with_its_limiter_in_redis(
    redis: Redis, migrated_template: Path, steps: int, lives: int, *, disasters: bool
) -> None:
    machine = redis_pool_machine(redis_worlds(redis.url, small_pool(migrated_template, 3)), disasters=disasters)
    run_state_machine_as_test(machine, settings=of_lives(lives, steps))
