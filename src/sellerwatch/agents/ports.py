"""What the pool needs of the store and of the vault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from msgspec import Struct

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.agent_status import AgentDetails, CircuitEventView, FullReason
from sellerwatch.agents.answers import Session
from sellerwatch.agents.breaker import Breaker
from sellerwatch.agents.circuit import Circuit, CircuitEvent
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit
from sellerwatch.agents.pool import Candidate, Grant, Lending
from sellerwatch.agents.token import Token
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import SellerId, TaskId, UserAgentId, WorkerId
from sellerwatch.kernel.views import View
from sellerwatch.oversight.ports import AuditTx


class Permit(Struct, frozen=True):
    """A row written before the request is sent: that budget is used even if the process dies."""

    number: int
    grant: Grant


@dataclass(frozen=True, slots=True)
class CountedPermit:
    """A permit that counts in its agent's window, or whose end has not been recorded yet."""

    agent_row: int
    number: int
    answered_us: int | None
    answered_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecountedBucket:
    """The free slots of an agent as its bucket had them, and as its permits say."""

    agent_row: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """A slot that is set aside for one request as this agent, known by `name` until it is a permit."""

    row: int
    name: str
    depart_us: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """Slots that are set aside before a transaction. `wait_us`: without any, how long until there may be one; None when
    that is not known."""

    reserved: tuple[Reserved, ...] = ()
    wait_us: int | None = None


class UsageEntry(NamedTuple):
    """One request in the usage log. `too_many`: a 429; `rate_limited`: that, or a 503 with Retry-After."""

    agent_row: int
    token_row: int | None
    status: int | None
    milliseconds: int
    succeeded: bool
    rate_limited: bool
    too_many: bool
    sent_at: datetime
    seller_id: SellerId | None = None


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
    next_refresh_at: datetime | None
    refresh_failures: int


@dataclass(frozen=True)
class LastHourView(View):
    """What an agent did in the last hour, from the usage log."""

    requests: int
    succeeded: int
    too_many: int
    average_ms: int | None


@dataclass(frozen=True, slots=True)
class AgentUsage:
    """What an agent did in a time. `failed`: it did not bring what was asked for."""

    requests: int = 0
    failed: int = 0
    too_many: int = 0
    last_too_many_at: datetime | None = None


class Agents(Protocol):
    """The agents of the pool, by the number of their row."""

    def candidates(self, at: Moment) -> Sequence[Candidate]:
        """Return the AVAILABLE agents whose window does not count as full, with budget, circuit and token."""

    def tally(self) -> tuple[int, int]:
        """Return how many are AVAILABLE, and how many there are."""

    def get_rows(self, rows: Sequence[int]) -> dict[int, Agent]: ...

    def find(self, user_agent_id: UserAgentId) -> StoredAgent | None: ...

    def add(self, agent: Agent, limits: Limits) -> bool:
        """Return False when there is an agent with that user-agent string already."""

    def remove(self, row: int) -> None: ...

    def save(self, agents: Mapping[int, Agent]) -> None: ...

    def rested(self, now: datetime) -> dict[int, Agent]:
        """Return the SUSPENDED agents whose suspension has ended."""

    def new_day(self) -> int:
        """Set the number of requests of the day to 0; return how many agents had any."""


class RemovedAgents(Protocol):
    """When agents were removed with requests in their window: the marketplace still counts those."""

    def add(self, user_agent: str, removed_at: datetime) -> None: ...

    def removed_at(self, user_agent: str) -> datetime | None:
        """Return when an agent with this user-agent string was last removed with requests in its window."""

    def forget(self, user_agent: str) -> None: ...


class UsageLog(Protocol):
    """One entry for each request: as which agent it was made and how it ended."""

    def last_hour(self, row: int, now: datetime) -> LastHourView: ...

    def add(self, uses: Sequence[UsageEntry]) -> None: ...


