"""The whole pool under random answers, deaths, reboots, operators and clocks: agents, circuits, tokens, limits. In some
lives also under migrations there and back, and databases that are restored from an older copy.

The count of what left and arrived, and of each agent's failures in a row, is kept by the test alone, by a time that
nobody can set. At every departure it is within both limits; a circuit opens after three failures in a row by the order
of the answers, and never before; in the end every agent is back and every slot is free.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.pool.pool_world import ANSWERS, SECOND_US, Computer, PoolWorld, Process, Request, small_pool
from tests.world import keep_agents

from sellerwatch.adapters.sql.migrate import downgrade, upgrade
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.limits import Limits
from sellerwatch.kernel.circuit import CircuitState

#: The client's patience: no request of a living process is on its way for longer.
PATIENCE_US = 8 * SECOND_US
SMALL = Limits(window_limit=4, window=timedelta(seconds=20), per_second=2, margin=timedelta(milliseconds=50))
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
IN_A_ROW = st.sampled_from([["429", "429"], ["429", "429", "429"], ["429", "success", "429", "429"]])


#: Answers that may count against an agent, and those that show that it is welcome. A rejected token may be either.
AGAINST = {"429", "429 for 10 minutes", "500", "503", "503 for a minute", "dropped"}
NEITHER = {"401"}
THREE = 3
MULTIPLE_TOKENS = "SELECT agent_id FROM user_agent_token WHERE is_active = 1 GROUP BY agent_id HAVING COUNT(*) > 1"
RENEWALS_OF_NONE = """
SELECT s.agent_id FROM token_refresh_schedule s
WHERE NOT EXISTS (SELECT 1 FROM user_agent_token t WHERE t.token_id = s.token_id AND t.is_active = 1)
"""


class FailuresInARow:
    """Each agent's failures in a row by the order of its answers. None: not known, since a copy was restored."""

    def __init__(self) -> None:
        self._streaks: dict[int, int | None] = {}

    def forget(self) -> None:
        self._streaks = dict.fromkeys(range(1, 100))

    def note(self, row: int, kind: str) -> bool:
        """Count an answer; whether the circuit may have opened by it."""
        streak = self._streaks.get(row, 0)
        if kind in NEITHER:
            streak = None
        elif kind not in AGAINST:
            streak = 0
        elif streak is not None:
            streak += 1
        self._streaks[row] = streak
        return streak is None or streak >= THREE


def pool_machine(template: Path, *, disasters: bool = False) -> type[RuleBasedStateMachine]:
    class PoolMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.computer = Computer()
            self.world = PoolWorld(template, self.computer, limits=SMALL)
            self.processes: list[Process] = [self.world.start(), self.world.start()]
            self.in_a_row = FailuresInARow()
            self.copy: sqlite3.Connection | None = None

        def answer(self, process: Process, given: Sequence[tuple[Request, str]], arrived_us: int | None) -> None:
            """Answers in their order, written in one transaction; then each circuit is as its answers say."""
            before = self.circuits()
            answers = [(request, ANSWERS[kind]) for request, kind in given]
            self.world.answer_in_order(process, answers, arrived_us=arrived_us, seconds_between=0.001)
            after = self.circuits()
            may_open: set[int] = set()
            kinds: dict[int, list[str]] = {}
            for request, kind in given:
                may_open |= {request.row} if self.in_a_row.note(request.row, kind) else set()
                kinds.setdefault(request.row, []).append(kind)
            for row, of_agent in kinds.items():
                if before.get(row) is not CircuitState.CLOSED or row not in after:
                    continue
                assert after[row] is CircuitState.CLOSED or row in may_open, f"agent {row} opened before three in a row"
                # A 429 is never excused: three of them open it, whatever came before.
                if len(of_agent) >= THREE and set(of_agent[-THREE:]) <= {"429", "429 for 10 minutes"}:
                    assert after[row] is CircuitState.OPEN, f"agent {row} did not open after three 429s"

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

        @rule(which=WHICH)
        def work_is_claimed_the_moment_a_slot_is_free(self, which: int) -> None:
            free = self.world.read(lambda tx: tx.windows.next_free_us(self.world.limits))
            if free is not None:
                self.time_goes_to(self.computer.true_of(free))
            self.world.claim(self.process(which))

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

        @rule(which=WHICH, kinds=IN_A_ROW | st.lists(KINDS, min_size=2, max_size=4))
        def requests_pile_up_and_are_answered_alike(self, which: int, kinds: list[str]) -> None:
            """An agent has several requests in flight, sent a second apart, before the first is answered. The first of
            each agent are answered together, then the second: its circuit is looked at after each."""
            process = self.process(which)
            for _ in kinds:
                self.world.claim(process)
                self.computer.passes(1)
            rounds: list[list[Request]] = []
            for request in sorted(process.in_flight, key=lambda each: each.left_us):
                earlier = next((each for each in rounds if request.row not in [one.row for one in each]), None)
                rounds.append([request]) if earlier is None else earlier.append(request)
            for number, each in enumerate(rounds):
                given = [(request, kinds[number % len(kinds)]) for request in each]
                self.answer(process, given, self.computer.true_us)

        @precondition(lambda self: any(len(process.in_flight) > 1 for process in self.processes))
        @rule(which=WHICH, rng=st.randoms(use_true_random=False), kinds=st.lists(KINDS, min_size=1, max_size=3))
        def several_answers_come_in_any_order(self, which: int, rng: Random, kinds: list[str]) -> None:
            process = max(self.processes, key=lambda each: len(each.in_flight))
            requests = rng.sample(process.in_flight, rng.randint(2, len(process.in_flight)))
            given = [(request, rng.choice(kinds)) for request in requests]
            self.answer(process, given, self.computer.true_us)

        @rule(which=WHICH)
        def everything_succeeds(self, which: int) -> None:
            process = self.process(which)
            self.answer(process, [(request, "success") for request in process.in_flight], self.computer.true_us)

        @rule(which=WHICH)
        def a_process_is_killed_and_another_started(self, which: int) -> None:
            number = which % len(self.processes)
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
                self.in_a_row.forget()
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
            self.in_a_row.forget()
            self.processes = [self.world.start(), self.world.start()]

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
            assert world.permits() == 0, "a slot leaked"
            assert all(left == most for _, left, most in world.buckets())

    return PoolMachine


def _permits_by_agent(tx: Transaction) -> list[tuple[int, int]]:
    return [(row[0], row[1]) for row in tx.db.rows("SELECT agent_id, COUNT(*) FROM permits GROUP BY agent_id")]


@pytest.mark.parametrize(("steps", "lives", "disasters"), [(15, 25, False), (50, 10, False), (20, 3, True)])
def test_the_pool_keeps_its_limits_and_never_shrinks_for_good(
    migrated_template: Path, steps: int, lives: int, *, disasters: bool
) -> None:
    run_state_machine_as_test(
        pool_machine(small_pool(migrated_template, 3), disasters=disasters),
        settings=settings(
            max_examples=lives,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
