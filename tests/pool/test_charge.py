"""What answers do to agents, circuits and the pool's breaker, over the real tables and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs
from tests.builders import HOUR, MINUTE
from tests.pool.pool_world import ANSWERS, EMPTY_PAGE, REST, Computer, PoolWorld, Process, Request, small_pool

from sellerwatch.adapters.sql.circuits import POOL
from sellerwatch.agents.agent import AgentStatus, Outcome
from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.limits import Limits
from sellerwatch.kernel.circuit import CircuitState

LIMITS = Limits(per_second=1, margin=timedelta(0))
AVAILABLE, SUSPENDED = AgentStatus.AVAILABLE, AgentStatus.SUSPENDED
CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


@pytest.fixture
def world(migrated_template: Path) -> Iterator[PoolWorld]:
    made = PoolWorld(small_pool(migrated_template, 3), Computer(), limits=LIMITS)
    yield made
    made.close()


@pytest.fixture
def process(world: PoolWorld) -> Process:
    """With tokens for all."""
    made = world.start()
    world.issue_tokens(world.claims(made))
    return made


def circuit(world: PoolWorld, row: int) -> Circuit:
    found: dict[int, Circuit] = world.read(lambda tx: tx.circuits.get_rows([row]))
    return found[row]


def events(world: PoolWorld, row: int) -> list[tuple[str, str | None]]:
    rows = world.read(
        lambda tx: tx.db.rows(
            "SELECT event_type, to_state FROM circuit_breaker_event WHERE agent_id = :row ORDER BY event_id",
            {"row": row},
        )
    )
    return [(row[0], row[1]) for row in rows]


def ask(world: PoolWorld, process: Process, row: int, kind: str) -> None:
    """One request of this agent that ends so; the others succeed."""
    world.computer.passes(2)
    assert row in {taken.candidate.row for taken in world.claim(process).taken}
    mine = [request for request in process.in_flight if request.row == row]
    world.answer(process, [request for request in process.in_flight if request.row != row])
    world.answer(process, mine, ANSWERS[kind])


# Circuits.


def test_a_single_bad_agent_is_set_aside_while_the_others_go_on(world: PoolWorld, process: Process) -> None:
    for _ in range(3):
        ask(world, process, 1, "500")
    assert (circuit(world, 1).state, world.agents()[1].status) == (OPEN, AVAILABLE)
    for _ in range(100):
        world.computer.passes(2)
        assert {taken.candidate.row for taken in world.claim(process).taken} <= {2, 3}
        world.answer(process, list(process.in_flight))
    assert {circuit(world, row).state for row in (2, 3)} == {CLOSED}
    assert events(world, 1) == [
        ("FAILURE", None),
        ("FAILURE", None),
        ("FAILURE", None),
        ("STATE_CHANGE", "OPEN"),
    ], "the change and the failures that led to it are kept"


def test_an_agent_that_always_fails_is_asked_once_in_ten_minutes_and_rests_in_the_end(
    world: PoolWorld, process: Process
) -> None:
    asked = Counter[int]()
    for _ in range(80):
        world.computer.passes(60)
        world.tend(process)
        for taken in world.claim(process).taken:
            asked[taken.candidate.row] += 1
        bad = [request for request in process.in_flight if request.row == 1]
        world.answer(process, [request for request in process.in_flight if request.row != 1])
        world.answer(process, bad, ANSWERS["500"])
    assert asked[1] <= 3 + 80 // 10
    assert asked[2] == asked[3] == 80
    assert world.agents()[1].health_score <= 70
    assert {world.agents()[row].health_score for row in (2, 3)} == {100}


def in_flight_of(world: PoolWorld, process: Process, row: int, number: int) -> list[Request]:
    """So many requests of one agent under way at once; those of the others are answered."""
    while len(mine := [request for request in process.in_flight if request.row == row]) < number:
        world.computer.passes(1)
        world.claim(process)
        world.answer(process, [request for request in process.in_flight if request.row != row])
    return mine


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in one transaction"])
@pytest.mark.parametrize(
    ("kinds", "state"),
    [("FSFSF", CLOSED), ("FFSFF", CLOSED), ("SSFFF", OPEN), ("FSFFF", OPEN), ("FFFSS", OPEN), ("FFNFS", CLOSED)],
)
def test_three_in_a_row_are_counted_by_the_order_of_answers_however_many_are_in_flight(
    world: PoolWorld, process: Process, kinds: str, state: CircuitState, at_once: bool
) -> None:
    """All were lent while the circuit was closed and had counted nothing: what it was then says nothing of the answers
    since. N: an answer that cannot be read, which the agent cannot help: the marketplace answered it."""
    requests = in_flight_of(world, process, 1, len(kinds))
    words = {"F": ANSWERS["dropped"], "S": EMPTY_PAGE, "N": ANSWERS["nonsense"]}
    answers = [words[kind] for kind in kinds]
    if at_once:
        world.answer_in_order(process, list(zip(requests, answers, strict=True)))
    else:
        for request, answer in zip(requests, answers, strict=True):
            world.answer(process, [request], answer)
    assert circuit(world, 1).state is state
    failures = kinds.count("F")
    assert [kind for kind, _ in events(world, 1)].count("FAILURE") == failures, "each failure is in the history"


def test_a_success_after_a_failure_heals_what_that_cost(world: PoolWorld, process: Process) -> None:
    first, second = in_flight_of(world, process, 1, 2)
    world.answer_in_order(process, [(first, ANSWERS["500"]), (second, EMPTY_PAGE)])
    assert world.agents()[1].health_score == 95


def test_a_health_under_30_suspends_although_a_success_came_with_it(world: PoolWorld, process: Process) -> None:
    """The success came later: for a moment the health was under 30."""
    first, second = in_flight_of(world, process, 1, 2)
    weak = structs.replace(world.agents()[1], health_score=35)
    world.transact(lambda tx: tx.agents.save({1: weak}))
    world.answer_in_order(process, [(first, ANSWERS["500"]), (second, EMPTY_PAGE)])
    agent = world.agents()[1]
    assert (agent.status, agent.health_score) == (SUSPENDED, 30)


def test_a_late_answer_decides_nothing_while_a_probe_is_under_way(world: PoolWorld, process: Process) -> None:
    """It was sent before the circuit opened."""
    *failing, late, later = in_flight_of(world, process, 1, 5)
    world.answer_in_order(process, [(request, ANSWERS["dropped"]) for request in failing])
    opened = circuit(world, 1).opened_at
    world.computer.passes(600)
    world.issue_tokens(world.claims(process))
    world.answer(process, [request for request in process.in_flight if request.row != 1])
    world.computer.passes(1)
    world.claim(process)
    assert circuit(world, 1).state is HALF_OPEN
    world.answer(process, [late])
    world.answer(process, [later], ANSWERS["dropped"])
    assert (circuit(world, 1).state, circuit(world, 1).opened_at) == (HALF_OPEN, opened)


def test_the_history_has_the_failures_that_opened_a_circuit_and_the_success_that_closed_it(
    world: PoolWorld, process: Process
) -> None:
    for kind in ("500", "dropped", "500"):
        ask(world, process, 1, kind)
    opened = world.computer.wall
    world.computer.passes(600)
    world.claim(process)
    half_open = circuit(world, 1)
    assert (half_open.state, half_open.opened_at) == (HALF_OPEN, opened), "the probe does not change when it opened"
    world.answer(process, list(process.in_flight))
    query = """SELECT event_type, from_state, to_state, outcome, http_status_code FROM circuit_breaker_event
        WHERE agent_id = 1 ORDER BY event_id"""
    assert [tuple(row) for row in world.read(lambda tx: tx.db.rows(query))] == [
        ("FAILURE", "CLOSED", None, "SERVER_ERROR", 500),
        ("FAILURE", "CLOSED", None, "NETWORK_ERROR", None),
        ("FAILURE", "CLOSED", None, "SERVER_ERROR", 500),
        ("STATE_CHANGE", "CLOSED", "OPEN", None, None),
        ("STATE_CHANGE", "OPEN", "HALF_OPEN", None, None),
        ("SUCCESS", "HALF_OPEN", None, "SUCCESS", 200),
        ("STATE_CHANGE", "HALF_OPEN", "CLOSED", None, None),
    ]


def test_the_log_says_when_a_request_left_and_whether_it_met_a_rate_limit(world: PoolWorld, process: Process) -> None:
    """`is_rate_limited` is what an operator looks for before lowering a limit: a 429, or a 503 that says when to come
    back. A 503 alone is an outage."""
    for kind in ("503 for a minute", "503", "429"):
        ask(world, process, 1, kind)
    query = """SELECT http_status_code, is_rate_limited, is_429_error, request_timestamp FROM token_usage_log
        WHERE agent_id = 1 ORDER BY log_id"""
    rows = world.read(lambda tx: tx.db.rows(query))
    assert [tuple(row[:3]) for row in rows] == [(503, 1, 0), (503, 0, 0), (429, 1, 1)]
    assert rows[-1][3] == world.computer.wall - timedelta(milliseconds=100), "when it left, not when it was answered"


def test_last_refill_is_when_slots_came_back(world: PoolWorld, process: Process) -> None:
    """Else nobody could tell from the bucket how old its figure is."""

    def last_refill() -> object:
        return world.read(lambda tx: tx.db.value("SELECT last_refill_at FROM rate_limit_bucket WHERE agent_id = 1"))

    before = last_refill()
    ask(world, process, 1, "success")
    assert last_refill() == before, "lending takes slots and brings none back"
    world.computer.passes(3600)
    world.expire()
    assert last_refill() == world.computer.wall


def test_the_probe_of_an_open_circuit_is_one_request_whoever_claims(world: PoolWorld, process: Process) -> None:
    for _ in range(3):
        ask(world, process, 1, "dropped")
    world.computer.passes(600)
    other = world.start()
    first = [c for c in world.claim(process).taken if c.candidate.row == 1]
    assert len(first) == 1
    assert circuit(world, 1).state is HALF_OPEN
    world.computer.passes(5)
    assert 1 not in {c.candidate.row for c in world.claim(other).taken}, "the probe is not answered yet"
    world.answer(process, list(process.in_flight))
    assert circuit(world, 1).state is CLOSED
    world.computer.passes(5)
    assert 1 in {c.candidate.row for c in world.claim(other).taken}
    assert [to for kind, to in events(world, 1) if kind == "STATE_CHANGE"] == ["OPEN", "HALF_OPEN", "CLOSED"]


def test_a_probe_whose_process_died_gets_a_successor(world: PoolWorld, process: Process) -> None:
    for _ in range(3):
        ask(world, process, 1, "dropped")
    world.computer.passes(600)
    world.claim(process)
    world.vanish(process)
    other = world.start()
    world.computer.passes(599)
    assert 1 not in {c.candidate.row for c in world.claim(other).taken}
    world.computer.passes(1)
    assert 1 in {c.candidate.row for c in world.claim(other).taken}


@pytest.mark.parametrize("kind", ["404", "nonsense"])
def test_what_the_agent_could_not_help_costs_it_nothing(world: PoolWorld, process: Process, kind: str) -> None:
    world.computer.passes(120)
    for _ in range(5):
        ask(world, process, 1, kind)
        world.issue_tokens(world.claims(process))
        world.computer.passes(120)
    agent = world.agents()[1]
    assert (agent.status, agent.health_score, agent.failure_count, agent.usage_count) == (AVAILABLE, 100, 0, 5)
    assert circuit(world, 1) == Circuit()


def test_a_probe_that_meets_a_404_found_the_marketplace_willing(world: PoolWorld, process: Process) -> None:
    for _ in range(3):
        ask(world, process, 1, "dropped")
    world.computer.passes(600)
    ask(world, process, 1, "404")
    assert circuit(world, 1).state is CLOSED


def test_a_rejected_token_costs_nothing_but_its_replacement_does(world: PoolWorld, process: Process) -> None:
    ask(world, process, 1, "401")
    agent = world.agents()[1]
    assert (agent.health_score, agent.failure_count, circuit(world, 1).failure_count) == (100, 0, 0)
    found = world.claims(process)
    assert [candidate.row for candidate in found.tokenless] == [1], "its token is thrown away"
    world.issue_tokens(found)
    world.computer.passes(3600)
    ask(world, process, 1, "401")
    agent = world.agents()[1]
    assert (agent.health_score, agent.failure_count, circuit(world, 1).failure_count) == (95, 1, 1)


def test_a_429_rests_the_agent_throws_its_token_away_and_tells_once(world: PoolWorld, process: Process) -> None:
    ask(world, process, 1, "429 for 10 minutes")
    agent = world.agents()[1]
    assert (agent.status, agent.health_score, agent.reason) == (SUSPENDED, 80, "TOO_MANY_REQUESTS")
    assert agent.suspended_until == world.computer.wall + 10 * MINUTE
    assert [notice.kind for notice in world.notices] == ["agent.suspended"]
    world.computer.passes(599)
    assert world.tend(process) == 0
    world.computer.passes(1)
    assert world.tend(process) == 1
    agent = world.agents()[1]
    assert (agent.status, agent.health_score, agent.reason) == (AVAILABLE, 70, None)
    assert 1 in {candidate.row for candidate in world.claims(process).tokenless}, "it gets a new token"


def test_an_answer_told_twice_is_charged_once(world: PoolWorld, process: Process) -> None:
    found = world.claim(process)
    request = process.in_flight[0]
    world.answer(process, [request], ANSWERS["500"])
    process.in_flight.append(request)
    world.answer(process, [request], ANSWERS["500"])
    assert world.agents()[request.row].health_score == 90
    assert world.read(lambda tx: tx.db.value("SELECT COUNT(*) FROM token_usage_log")) == 1
    assert len(found.taken) == 3


def test_who_was_charged_in_a_storm_is_forgiven_whole(world: PoolWorld, process: Process) -> None:
    ask(world, process, 1, "500")
    assert (world.agents()[1].health_score, circuit(world, 1).failure_count) == (90, 1)
    world.computer.passes(2)
    world.claim(process)
    mine = [request for request in process.in_flight if request.row != 1]
    world.answer(process, mine, EMPTY_PAGE, forgiven=[(1, Outcome.SERVER_ERROR)])
    agent = world.agents()[1]
    assert (agent.health_score, agent.failure_count) == (100, 0)
    assert circuit(world, 1).failure_count == 0, "a storm touches no circuit"


def test_a_circuit_a_storm_opened_closes_with_the_pardon(world: PoolWorld, process: Process) -> None:
    for _ in range(3):
        ask(world, process, 1, "500")
    assert circuit(world, 1).state is OPEN
    world.computer.passes(2)
    world.claim(process)
    world.answer(process, list(process.in_flight), EMPTY_PAGE, forgiven=[(1, Outcome.SERVER_ERROR)] * 3)
    assert circuit(world, 1).state is CLOSED
    assert world.agents()[1].health_score == 100


# The pool's breaker.


def suspend_all(world: PoolWorld, rest: timedelta = HOUR) -> None:
    now = world.computer.wall
    rested = {row: agent.suspend(now, rest, "a test") for row, agent in world.agents().items()}
    world.transact(lambda tx: tx.agents.save(rested))


def block_all_but(world: PoolWorld, *rows: int) -> None:
    now = world.computer.wall
    blocked = {row: agent.block(now, "a test") for row, agent in world.agents().items() if row not in rows}
    world.transact(lambda tx: tx.agents.save(blocked))


@pytest.fixture
def wide(migrated_template: Path) -> Iterator[tuple[PoolWorld, Process]]:
    """Ten agents: one of them is a tenth."""
    made = PoolWorld(small_pool(migrated_template, 10), Computer(), limits=LIMITS)
    process = made.start()
    made.issue_tokens(made.claims(process))
    yield made, process
    made.close()


def test_with_nobody_available_nothing_is_claimed_and_the_time_to_look_again_is_named(
    world: PoolWorld, process: Process
) -> None:
    suspend_all(world)
    opened = world.computer.wall
    found = world.claim(process)
    assert (found.taken, found.lacks_agents, found.not_before) == ((), True, opened + REST)
    assert [notice.kind for notice in found.notices] == ["breaker.open"]
    assert "0 of 3" in found.notices[0].text()
    world.computer.passes(1)
    again = world.claim(process)
    assert (again.taken, again.notices) == ((), ()), "told once"
    assert events(world, POOL) == [("STATE_CHANGE", "OPEN")]


def test_with_no_candidate_for_a_probe_it_stays_open(world: PoolWorld, process: Process) -> None:
    suspend_all(world)
    world.claim(process)
    world.computer.passes(REST.total_seconds() + 1)
    assert world.claim(process).taken == ()
    assert world.read(lambda tx: tx.circuits.breaker()).state is OPEN


def test_one_request_finds_out_and_its_success_lets_the_pool_work_whatever_the_rate(
    wide: tuple[PoolWorld, Process],
) -> None:
    world, process = wide
    block_all_but(world, 1)
    assert world.claim(process).taken == ()
    world.computer.passes(REST.total_seconds())
    other = world.start()
    [probe] = world.claim(process).taken
    assert probe.is_pool_probe
    world.computer.passes(2)
    assert world.claim(other).taken == (), "one only"
    world.answer(process, list(process.in_flight))
    assert world.notices[-1].kind == "breaker.closed"
    world.computer.passes(2)
    assert len(world.claim(other).taken) == 1
    world.answer(other, list(other.in_flight))
    world.computer.passes(REST.total_seconds())
    assert world.claim(other).taken == (), "the rate is still too low: it opens again"


@pytest.mark.parametrize("kind", ["500", "429", "dropped"])
def test_a_probe_that_fails_opens_it_for_the_whole_time_again(wide: tuple[PoolWorld, Process], kind: str) -> None:
    world, process = wide
    block_all_but(world, 1)
    world.claim(process)
    world.computer.passes(REST.total_seconds())
    assert len(world.claim(process).taken) == 1
    world.answer(process, list(process.in_flight), ANSWERS[kind])
    assert world.read(lambda tx: tx.circuits.breaker()).state is OPEN
    world.computer.passes(REST.total_seconds() - 1)
    assert world.claim(process).taken == ()


def test_a_probe_whose_process_died_is_given_up_after_its_time(wide: tuple[PoolWorld, Process]) -> None:
    world, process = wide
    block_all_but(world, 1)
    world.claim(process)
    world.computer.passes(REST.total_seconds())
    assert len(world.claim(process).taken) == 1
    world.vanish(process)
    other = world.start()
    world.computer.passes(19)
    assert world.claim(other).taken == ()
    assert world.read(lambda tx: tx.circuits.breaker()).state is HALF_OPEN
    world.computer.passes(1)
    assert world.claim(other).taken == ()
    assert world.read(lambda tx: tx.circuits.breaker()).state is OPEN
    world.computer.passes(REST.total_seconds())
    assert len(world.claim(other).taken) == 1


def test_it_closes_early_when_agents_are_back(world: PoolWorld, process: Process) -> None:
    suspend_all(world, MINUTE / 2)
    assert world.claim(process).taken == ()
    world.computer.passes(30)
    assert world.tend(process) == 3
    found = world.claim(process)
    assert len(found.taken) == 3
    assert world.read(lambda tx: tx.circuits.breaker()).state is CLOSED


def test_nobody_configured_is_said_as_such(migrated_template: Path) -> None:
    world = PoolWorld(small_pool(migrated_template, 0), Computer(), limits=LIMITS)
    process = world.start()
    found = world.claim(process)
    assert (found.taken, found.lacks_agents) == ((), True)
    assert "0 of 0" in found.notices[0].text()
    world.close()
