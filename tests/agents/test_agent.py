"""An agent: health, suspension, blocking, by the table of events in the agent pool's specification."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.builders import HOUR, LATER, MINUTE, NOW, agent_id, an_agent

from sellerwatch.agents.agent import (
    Agent,
    AgentExists,
    AgentName,
    AgentStatus,
    InvalidAgentName,
    InvalidUserAgent,
    Outcome,
)
from sellerwatch.kernel.errors import Conflict, IllegalMove, Invalid

AVAILABLE, SUSPENDED, BLOCKED = AgentStatus.AVAILABLE, AgentStatus.SUSPENDED, AgentStatus.BLOCKED
REST = HOUR


def test_a_new_agent_is_available_and_in_full_health() -> None:
    agent = Agent.create(agent_id(), "  Mozilla/5.0 ", NOW)
    assert agent.user_agent == "Mozilla/5.0"
    assert (agent.status, agent.health_score) == (AVAILABLE, 100)
    assert (agent.usage_count, agent.success_count, agent.failure_count, agent.requests_per_day) == (0, 0, 0, 0)
    assert agent.last_used_at is None
    assert (agent.created_at, agent.updated_at) == (NOW, NOW)


@pytest.mark.parametrize("text", ["", "  ", "x" * 501, "Mozilla\r\nX-Evil: 1", "모질라", "a\x00b"])
def test_a_user_agent_that_no_header_can_carry_is_refused(text: str) -> None:
    with pytest.raises(InvalidUserAgent) as refusal:
        Agent.create(agent_id(), text, NOW)
    assert isinstance(refusal.value, Invalid)
    assert refusal.value.code == "INVALID_USER_AGENT"
    assert refusal.value.facts == {"longest": 500}
    assert str(refusal.value) == "A user-agent string must be 1 to 500 printable ASCII characters."


def test_a_second_agent_of_the_same_string_is_a_conflict() -> None:
    error = AgentExists(user_agent="Mozilla/5.0")
    assert isinstance(error, Conflict)
    assert str(error) == "There is already an agent with this user-agent string: Mozilla/5.0"


@pytest.mark.parametrize(
    ("outcome", "before", "after"),
    [
        (Outcome.SUCCESS, 50, 55),
        (Outcome.SUCCESS, 98, 100),
        (Outcome.SUCCESS, 100, 100),
        (Outcome.TOO_MANY, 100, 80),
        (Outcome.TOO_MANY, 10, 0),
        (Outcome.SERVER_ERROR, 100, 90),
        (Outcome.NETWORK_ERROR, 100, 95),
        (Outcome.REFUSED, 100, 95),
        (Outcome.OTHER, 100, 95),
        (Outcome.BLAMELESS, 40, 40),
    ],
)
def test_health_moves_by_the_outcome_and_stays_within_0_and_100(outcome: Outcome, before: int, after: int) -> None:
    assert an_agent(health_score=before).use(outcome, NOW, REST).health_score == after


@pytest.mark.parametrize("outcome", Outcome)
def test_each_use_is_counted_and_stamped(outcome: Outcome) -> None:
    used = an_agent().use(outcome, LATER, REST)
    assert (used.usage_count, used.requests_per_day, used.last_used_at, used.updated_at) == (1, 1, LATER, LATER)
    assert used.success_count == (outcome is Outcome.SUCCESS)
    assert used.failure_count == (outcome not in (Outcome.SUCCESS, Outcome.BLAMELESS))


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.TOO_MANY])
def test_uses_that_ended_alike_are_folded_into_one(outcome: Outcome) -> None:
    one_by_one = an_agent(health_score=80)
    for _ in range(3):
        one_by_one = one_by_one.use(outcome, LATER, REST)
    assert an_agent(health_score=80).use(outcome, LATER, REST, uses=3) == one_by_one


def test_a_429_suspends_at_once_whatever_the_health() -> None:
    rested = an_agent(health_score=100).use(Outcome.TOO_MANY, NOW, REST)
    assert rested.status is SUSPENDED
    assert (rested.suspended_at, rested.suspended_until) == (NOW, NOW + HOUR)


@pytest.mark.parametrize(
    ("health", "outcome", "status"),
    [
        (40, Outcome.SERVER_ERROR, AVAILABLE),
        (39, Outcome.SERVER_ERROR, SUSPENDED),
        (35, Outcome.NETWORK_ERROR, AVAILABLE),
        (34, Outcome.NETWORK_ERROR, SUSPENDED),
        (34, Outcome.REFUSED, SUSPENDED),
        (34, Outcome.OTHER, SUSPENDED),
        (34, Outcome.SUCCESS, AVAILABLE),
    ],
)
def test_a_health_under_30_suspends(health: int, outcome: Outcome, status: AgentStatus) -> None:
    assert an_agent(health_score=health).use(outcome, NOW, REST).status is status


def test_a_blameless_end_costs_the_agent_nothing() -> None:
    # A product's 404 or our parser's bug must not punish the identity.
    used = an_agent(health_score=31).use(Outcome.BLAMELESS, NOW, REST, uses=100)
    assert (used.status, used.health_score, used.failure_count) == (AVAILABLE, 31, 0)


def test_a_suspended_agent_is_rested_when_its_time_has_come_and_not_before() -> None:
    agent = an_agent().use(Outcome.TOO_MANY, NOW, REST)
    assert not agent.is_rested(NOW + HOUR - MINUTE)
    assert agent.is_rested(NOW + HOUR)


@pytest.mark.parametrize("agent", [an_agent(), an_agent(status=BLOCKED)])
def test_only_a_suspended_agent_can_be_rested(agent: Agent) -> None:
    assert not agent.is_rested(NOW + 1000 * HOUR)


@pytest.mark.parametrize("health", [0, 10, 29, 80])
def test_recovery_asks_for_no_health_only_for_time(health: int) -> None:
    # A pool whose recovery asked for a health that suspension had made unreachable only ever shrank.
    agent = an_agent(health_score=health).suspend(NOW, REST, "a test")
    assert agent.is_rested(LATER)
    back = agent.recover(LATER)
    assert (back.status, back.health_score) == (AVAILABLE, 70)
    assert (back.suspended_at, back.suspended_until, back.updated_at) == (None, None, LATER)


def test_a_second_suspension_can_only_lengthen_the_rest() -> None:
    agent = an_agent().suspend(NOW, 3 * HOUR, "a test")
    again = agent.suspend(NOW + MINUTE, HOUR, "a test")
    assert (again.suspended_at, again.suspended_until) == (NOW + MINUTE, NOW + 3 * HOUR)
    longer = again.suspend(NOW + MINUTE, 24 * HOUR, "a test")
    assert (longer.suspended_at, longer.suspended_until) == (NOW + MINUTE, NOW + MINUTE + 24 * HOUR)


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.TOO_MANY])
def test_a_late_end_of_a_request_sent_before_the_rest_began_does_not_lengthen_it(outcome: Outcome) -> None:
    resting = an_agent(health_score=5).suspend(NOW, HOUR, "a test")
    late = resting.use(outcome, NOW + MINUTE, REST)
    assert (late.status, late.suspended_at, late.suspended_until) == (SUSPENDED, NOW, NOW + HOUR)
    assert late.usage_count == 1


def test_a_429_lengthens_the_rest_of_an_agent_that_rests_already() -> None:
    late = an_agent().suspend(NOW, HOUR, "a test").use(Outcome.TOO_MANY, NOW + MINUTE, REST)
    assert (late.suspended_at, late.suspended_until) == (NOW + MINUTE, NOW + MINUTE + HOUR)


def test_a_blocked_agent_stays_blocked_whatever_still_comes_in() -> None:
    blocked = an_agent().block(NOW, "a test")
    for outcome in Outcome:
        blocked = blocked.use(outcome, LATER, REST)
    assert blocked.status is BLOCKED
    assert blocked.suspended_until is None


def test_blocking_ends_a_suspension() -> None:
    blocked = an_agent().suspend(NOW, REST, "a test").block(LATER, "a test")
    assert (blocked.status, blocked.suspended_at, blocked.suspended_until) == (BLOCKED, None, None)
    assert not blocked.is_rested(NOW + 1000 * HOUR)


def test_an_unblocked_agent_is_available_with_a_fresh_count_of_refusals() -> None:
    agent = an_agent(issue_failures=3, health_score=0, status=BLOCKED).unblock(LATER)
    assert (agent.status, agent.health_score, agent.issue_failures) == (AVAILABLE, 70, 0)


@pytest.mark.parametrize(
    ("status", "verb", "act"),
    [
        (AVAILABLE, "recover", lambda a: a.recover(LATER)),
        (BLOCKED, "recover", lambda a: a.recover(LATER)),
        (BLOCKED, "suspend", lambda a: a.suspend(LATER, REST, "a test")),
        (BLOCKED, "block", lambda a: a.block(LATER, "a test")),
        (AVAILABLE, "unblock", lambda a: a.unblock(LATER)),
        (SUSPENDED, "unblock", lambda a: a.unblock(LATER)),
    ],
)
def test_an_agent_refuses_what_its_state_forbids(status: AgentStatus, verb: str, act: Callable[[Agent], Agent]) -> None:
    with pytest.raises(IllegalMove) as refusal:
        act(an_agent(status=status))
    assert (refusal.value.noun, refusal.value.verb, refusal.value.state) == ("agent", verb, status)


def test_three_refused_tokens_in_a_row_block() -> None:
    agent = an_agent()
    for _ in range(2):
        agent = agent.issue_refused(NOW)
        assert agent.status is AVAILABLE
    agent = agent.issue_refused(LATER)
    assert (agent.status, agent.issue_failures) == (BLOCKED, 3)


def test_an_issued_token_forgets_earlier_refusals() -> None:
    agent = an_agent().issue_refused(NOW).issue_refused(NOW).issue_succeeded(NOW).issue_refused(NOW).issue_refused(NOW)
    assert (agent.status, agent.issue_failures) == (AVAILABLE, 2)


def test_a_suspended_agent_that_is_refused_three_tokens_is_blocked_too() -> None:
    agent = an_agent(issue_failures=2).suspend(NOW, REST, "a test").issue_refused(LATER)
    assert (agent.status, agent.suspended_until) == (BLOCKED, None)


def test_a_refusal_of_a_blocked_agent_is_only_counted() -> None:
    agent = an_agent(status=BLOCKED, issue_failures=3).issue_refused(LATER)
    assert (agent.status, agent.issue_failures) == (BLOCKED, 4)


def test_a_new_day_starts_the_count_of_the_day() -> None:
    agent = an_agent().use(Outcome.SUCCESS, NOW, REST, uses=40).new_day(LATER)
    assert (agent.requests_per_day, agent.usage_count) == (0, 40)


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Outcome.SUCCESS, False),
        (Outcome.BLAMELESS, False),
        (Outcome.TOO_MANY, True),
        (Outcome.SERVER_ERROR, True),
        (Outcome.NETWORK_ERROR, True),
        (Outcome.REFUSED, True),
        (Outcome.OTHER, False),
    ],
)
def test_circuit_failures_are_429_charged_5xx_and_network_errors_and_refused_fresh_tokens(
    outcome: Outcome, counts: bool
) -> None:
    assert outcome.is_circuit_failure is counts


def test_a_failure_that_was_the_marketplaces_is_given_back_with_the_freedom_it_cost() -> None:
    agent = an_agent(health_score=35).use(Outcome.SERVER_ERROR, NOW, REST)
    assert (agent.status, agent.health_score, agent.failure_count) == (SUSPENDED, 25, 1)
    forgiven = agent.forgive(Outcome.SERVER_ERROR, NOW, LATER)
    assert (forgiven.status, forgiven.health_score, forgiven.failure_count) == (AVAILABLE, 35, 0)
    assert (forgiven.suspended_at, forgiven.suspended_until, forgiven.reason) == (None, None, None)


def test_a_suspension_for_another_reason_outlasts_what_is_given_back() -> None:
    agent = an_agent().use(Outcome.SERVER_ERROR, NOW, REST).use(Outcome.TOO_MANY, NOW + MINUTE, REST)
    forgiven = agent.forgive(Outcome.SERVER_ERROR, NOW, LATER)
    assert (forgiven.status, forgiven.health_score, forgiven.failure_count) == (SUSPENDED, 80, 1)


@pytest.mark.parametrize("again", ["a 429", "an operator"])
def test_who_was_suspended_a_second_time_stays_suspended_when_the_first_cause_is_given_back(again: str) -> None:
    agent = an_agent(health_score=35).use(Outcome.SERVER_ERROR, NOW, REST)
    later = NOW + MINUTE
    agent = agent.use(Outcome.TOO_MANY, later, REST) if again == "a 429" else agent.suspend(later, REST, "checked")
    forgiven = agent.forgive(Outcome.SERVER_ERROR, NOW, LATER)
    assert (forgiven.status, forgiven.suspended_until, forgiven.reason) == (SUSPENDED, later + REST, agent.reason)
    assert forgiven.failure_count == agent.failure_count - 1


def test_a_name_that_is_neither_a_number_nor_a_uuid_is_shown_in_part() -> None:
    with pytest.raises(InvalidAgentName) as refused:
        AgentName.parse("x" * 300)
    assert refused.value.given == "x" * 100
