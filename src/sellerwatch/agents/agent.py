"""An agent: one user-agent identity, with its health and its status."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from msgspec import Struct, structs

from sellerwatch.kernel.errors import Conflict, Invalid, NotFound
from sellerwatch.kernel.ids import InvalidId, PublicId, UserAgentId
from sellerwatch.kernel.lifecycle import Lifecycle
from sellerwatch.kernel.wording import Worded
from sellerwatch.texts import template


class AgentStatus(StrEnum):
    AVAILABLE = "AVAILABLE"
    SUSPENDED = "SUSPENDED"
    BLOCKED = "BLOCKED"


AGENT_LIFE = Lifecycle(
    noun="agent",
    first=AgentStatus.AVAILABLE,
    moves={
        (AgentStatus.AVAILABLE, "suspend"): AgentStatus.SUSPENDED,
        (AgentStatus.SUSPENDED, "suspend"): AgentStatus.SUSPENDED,
        (AgentStatus.SUSPENDED, "recover"): AgentStatus.AVAILABLE,
        (AgentStatus.AVAILABLE, "block"): AgentStatus.BLOCKED,
        (AgentStatus.SUSPENDED, "block"): AgentStatus.BLOCKED,
        (AgentStatus.BLOCKED, "unblock"): AgentStatus.AVAILABLE,
    },
    resting=frozenset({AgentStatus.BLOCKED}),
)

HEALTHIEST = 100
HEALTH_AFTER_RECOVERY = 70
SUSPENSION_HEALTH = 30
ISSUE_FAILURES = 3
LONGEST_REASON = 200

#: Reasons of ours for a suspension or a block; `texts/agents.toml` has their sentences.
TOO_MANY = "TOO_MANY_REQUESTS"
LOW_HEALTH = "LOW_HEALTH"
NO_TOKEN = "NO_TOKEN"  # noqa: S105 - a reason, not a token
NO_REASON = "NO_REASON"


class Outcome(StrEnum):
    """How a request ended, as far as its agent is concerned.

    BLAMELESS is what the agent could not help: a product's 404, our parser's error, a marketplace-wide outage. It
    counts as a use and touches nothing else.
    """

    SUCCESS = "SUCCESS"
    TOO_MANY = "TOO_MANY"
    SERVER_ERROR = "SERVER_ERROR"
    NETWORK_ERROR = "NETWORK_ERROR"
    REFUSED = "REFUSED"
    OTHER = "OTHER"
    BLAMELESS = "BLAMELESS"

    @property
    def is_failure(self) -> bool:
        return self not in (Outcome.SUCCESS, Outcome.BLAMELESS)

    @property
    def is_circuit_failure(self) -> bool:
        """Failures that say the agent is not welcome now: an odd answer is not one of them."""
        return self.is_failure and self is not Outcome.OTHER


_HEALTH = {
    Outcome.SUCCESS: 5,
    Outcome.TOO_MANY: -20,
    Outcome.SERVER_ERROR: -10,
    Outcome.NETWORK_ERROR: -5,
    Outcome.REFUSED: -5,
    Outcome.OTHER: -5,
    Outcome.BLAMELESS: 0,
}


@dataclass(eq=False)
class AgentNotFound(NotFound):
    agent: str


@dataclass(eq=False)
class AgentExists(Conflict):
    user_agent: str


@dataclass(eq=False)
class InvalidUserAgent(Invalid):
    """A user-agent string that no HTTP header may carry, or none at all."""

    longest: int


@dataclass(frozen=True)
class AgentReason(Worded):
    """Why an agent is suspended or blocked, as it is stored: a code of ours, shown in the reader's language, or what a
    person wrote."""

    stored: str

    __str__ = Worded.__str__

    def text(self, language: str = "en") -> str:
        return template("agents", f"reason.{self.stored}", language) or self.stored


class Agent(Struct, frozen=True):
    """A user-agent identity. Healthy agents are lent first; one with a low health is suspended for a time.

    A suspended agent keeps `suspended_until`: recovery depends on the time alone, never on a health that suspension
    itself had made unreachable. BLOCKED lasts until an operator unblocks it.
    """

    user_agent_id: UserAgentId
    user_agent: str
    created_at: datetime
    updated_at: datetime
    status: AgentStatus = AGENT_LIFE.first
    health_score: int = HEALTHIEST
    usage_count: int = 0
    success_count: int = 0
    failure_count: int = 0
    requests_per_day: int = 0
    issue_failures: int = 0
    last_used_at: datetime | None = None
    suspended_at: datetime | None = None
    suspended_until: datetime | None = None
    reason: str | None = None

    LONGEST_USER_AGENT = 500

    @classmethod
    def create(cls, user_agent_id: UserAgentId, user_agent: str, now: datetime) -> Self:
        text = user_agent.strip()
        if not text or len(text) > cls.LONGEST_USER_AGENT or not text.isascii() or not text.isprintable():
            raise InvalidUserAgent(longest=cls.LONGEST_USER_AGENT)
        return cls(user_agent_id=user_agent_id, user_agent=text, created_at=now, updated_at=now)

    def use(self, outcome: Outcome, now: datetime, rest: timedelta, uses: int = 1) -> Agent:
        """`uses` requests that ended alike. A 429 suspends at once, and so does a health under 30, for `rest`."""
        health = min(HEALTHIEST, max(0, self.health_score + _HEALTH[outcome] * uses))
        success = uses if outcome is Outcome.SUCCESS else 0
        failure = uses if outcome.is_failure else 0
        used = structs.replace(
            self,
            health_score=health,
            usage_count=self.usage_count + uses,
            success_count=self.success_count + success,
            failure_count=self.failure_count + failure,
            requests_per_day=self.requests_per_day + uses,
            last_used_at=now,
            updated_at=now,
        )
        too_many = outcome is Outcome.TOO_MANY and self.status is not AgentStatus.BLOCKED
        # A late failure of a request that was sent before the suspension does not lengthen it.
        is_too_low = health < SUSPENSION_HEALTH and outcome.is_failure and self.status is AgentStatus.AVAILABLE
        why = TOO_MANY if too_many else LOW_HEALTH
        return used.suspend(now, rest, why) if too_many or is_too_low else used

    @property
    def shown_reason(self) -> AgentReason:
        return AgentReason(self.reason or NO_REASON)

    def suspend(self, now: datetime, rest: timedelta, reason: str) -> Agent:
        """Suspend it for `rest`; a second suspension can only lengthen the first, and outlasts the
        pardon of the first one's cause."""
        until = max(now + rest, self.suspended_until or now)
        return self._move("suspend", now, suspended_at=now, suspended_until=until, reason=reason[:LONGEST_REASON])

    def is_rested(self, now: datetime) -> bool:
        return self.status is AgentStatus.SUSPENDED and (self.suspended_until is None or self.suspended_until <= now)

    def recover(self, now: datetime) -> Agent:
        """End its suspension, with a health of 70."""
        rested = {"suspended_at": None, "suspended_until": None, "reason": None}
        return self._move("recover", now, health_score=HEALTH_AFTER_RECOVERY, **rested)

    def block(self, now: datetime, reason: str) -> Agent:
        return self._move("block", now, suspended_at=None, suspended_until=None, reason=reason[:LONGEST_REASON])

    def unblock(self, now: datetime) -> Agent:
        return self._move("unblock", now, health_score=HEALTH_AFTER_RECOVERY, issue_failures=0, reason=None)

    def forgive(self, outcome: Outcome, at: datetime, now: datetime) -> Agent:
        """Take back a failure from `at` that turned out to be the marketplace's: its health, and the suspension if this
        failure caused it and nothing suspended the agent again since."""
        healthier = min(HEALTHIEST, self.health_score - _HEALTH[outcome])
        given_back = {"health_score": healthier, "failure_count": max(0, self.failure_count - 1)}
        if self.status is AgentStatus.SUSPENDED and self.suspended_at == at and healthier >= SUSPENSION_HEALTH:
            free = {"suspended_at": None, "suspended_until": None, "reason": None}
            return self._move("recover", now, **given_back, **free)
        return structs.replace(self, updated_at=now, **given_back)

    def issue_refused(self, now: datetime) -> Agent:
        """Count an answer of the token page without a token. The third in a row blocks the agent; an outage is none."""
        counted = structs.replace(self, issue_failures=self.issue_failures + 1, updated_at=now)
        may_block = AGENT_LIFE.allows(self.status, "block")
        spent = counted.issue_failures >= ISSUE_FAILURES and may_block
        return counted.block(now, NO_TOKEN) if spent else counted

    def issue_succeeded(self, now: datetime) -> Agent:
        return structs.replace(self, issue_failures=0, updated_at=now)

    def new_day(self, now: datetime) -> Agent:
        return structs.replace(self, requests_per_day=0, updated_at=now)

    def _move(self, verb: str, now: datetime, **changed: object) -> Agent:
        status = AGENT_LIFE.after(self.status, verb, self.user_agent_id)
        return structs.replace(self, status=status, updated_at=now, **changed)


#: Digits that a row's number can have.
LONGEST_NUMBER = 18


@dataclass(eq=False)
class InvalidAgentName(Invalid):
    """Neither a number nor a UUID."""

    given: str


class AgentName(PublicId):
    """The UUID of an agent, or its number in the list."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        number = text.removeprefix("#")
        if number.isascii() and number.isdecimal() and len(number) <= LONGEST_NUMBER:
            return cls(number)
        try:
            return super().parse(text)
        except InvalidId:
            raise InvalidAgentName(given=text[:100]) from None
