"""The whole pool under random answers, deaths, reboots, operators and clocks: agents, circuits, tokens, limits.

The count of what left and arrived is kept by the test alone, by a time that nobody can set. At every departure it is
within both limits; in the end every agent is back and every slot is free.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.pool.pool_world import ANSWERS, SECOND_US, Computer, PoolWorld, Process, small_pool

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


def pool_machine(template: Path) -> type[RuleBasedStateMachine]:
    class PoolMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.computer = Computer()
            self.world = PoolWorld(template, self.computer, limits=SMALL)
            self.processes: list[Process] = [self.world.start(), self.world.start()]

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
                self.world.answer(process, [request], ANSWERS["dropped"], arrived_us=self.computer.true_us)
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
        @rule(which=WHICH, kind=st.sampled_from(sorted(ANSWERS)), late=st.booleans())
        def an_answer_comes(self, which: int, kind: str, late: bool) -> None:
            process = next(p for p in (self.processes[which % 2 :] + self.processes) if p.in_flight)
            request = process.in_flight[which % len(process.in_flight)]
            arrived = self.computer.true_us if late else request.left_us
            self.world.answer(process, [request], ANSWERS[kind], arrived_us=arrived)

        @rule(which=WHICH)
        def everything_succeeds(self, which: int) -> None:
            process = self.process(which)
            self.world.answer(process, list(process.in_flight), arrived_us=self.computer.true_us)

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
        def health_stays_within_bounds_and_rests_have_an_end(self) -> None:
            for agent in self.world.agents().values():
                assert 0 <= agent.health_score <= 100
                assert (agent.suspended_until is not None) == (agent.status is AgentStatus.SUSPENDED)

        def teardown(self) -> None:
            try:
                self._in_the_end_everybody_is_back()
            finally:
                self.world.close()

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


@pytest.mark.parametrize(("steps", "lives"), [(15, 30), (50, 15)])
def test_the_pool_keeps_its_limits_and_never_shrinks_for_good(migrated_template: Path, steps: int, lives: int) -> None:
    run_state_machine_as_test(
        pool_machine(small_pool(migrated_template, 3)),
        settings=settings(
            max_examples=lives,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
