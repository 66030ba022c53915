"""What the pool needs of the store and of the vault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.agent_status import AgentDetails, CircuitEvent
from sellerwatch.agents.breaker import Breaker
from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.endpoints import Endpoint
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuit
from sellerwatch.agents.pool import Candidate, Grant, Lending
from sellerwatch.agents.token import Token
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.fast_values import quick
from sellerwatch.kernel.ids import SellerId, TaskId, UserAgentId, WorkerId
from sellerwatch.oversight.ports import AuditTx


@quick
@dataclass(frozen=True, slots=True)
class Permit:
    """A durable row written before the request leaves: this much budget is spent, whatever becomes of us."""

    number: int
    grant: Grant


@dataclass(frozen=True, slots=True)
class InWindow:
    """A permit that still counts, or has not been found out yet not to."""

    agent_row: int
    number: int
    answered_us: int | None
    answered_at: datetime | None


@dataclass(frozen=True, slots=True)
class Reserved:
    """A slot that was set aside for one request as this agent, under a name of its own until it is a permit."""

    row: int
    name: str
    depart_us: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was set aside ahead of a transaction. `wait_us`: with nothing in it, how long until there may be something;
    None where nobody can tell."""

    reserved: tuple[Reserved, ...] = ()
    wait_us: int | None = None


class Use(NamedTuple):
    """One line of the usage log."""

    agent_row: int
    token_row: int | None
    status: int | None
    milliseconds: int
    succeeded: bool
    too_many: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """An agent with its row, its circuit and its token's dates."""

    row: int
    agent: Agent
    circuit: Circuit
    slots_left: int
    window_limit: int
    token_issued_at: datetime | None
    token_expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class LastHour:
    """What an agent did in the last hour, from the usage log."""

    requests: int
    succeeded: int
    too_many: int
    average_ms: int | None


class Agents(Protocol):
    """Agents, their tokens and what they did."""

    def candidates(self, at: Moment) -> Sequence[Candidate]:
        """Every AVAILABLE agent whose window is not closed, with its budget, its circuit and its token, if any."""
        ...

    def tally(self) -> tuple[int, int]:
        """How many are AVAILABLE, and how many there are."""
        ...

    def get_rows(self, rows: Sequence[int]) -> dict[int, Agent]: ...

    def find(self, user_agent_id: UserAgentId) -> StoredAgent | None: ...

    def add(self, agent: Agent, limits: Limits) -> bool:
        """False: there is one with that user-agent string already."""
        ...

    def remove(self, row: int) -> None: ...

    def save(self, agents: Mapping[int, Agent]) -> None: ...

    def rested(self, now: datetime) -> dict[int, Agent]:
        """SUSPENDED agents whose rest is over."""
        ...

    def new_day(self) -> int:
        """Requests of the day begin at nothing again."""
        ...


class RemovedAgents(Protocol):
    """When agents were removed with requests in their window: the marketplace still counts those."""

    def add(self, user_agent: str, removed_at: datetime) -> None: ...

    def removed_at(self, user_agent: str) -> datetime | None:
        """Return when an agent with this user-agent string was last removed with requests in its window."""
        ...

    def forget(self, user_agent: str) -> None: ...


class UsageLog(Protocol):
    """One line for each request: how it ended, and as whom it was made."""

    def last_hour(self, row: int, now: datetime) -> LastHour: ...

    def log_uses(self, uses: Sequence[Use]) -> None: ...

    def forget_uses(self, before: datetime, limit: int) -> int:
        """Retention: at most so many old lines of the log, so that no transaction is long."""
        ...


class Tokens(Protocol):
    """One active token an agent; a thrown away one keeps its row, for the log that refers to it."""

    def keep(self, row: int, token: Token, refresh_at: datetime) -> None: ...

    def drop(self, rows: Sequence[int]) -> None: ...

    def reject(self, token_rows: Sequence[int]) -> None:
        """The marketplace refused these tokens: each is thrown away, and what the agent gets next replaces it."""
        ...

    def accept(self, token_rows: Sequence[int]) -> None:
        """The marketplace took these replacements."""
        ...

    def due(self, now: datetime, limit: int) -> Sequence[tuple[int, UserAgentId, str]]:
        """Rows, ids and user agents whose token should be renewed before it expires."""
        ...

    def put_off(self, row: int, until: datetime) -> None:
        """A renewal failed: later again, counted."""
        ...

    def sealed(self) -> Sequence[tuple[int, UserAgentId, Token]]:
        """Every active token, to be sealed with another key."""
        ...

    def reseal(self, token_row: int, token: Token) -> None: ...

    def drop_unknown(self, key_ids: Sequence[str]) -> int:
        """Tokens sealed with none of these keys are no use to anybody."""
        ...