class Tokens(Protocol):
    """One active token for each agent. A token that is thrown away keeps its row, to which the usage log refers."""

    def keep(self, row: int, token: Token, refresh_at: datetime) -> None: ...

    def drop(self, rows: Sequence[int]) -> None: ...

    def reject(self, token_rows: Sequence[int]) -> None:
        """Throw away tokens that the marketplace refused; the next token of each agent counts as their replacement."""

    def accept(self, token_rows: Sequence[int]) -> None:
        """Record that the marketplace accepted these replacements."""

    def due(self, now: datetime, limit: int) -> Sequence[tuple[int, UserAgentId, str]]:
        """Return rows, ids and user agents of agents whose token is to be renewed before it expires."""

    def put_off(self, row: int, due: datetime, until: datetime, *, has_failed: bool) -> None:
        """Try a renewal that was due at `due` again at `until`, and count it if it failed. One that was made meanwhile
        stays as it is."""

    def sealed(self) -> Sequence[tuple[int, UserAgentId, Token]]:
        """Return every active token, to be sealed with another key."""

    def reseal(self, token_row: int, token: Token) -> None: ...

    def drop_unknown(self, key_ids: Sequence[str]) -> int:
        """Throw away tokens that are sealed with none of these keys; return how many."""


class Circuits(Protocol):
    """The agents' circuits, the pool's breaker, and the history of both."""

    def get_rows(self, rows: Sequence[int]) -> dict[int, Circuit]: ...

    def troubled(self, rows: Sequence[int]) -> dict[int, Circuit]:
        """Return those of these circuits that are not CLOSED or have counted a failure."""

    def save(self, circuits: Mapping[int, Circuit], events: Sequence[tuple[int, CircuitEvent]]) -> None:
        """Save circuits, and what their history keeps of it."""

    def set_rules(self, failures: int, timeout: timedelta) -> None:
        """Set how many failures in a row open a circuit, and for how long."""

    def breaker(self) -> Breaker: ...

    def save_breaker(self, breaker: Breaker, now: datetime) -> None: ...


class Permits(Protocol):
    """The permits in every agent's window: a slot is free one window after its permit was answered."""

    def reserve(
        self, grants: Sequence[Grant], task_ids: Sequence[TaskId | None], worker_id: WorkerId, at: Moment
    ) -> Sequence[Permit]: ...

    def answer(self, numbers: Sequence[int], at: Moment) -> frozenset[int]:
        """Record answers and return which permits were unanswered until now: only those are charged."""

    def answer_lapsed(self, beat_before: datetime, at: Moment) -> int:
        """Count unanswered permits of workers without a heartbeat as answered now, and return how many; an earlier time
        could allow too many requests."""

    def answer_all_of(self, worker_id: WorkerId, at: Moment) -> None:
        """Count all permits of a worker that stops as answered now."""

    def answer_of(self, worker_id: WorkerId, task_ids: Sequence[TaskId], at: Moment) -> None:
        """Count a worker's permits for these tasks as answered now."""

    def expire(self, at: Moment, limits: Limits) -> None:
        """Free the slots whose window has passed."""

    def still_open(self, numbers: Sequence[int]) -> frozenset[int]:
        """Return which of these are not answered yet."""

    def unanswered(self) -> int:
        """Return the number of requests under way, of all processes."""


class RequestWindows(Protocol):
    """The windows of all agents: their limits, and what a limiter needs to rebuild its state."""

    def set_limits(self, limits: Limits, at: Moment) -> None:
        """Adjust every budget to new limits. Requests in the window stay counted."""

    def set_window_limit(self, limit: int) -> None:
        """Adjust every budget to another number of requests in the same window."""

    def enter_boot(self, at: Moment, limits: Limits) -> int:
        """Count permits of earlier boots as answered when this boot began, which they are at least as old as; no wall
        clock is read. Return how many there were."""

    def next_free_us(self, limits: Limits) -> int | None:
        """Return when the next slot of any agent comes free, by the boot's clock; None when none is answered yet."""

    def counted_permits(self) -> Sequence[CountedPermit]:
        """Return every permit in a window, for a limiter that has lost its state."""

    def last_departure_us(self) -> int:
        """Return the last departure of any agent, by the boot's clock."""

    def highest(self) -> int:
        """Return the highest number of a permit that was ever given, deleted ones included."""

    def fill(self, at: Moment, limits: Limits, reason: FullReason) -> None:
        """Make every window count as full for one window, because the earlier requests are not known."""

    def recount(self) -> Sequence[RecountedBucket]:
        """Set the free slots of every bucket by its permits; return the buckets that had another number."""


