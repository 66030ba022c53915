"""An agent under random outcomes, operators and time: it never falls out of the pool for good by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import HOUR, NOW, an_agent
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.agents.agent import Agent, AgentStatus, Outcome

VERBS = sorted({verb for _, verb in spec.AGENT})
AVAILABLE, SUSPENDED, BLOCKED = AgentStatus.AVAILABLE, AgentStatus.SUSPENDED, AgentStatus.BLOCKED
COST = {
    Outcome.SUCCESS: 5,
    Outcome.TOO_MANY: -20,
    Outcome.SERVER_ERROR: -10,
    Outcome.NETWORK_ERROR: -5,
    Outcome.REFUSED: -5,
    Outcome.OTHER: -5,
    Outcome.BLAMELESS: 0,
}


class AgentMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.agent = an_agent()
        self.now = NOW
        self.charged: list[tuple[Outcome, datetime]] = []
        self.last_suspension: datetime | None = None

    @rule(minutes=st.integers(0, 90))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(verb=st.sampled_from(VERBS), hours=st.integers(1, 24))
    def any_verb(self, verb: str, hours: int) -> None:
        acts: dict[str, Callable[[Agent], Agent]] = {
            "suspend": lambda a: a.suspend(self.now, hours * HOUR, "a test"),
            "recover": lambda a: a.recover(self.now),
            "block": lambda a: a.block(self.now, "a test"),
            "unblock": lambda a: a.unblock(self.now),
        }
        before = self.agent
        after = attempt("agent", before, before.status, verb, acts[verb])
        if after is not None:
            assert after.status == spec.AGENT[before.status, verb]
            if verb in ("recover", "unblock"):
                assert after.health_score == 70
            if verb == "suspend":
                self.last_suspension = self.now
            self.agent = after

    @rule(outcome=st.sampled_from(Outcome), uses=st.sampled_from([1, 1, 1, 2, 10]))
    def it_is_used(self, outcome: Outcome, uses: int) -> None:
        before = self.agent
        after = before.use(outcome, self.now, HOUR, uses)
        assert after.health_score == max(0, min(100, before.health_score + COST[outcome] * uses))
        assert after.last_used_at == self.now
        assert after.usage_count == before.usage_count + uses
        if before.status is BLOCKED:
            assert after.status is BLOCKED
        elif outcome is Outcome.TOO_MANY:
            assert after.status is SUSPENDED
            assert after.suspended_until is not None
            assert after.suspended_until >= self.now + HOUR
        elif outcome in (Outcome.SUCCESS, Outcome.BLAMELESS):
            assert after.status is before.status
        elif before.status is AVAILABLE:
            assert after.status is (SUSPENDED if after.health_score < 30 else AVAILABLE)
        else:
            assert after.suspended_until == before.suspended_until, "a late failure lengthened the rest"
        if after.status is SUSPENDED and (before.status is AVAILABLE or outcome is Outcome.TOO_MANY):
            self.last_suspension = self.now
        self.agent = after
        if outcome.is_failure and uses == 1:
            self.charged.append((outcome, self.now))

    @precondition(lambda self: self.charged)
    @rule(pick=st.integers(0, 100))
    def a_failure_turns_out_to_be_the_marketplaces(self, pick: int) -> None:
        before = self.agent
        outcome, at = self.charged.pop(pick % len(self.charged))
        self.agent = before.forgive(outcome, at, self.now)
        assert self.agent.health_score == min(100, before.health_score - COST[outcome])
        was_its_fault = before.status is SUSPENDED and self.last_suspension == at
        is_freed = was_its_fault and self.agent.health_score >= 30
        assert self.agent.status is (AVAILABLE if is_freed else before.status)

    @rule(refused=st.booleans())
    def a_token_is_asked_for(self, refused: bool) -> None:
        before = self.agent
        self.agent = before.issue_refused(self.now) if refused else before.issue_succeeded(self.now)
        if not refused:
            assert (self.agent.issue_failures, self.agent.status) == (0, before.status)
        elif self.agent.issue_failures >= 3:
            assert self.agent.status is BLOCKED

    @rule()
    def midnight(self) -> None:
        self.agent = self.agent.new_day(self.now)
        assert self.agent.requests_per_day == 0

    @rule()
    def the_job_recovers_who_is_rested(self) -> None:
        if self.agent.is_rested(self.now):
            self.agent = self.agent.recover(self.now)

    @invariant()
    def health_is_within_0_and_100(self) -> None:
        assert 0 <= self.agent.health_score <= 100

    @invariant()
    def an_available_agent_is_not_ill(self) -> None:
        assert self.agent.status is not AVAILABLE or self.agent.health_score >= 30

    @invariant()
    def a_suspended_agent_recovers_by_time_alone(self) -> None:
        assert (self.agent.suspended_until is not None) == (self.agent.status is SUSPENDED)
        assert (self.agent.suspended_at is not None) == (self.agent.status is SUSPENDED)
        if self.agent.suspended_until is not None:
            back = self.agent.recover(self.agent.suspended_until)
            assert self.agent.is_rested(self.agent.suspended_until)
            assert (back.status, back.health_score) == (AVAILABLE, 70)

    @invariant()
    def a_blocked_agent_waits_for_a_person(self) -> None:
        if self.agent.status is BLOCKED:
            assert not self.agent.is_rested(self.now + 10_000 * HOUR)

    @invariant()
    def the_counts_add_up(self) -> None:
        assert self.agent.success_count + self.agent.failure_count <= self.agent.usage_count
        assert 0 <= self.agent.requests_per_day <= self.agent.usage_count


TestAgent = AgentMachine.TestCase
TestAgent.settings = QUICK