class Circuits(Protocol):
    """The agents' circuits, the pool's breaker, and every change of either."""

    def get_rows(self, rows: Sequence[int]) -> dict[int, Circuit]: ...

    def save(self, before: Mapping[int, Circuit], after: Mapping[int, Circuit], now: datetime) -> None:
        """Keeps what changed, and an event for each change and failure."""
        ...

    def set_rules(self, failures: int, timeout: timedelta) -> None:
        """How many failures in a row open a circuit, and for how long."""
        ...

    def breaker(self) -> Breaker: ...

    def save_breaker(self, breaker: Breaker, now: datetime) -> None: ...


class Permits(Protocol):
    """The window of every agent, exact: a slot is free one window after its permit was answered."""

    def reserve(
        self, grants: Sequence[Grant], task_ids: Sequence[TaskId | None], worker_id: WorkerId, at: Moment
    ) -> Sequence[Permit]: ...

    def answer(self, numbers: Sequence[int], at: Moment) -> frozenset[int]:
        """Says which of them were open: one that was answered before has been charged before."""
        ...

    def give_back(self, permits: Sequence[Permit]) -> None:
        """Lent, but no byte was sent: as if it had never been."""
        ...

    def answer_lapsed(self, beat_before: datetime, at: Moment) -> int:
        """Unanswered permits of vanished workers, and those nobody can be waiting for any more, count as answered now:
        too few requests rather than too many."""
        ...

    def answer_all_of(self, worker_id: WorkerId, at: Moment) -> None:
        """A worker that stops: what it was lent counts from now."""
        ...

    def answer_of(self, worker_id: WorkerId, task_ids: Sequence[TaskId], at: Moment) -> None:
        """What a worker was lent for these tasks counts from now."""
        ...

    def expire(self, at: Moment, limits: Limits) -> None:
        """Slots whose window has passed are free again."""
        ...

    def still_open(self, numbers: Sequence[int]) -> frozenset[int]:
        """Those of these that are not answered yet."""
        ...

    def unanswered(self) -> int:
        """Requests under way, of all processes."""
        ...