@dataclass(frozen=True, slots=True)
class Pause:
    """All requests to the marketplace are stopped by a person, or those for one seller."""

    seller_id: SellerId | None
    paused_at: datetime
    paused_by: str


class MarketplaceState(Protocol):
    """The circuits of the marketplace's endpoints and the pauses, shared by all processes."""

    def circuits(self) -> Mapping[Endpoint, MarketplaceCircuit]:
        """Return the circuit of every endpoint, without locking it."""

    def hold(self, endpoint: Endpoint, now: datetime) -> MarketplaceCircuit:
        """Return a circuit and lock it until commit."""

    def save(self, circuit: MarketplaceCircuit, now: datetime) -> None: ...

    def pauses(self) -> Sequence[Pause]: ...

    def pause(self, seller_id: SellerId | None, by: str, now: datetime) -> bool:
        """Return False when it is paused already."""

    def resume(self, seller_id: SellerId | None) -> bool:
        """Return False when it is not paused."""


class PoolReport(Protocol):
    """What people can see of the pool. Nothing is changed or locked."""

    def agents(self) -> Sequence[StoredAgent]:
        """Return every agent in the order of its number."""

    def standings(self, at: Moment, limits: Limits) -> Sequence[AgentDetails]:
        """Return every agent in the order of its number, its window as the next claim will find it."""

    def circuit_events(self, row: int, limit: int) -> Sequence[CircuitEventView]:
        """Return the history of an agent's circuit, newest first."""

    def failures_until(self, row: int, until: datetime, limit: int) -> Sequence[CircuitEventView]:
        """Return the last failures of an agent's circuit that were not after `until`, newest first."""

    def usage(self, since: datetime | None, until: datetime | None) -> Mapping[int, AgentUsage]:
        """Count the requests of each agent in a time. Without both ends only 429s are counted: agents count the rest
        themselves."""

    def requests_between(self, since: datetime, until: datetime) -> int:
        """Count the requests of all agents that were sent after `since`, up to `until`."""


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
    """Settings that were changed at run time; they are kept over restarts."""

    def all(self) -> dict[str, str]: ...

    def set(self, name: str, value: str, by: str, now: datetime) -> None: ...

    def unset(self, name: str) -> bool: ...


class PoolTx(AgentsTx, AuditTx, Protocol):
    """What commands and queries of the pool need."""

    @property
    def overrides(self) -> Overrides: ...


class Limiter(Protocol):
    """Decides how many requests may be sent, and when. The limits hold over all processes, and when one of them dies.

    A claim takes three steps: `reserve` before the transaction; `lend` inside it, where the reservation is checked
    against the database; `settle` after the commit and before anything is sent, which returns what was not used.
    `answered` is called after the transaction that absorbs the answers. When a process dies in between, what it was
    lent counts as used. When a step raises `Unavailable`, nothing may be sent.
    """

    @property
    def looks_ahead(self) -> bool:
        """Whether `reserve` decides and needs the candidates; else `lend` decides alone."""

    async def begin(self) -> int:
        """Take over what the database counts; return how many of the limiter's own counts were wrong and are right
        now. Called when a process starts, and when a person asks for it."""

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
        """Lend agents, inside the transaction that writes the permits."""

    async def reserve_visit(self, host: Host) -> Reservation:
        """As `reserve`, for a visit to the token page: only the host's limits count."""

    def lend_visit(self, tx: AgentsTx, ahead: Reservation, host: Host, at: Moment) -> Lending:
        """As `lend`, for a visit: one grant for `VISITOR`, or none."""

    async def settle(self, ahead: Reservation, permits: Sequence[Permit]) -> None: ...

    async def answered(self, permits: Iterable[tuple[int, int]]) -> None:
        """Record answers by the agents' rows and the numbers of their permits. It never fails: what cannot be recorded
        now counts as under way until it can."""

    async def tend(self) -> int:
        """Find permits that count as under way and are not any more; return how many."""


class Sealer(Protocol):
    """Encrypts sessions. The sealed form is bound to its agent."""

    @property
    def key_ids(self) -> Sequence[str]: ...

    def seal(self, session: Session, *, bound_to: str, issued_at: datetime) -> Token: ...

    def open(self, token: Token, bound_to: str) -> Session: ...
