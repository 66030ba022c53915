"""What answers do to agents, circuits and the pool's breaker, over the real tables and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import HOUR, MINUTE
from tests.pool.ground import ANSWERS, EMPTY_PAGE, REST, Ground, Machine, Process, small_pool

from sellerwatch.adapters.sql.circuits import POOL
from sellerwatch.agents.agent import AgentStatus, Outcome
from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.limits import Limits
from sellerwatch.kernel.circuit import CircuitState

LIMITS = Limits(per_second=1, margin=timedelta(0))
AVAILABLE, SUSPENDED = AgentStatus.AVAILABLE, AgentStatus.SUSPENDED
CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


@pytest.fixture
def ground(migrated_template: Path) -> Iterator[Ground]:
    made = Ground(small_pool(migrated_template, 3), Machine(), limits=LIMITS)
    yield made
    made.close()


@pytest.fixture
def process(ground: Ground) -> Process:
    """With tokens for all."""
    made = ground.start()
    ground.issue_tokens(ground.claims(made))
    return made


def circuit(ground: Ground, row: int) -> Circuit:
    found: dict[int, Circuit] = ground.read(lambda tx: tx.circuits.get_rows([row]))
    return found[row]


def events(ground: Ground, row: int) -> list[tuple[str, str | None]]:
    rows = ground.read(
        lambda tx: tx.db.rows(
            "SELECT event_type, to_state FROM circuit_breaker_event WHERE agent_id = :row ORDER BY event_id",
            {"row": row},
        )
    )
    return [(row[0], row[1]) for row in rows]


def ask(ground: Ground, process: Process, row: int, kind: str) -> None:
    """One request of this agent that ends so; the others succeed."""
    ground.machine.passes(2)
    assert row in {taken.candidate.row for taken in ground.claim(process).taken}
    mine = [request for request in process.in_flight if request.row == row]
    ground.answer(process, [request for request in process.in_flight if request.row != row])
    ground.answer(process, mine, ANSWERS[kind])


# Circuits.


def test_a_single_bad_agent_is_set_aside_while_the_others_go_on(ground: Ground, process: Process) -> None:
    for _ in range(3):
        ask(ground, process, 1, "500")
    assert (circuit(ground, 1).state, ground.agents()[1].status) == (OPEN, AVAILABLE)
    for _ in range(100):
        ground.machine.passes(2)
        assert {taken.candidate.row for taken in ground.claim(process).taken} <= {2, 3}
        ground.answer(process, list(process.in_flight))
    assert {circuit(ground, row).state for row in (2, 3)} == {CLOSED}
    assert events(ground, 1) == [
        ("FAILURE", None),
        ("FAILURE", None),
        ("FAILURE", None),
        ("STATE_CHANGE", "OPEN"),
    ], "the change and the failures that led to it are kept"


def test_an_agent_that_always_fails_is_asked_once_in_ten_minutes_and_rests_in_the_end(
    ground: Ground, process: Process
) -> None:
    asked = Counter[int]()
    for _ in range(80):
        ground.machine.passes(60)
        ground.tend(process)
        for taken in ground.claim(process).taken:
            asked[taken.candidate.row] += 1
        bad = [request for request in process.in_flight if request.row == 1]
        ground.answer(process, [request for request in process.in_flight if request.row != 1])
        ground.answer(process, bad, ANSWERS["500"])
    assert asked[1] <= 3 + 80 // 10
    assert asked[2] == asked[3] == 80
    assert ground.agents()[1].health_score <= 70
    assert {ground.agents()[row].health_score for row in (2, 3)} == {100}


def test_the_probe_of_an_open_circuit_is_one_request_whoever_claims(ground: Ground, process: Process) -> None:
    for _ in range(3):
        ask(ground, process, 1, "dropped")
    ground.machine.passes(600)
    other = ground.start()
    first = [c for c in ground.claim(process).taken if c.candidate.row == 1]
    assert len(first) == 1
    assert circuit(ground, 1).state is HALF_OPEN
    ground.machine.passes(5)
    assert 1 not in {c.candidate.row for c in ground.claim(other).taken}, "the probe is not answered yet"
    ground.answer(process, list(process.in_flight))
    assert circuit(ground, 1).state is CLOSED
    ground.machine.passes(5)
    assert 1 in {c.candidate.row for c in ground.claim(other).taken}
    assert [to for kind, to in events(ground, 1) if kind == "STATE_CHANGE"] == ["OPEN", "HALF_OPEN", "CLOSED"]


def test_a_probe_whose_process_died_gets_a_successor(ground: Ground, process: Process) -> None:
    for _ in range(3):
        ask(ground, process, 1, "dropped")
    ground.machine.passes(600)
    ground.claim(process)
    ground.vanish(process)
    other = ground.start()
    ground.machine.passes(599)
    assert 1 not in {c.candidate.row for c in ground.claim(other).taken}
    ground.machine.passes(1)
    assert 1 in {c.candidate.row for c in ground.claim(other).taken}


@pytest.mark.parametrize("kind", ["404", "nonsense"])
def test_what_the_agent_could_not_help_costs_it_nothing(ground: Ground, process: Process, kind: str) -> None:
    ground.machine.passes(120)
    for _ in range(5):
        ask(ground, process, 1, kind)
        ground.issue_tokens(ground.claims(process))
        ground.machine.passes(120)
    agent = ground.agents()[1]
    assert (agent.status, agent.health_score, agent.failure_count, agent.usage_count) == (AVAILABLE, 100, 0, 5)
    assert circuit(ground, 1) == Circuit()


def test_a_probe_that_meets_a_404_found_the_marketplace_willing(ground: Ground, process: Process) -> None:
    for _ in range(3):
        ask(ground, process, 1, "dropped")
    ground.machine.passes(600)
    ask(ground, process, 1, "404")
    assert circuit(ground, 1).state is CLOSED


def test_a_rejected_token_costs_nothing_but_its_replacement_does(ground: Ground, process: Process) -> None:
    ask(ground, process, 1, "401")
    agent = ground.agents()[1]
    assert (agent.health_score, agent.failure_count, circuit(ground, 1).failure_count) == (100, 0, 0)
    found = ground.claims(process)
    assert [candidate.row for candidate in found.tokenless] == [1], "its token is thrown away"
    ground.issue_tokens(found)
    ground.machine.passes(3600)
    ask(ground, process, 1, "401")
    agent = ground.agents()[1]
    assert (agent.health_score, agent.failure_count, circuit(ground, 1).failure_count) == (95, 1, 1)


def test_a_429_rests_the_agent_throws_its_token_away_and_tells_once(ground: Ground, process: Process) -> None:
    ask(ground, process, 1, "429 for 10 minutes")
    agent = ground.agents()[1]
    assert (agent.status, agent.health_score, agent.reason) == (SUSPENDED, 80, "429: too many requests")
    assert agent.suspended_until == ground.machine.wall + 10 * MINUTE
    assert [notice.kind for notice in ground.notices] == ["agent.suspended"]
    ground.machine.passes(599)
    assert ground.tend(process) == 0
    ground.machine.passes(1)
    assert ground.tend(process) == 1
    agent = ground.agents()[1]
    assert (agent.status, agent.health_score, agent.reason) == (AVAILABLE, 70, None)
    assert 1 in {candidate.row for candidate in ground.claims(process).tokenless}, "it gets a new token"


def test_an_answer_told_twice_is_charged_once(ground: Ground, process: Process) -> None:
    found = ground.claim(process)
    request = process.in_flight[0]
    ground.answer(process, [request], ANSWERS["500"])
    process.in_flight.append(request)
    ground.answer(process, [request], ANSWERS["500"])
    assert ground.agents()[request.row].health_score == 90
    assert ground.read(lambda tx: tx.db.value("SELECT COUNT(*) FROM token_usage_log")) == 1
    assert len(found.taken) == 3


def test_who_was_charged_in_a_storm_is_forgiven_whole(ground: Ground, process: Process) -> None:
    ask(ground, process, 1, "500")
    assert (ground.agents()[1].health_score, circuit(ground, 1).failure_count) == (90, 1)
    ground.machine.passes(2)
    ground.claim(process)
    mine = [request for request in process.in_flight if request.row != 1]
    ground.answer(process, mine, EMPTY_PAGE, forgiven=[(1, Outcome.SERVER_ERROR)])
    agent = ground.agents()[1]
    assert (agent.health_score, agent.failure_count) == (100, 0)
    assert circuit(ground, 1).failure_count == 0, "a storm touches no circuit"


def test_a_circuit_a_storm_opened_closes_with_the_pardon(ground: Ground, process: Process) -> None:
    for _ in range(3):
        ask(ground, process, 1, "500")
    assert circuit(ground, 1).state is OPEN
    ground.machine.passes(2)
    ground.claim(process)
    ground.answer(process, list(process.in_flight), EMPTY_PAGE, forgiven=[(1, Outcome.SERVER_ERROR)] * 3)
    assert circuit(ground, 1).state is CLOSED
    assert ground.agents()[1].health_score == 100


# The pool's breaker.


def suspend_all(ground: Ground, rest: timedelta = HOUR) -> None:
    now = ground.machine.wall
    rested = {row: agent.suspend(now, rest, "a test") for row, agent in ground.agents().items()}
    ground.transact(lambda tx: tx.agents.save(rested))


def block_all_but(ground: Ground, *rows: int) -> None:
    now = ground.machine.wall
    blocked = {row: agent.block(now, "a test") for row, agent in ground.agents().items() if row not in rows}
    ground.transact(lambda tx: tx.agents.save(blocked))


@pytest.fixture
def wide(migrated_template: Path) -> Iterator[tuple[Ground, Process]]:
    """Ten agents: one of them is a tenth."""
    made = Ground(small_pool(migrated_template, 10), Machine(), limits=LIMITS)
    process = made.start()
    made.issue_tokens(made.claims(process))
    yield made, process
    made.close()


def test_with_nobody_available_nothing_is_claimed_and_the_time_to_look_again_is_named(
    ground: Ground, process: Process
) -> None:
    suspend_all(ground)
    opened = ground.machine.wall
    found = ground.claim(process)
    assert (found.taken, found.lacks_agents, found.not_before) == ((), True, opened + REST)
    assert [notice.kind for notice in found.notices] == ["breaker.open"]
    assert "0 of 3" in found.notices[0].text
    ground.machine.passes(1)
    again = ground.claim(process)
    assert (again.taken, again.notices) == ((), ()), "told once"
    assert events(ground, POOL) == [("STATE_CHANGE", "OPEN")]


def test_with_no_candidate_for_a_probe_it_stays_open(ground: Ground, process: Process) -> None:
    suspend_all(ground)
    ground.claim(process)
    ground.machine.passes(REST.total_seconds() + 1)
    assert ground.claim(process).taken == ()
    assert ground.read(lambda tx: tx.circuits.breaker()).state is OPEN


def test_one_request_finds_out_and_its_success_lets_the_pool_work_whatever_the_rate(
    wide: tuple[Ground, Process],
) -> None:
    ground, process = wide
    block_all_but(ground, 1)
    assert ground.claim(process).taken == ()
    ground.machine.passes(REST.total_seconds())
    other = ground.start()
    [probe] = ground.claim(process).taken
    assert probe.is_pool_probe
    ground.machine.passes(2)
    assert ground.claim(other).taken == (), "one only"
    ground.answer(process, list(process.in_flight))
    assert ground.notices[-1].kind == "breaker.closed"
    ground.machine.passes(2)
    assert len(ground.claim(other).taken) == 1
    ground.answer(other, list(other.in_flight))
    ground.machine.passes(REST.total_seconds())
    assert ground.claim(other).taken == (), "the rate is still too low: it opens again"


@pytest.mark.parametrize("kind", ["500", "429", "dropped"])
def test_a_probe_that_fails_opens_it_for_the_whole_time_again(wide: tuple[Ground, Process], kind: str) -> None:
    ground, process = wide
    block_all_but(ground, 1)
    ground.claim(process)
    ground.machine.passes(REST.total_seconds())
    assert len(ground.claim(process).taken) == 1
    ground.answer(process, list(process.in_flight), ANSWERS[kind])
    assert ground.read(lambda tx: tx.circuits.breaker()).state is OPEN
    ground.machine.passes(REST.total_seconds() - 1)
    assert ground.claim(process).taken == ()


def test_a_probe_whose_process_died_is_given_up_after_its_time(wide: tuple[Ground, Process]) -> None:
    ground, process = wide
    block_all_but(ground, 1)
    ground.claim(process)
    ground.machine.passes(REST.total_seconds())
    assert len(ground.claim(process).taken) == 1
    ground.vanish(process)
    other = ground.start()
    ground.machine.passes(19)
    assert ground.claim(other).taken == ()
    assert ground.read(lambda tx: tx.circuits.breaker()).state is HALF_OPEN
    ground.machine.passes(1)
    assert ground.claim(other).taken == ()
    assert ground.read(lambda tx: tx.circuits.breaker()).state is OPEN
    ground.machine.passes(REST.total_seconds())
    assert len(ground.claim(other).taken) == 1


def test_it_closes_early_when_agents_are_back(ground: Ground, process: Process) -> None:
    suspend_all(ground, MINUTE / 2)
    assert ground.claim(process).taken == ()
    ground.machine.passes(30)
    assert ground.tend(process) == 3
    found = ground.claim(process)
    assert len(found.taken) == 3
    assert ground.read(lambda tx: tx.circuits.breaker()).state is CLOSED


def test_nobody_configured_is_said_as_such(migrated_template: Path) -> None:
    ground = Ground(small_pool(migrated_template, 0), Machine(), limits=LIMITS)
    process = ground.start()
    found = ground.claim(process)
    assert (found.taken, found.lacks_agents) == ((), True)
    assert "0 of 0" in found.notices[0].text
    ground.close()