class RequestWindows(Protocol):
    """The agents' windows as a whole: limits, boots, and what a limiter has to know."""

    def set_limits(self, limits: Limits, at: Moment) -> None:
        """Budgets follow the limit; what is lent stays counted, and what a longer window would have to know of and
        does not makes it count as full."""
        ...

    def enter_boot(self, at: Moment, limits: Limits) -> int:
        """What earlier boots left counts as answered when this one began: it is at least that old, and no wall clock
        is asked. Says how many permits that were."""
        ...

    def next_free_us(self, limits: Limits) -> int | None:
        """When the next slot of any agent comes free, by the boot's clock; None when nothing is answered yet."""
        ...

    def in_window(self) -> Sequence[InWindow]:
        """Everything that still counts, for a limiter that has lost it."""
        ...

    def last_departure_us(self) -> int:
        """Of any agent."""
        ...

    def highest(self) -> int:
        """The highest number ever given out, over deletions too."""
        ...

    def fill(self, at: Moment, limits: Limits) -> None:
        """Every window counts as full for one window: nobody knows what was lent."""
        ...

    def full_until_us(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Pause:
    """A person stopped all requests to the marketplace, or (with a seller) those for one seller."""

    seller_id: SellerId | None
    paused_at: datetime
    paused_by: str


class MarketplaceState(Protocol):
    """What is known of the marketplace itself, shared by all processes."""

    def circuits(self) -> Mapping[Endpoint, MarketplaceCircuit]:
        """Of every endpoint; not locked."""
        ...

    def hold(self, endpoint: Endpoint, now: datetime) -> MarketplaceCircuit:
        """The circuit as it is, locked until commit."""
        ...

    def save(self, circuit: MarketplaceCircuit, now: datetime) -> None: ...

    def pauses(self) -> Sequence[Pause]: ...

    def pause(self, seller_id: SellerId | None, by: str, now: datetime) -> bool:
        """False: it is paused already."""
        ...

    def resume(self, seller_id: SellerId | None) -> bool:
        """False: it is not paused."""
        ...


class PoolReport(Protocol):
    """What people can see of the pool. Nothing is changed or locked."""

    def agents(self) -> Sequence[StoredAgent]:
        """Return every agent in the order of its number."""
        ...

    def standings(self, at: Moment, limits: Limits) -> Sequence[AgentDetails]:
        """Return every agent in the order of its number, its window as the next claim will find it."""
        ...

    def circuit_events(self, row: int, limit: int) -> Sequence[CircuitEvent]:
        """Return the history of an agent's circuit, newest first."""
        ...


class AgentsTx(Protocol):
    @property
    def agents(self) -> Agents: ...

    @property
    def removed_agents(self) -> RemovedAgents: ...

    @property
    def usage_log(self) -> UsageLog: ...

    @property
    def tokens(self) -> Tokens: ...

    @property
    def circuits(self) -> Circuits: ...

    @property
    def permits(self) -> Permits: ...

    @property
    def windows(self) -> RequestWindows: ...

    @property
    def marketplace(self) -> MarketplaceState: ...

    @property
    def pool_report(self) -> PoolReport: ...


class Overrides(Protocol):
    """Settings an operator changed while it ran; kept over restarts."""

    def all(self) -> dict[str, str]: ...

    def set(self, name: str, value: str, by: str, now: datetime) -> None: ...

    def unset(self, name: str) -> bool: ...


class PoolTx(AgentsTx, AuditTx, Protocol):
    """What operators' commands on the pool need."""

    @property
    def overrides(self) -> Overrides: ...


class Limiter(Protocol):
    """Who decides how many requests may leave, and when: never more than the limits, whoever asks and whatever dies.

    A claim goes in three steps. `reserve`, before the transaction; `lend` inside it, where what was reserved meets the
    truth of the database; `settle` after the commit and before anything is sent: what was not used goes back. Answers
    are told after the transaction that absorbed them. Killed anywhere between: what was lent counts as used. A step
    that fails with `Unavailable` means: nothing may be sent.
    """

    @property
    def looks_ahead(self) -> bool:
        """`reserve` decides, and must be given the candidates; else everything is decided inside the transaction."""
        ...

    async def begin(self) -> None:
        """A process starts: what the database knows to count, counts."""
        ...

    async def reserve(
        self, candidates: Sequence[Candidate], wanted: int, limits: Limits, host: Host, now: datetime
    ) -> Reservation: ...

    def lend(
        self,
        tx: AgentsTx,
        ahead: Reservation,
        candidates: Sequence[Candidate],
        wanted: int,
        terms: tuple[Limits, Host],
        at: Moment,
    ) -> Lending:
        """Inside the transaction that writes the permits."""
        ...

    async def reserve_visit(self, host: Host) -> Reservation:
        """As `reserve`, for a visit to the token page: only the host's limits count."""
        ...

    def lend_visit(self, tx: AgentsTx, ahead: Reservation, host: Host, at: Moment) -> Lending:
        """As `lend`, for a visit: one grant for `VISITOR`, or none."""
        ...

    async def settle(self, ahead: Reservation, permits: Sequence[Permit]) -> None: ...

    async def answered(self, permits: Iterable[tuple[int, int]]) -> None:
        """Agents' rows and numbers of permits whose answers are absorbed. Never fails: what cannot be told now counts
        as under way until it can."""
        ...

    async def tend(self) -> int:
        """Find what counts as under way and is not any more; says how many."""
        ...


class Sealer(Protocol):
    """Seals what the marketplace gave; the sealed form is bound to its agent."""

    @property
    def key_ids(self) -> Sequence[str]: ...

    def seal(
        self, token: str, *, bound_to: str, nid: str, mustit_uid: str, issued_at: datetime, expires_at: datetime
    ) -> Token: ...

    def open(self, token: Token, bound_to: str) -> str: ...
