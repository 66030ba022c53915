"""What the pool needs of the store and of the vault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import Candidate, Grant
from sellerwatch.agents.token import Token
from sellerwatch.kernel.ids import TaskId, WorkerId


@dataclass(frozen=True, slots=True)
class Permit:
    """A durable row written before the request leaves: this much budget is spent, whatever becomes of us."""

    number: int
    grant: Grant


@dataclass(frozen=True, slots=True)
class Use:
    """One line of the usage log."""

    agent_row: int
    token_row: int | None
    status: int | None
    milliseconds: int
    succeeded: bool
    too_many: bool
    at: datetime


class Agents(Protocol):
    """Agents, their tokens and what they did."""

    def candidates(self, now: datetime) -> Sequence[Candidate]:
        """Every AVAILABLE agent, with its budget and its valid token, if any."""
        ...

    def get_rows(self, rows: Sequence[int]) -> dict[int, Agent]: ...

    def save(self, agents: dict[int, Agent]) -> None: ...

    def rested(self, now: datetime) -> dict[int, Agent]:
        """SUSPENDED agents whose rest is over."""
        ...

    def drop_tokens(self, rows: Sequence[int]) -> None: ...

    def keep_token(self, row: int, token: Token) -> None:
        """The agent's one active token from now on."""
        ...

    def log_uses(self, uses: Sequence[Use]) -> None: ...


class Permits(Protocol):
    """The window of every agent, exact: a slot is free one window after its permit was answered."""

    def set_limits(self, limits: Limits) -> None:
        """Budgets follow the limit; what is lent stays counted."""
        ...

    def reserve(
        self, grants: Sequence[Grant], task_ids: Sequence[TaskId | None], worker_id: WorkerId, now: datetime
    ) -> Sequence[Permit]: ...

    def answer(self, numbers: Sequence[int], now: datetime) -> None: ...

    def give_back(self, permits: Sequence[Permit]) -> None:
        """Lent, but no byte was sent: as if it had never been."""
        ...

    def answer_lapsed(self, beat_before: datetime, now: datetime) -> int:
        """Unanswered permits of vanished workers count as answered now: too few requests rather than too many."""
        ...

    def answer_all_of(self, worker_id: WorkerId, now: datetime) -> None:
        """A worker that stops: what it was lent counts from now."""
        ...

    def answer_of(self, worker_id: WorkerId, task_ids: Sequence[TaskId], now: datetime) -> None:
        """What a worker was lent for these tasks counts from now."""
        ...

    def expire(self, now: datetime, limits: Limits) -> None:
        """Slots whose window has passed are free again."""
        ...

    def next_free(self, limits: Limits) -> datetime | None:
        """When the next slot of any agent comes free; None when nothing is answered yet."""
        ...


class AgentsTx(Protocol):
    @property
    def agents(self) -> Agents: ...

    @property
    def permits(self) -> Permits: ...


class Sealer(Protocol):
    """Seals what the marketplace gave; the sealed form is bound to its agent."""

    def seal(
        self, token: str, *, bound_to: str, nid: str, mustit_uid: str, issued_at: datetime, expires_at: datetime
    ) -> Token: ...
