"""The circuit of one marketplace endpoint: stop asking while it is down, find out with one request when it is back.

One row per endpoint, shared by all processes. It opens after `failures` network errors or 5xx answers over at least
`MIN_SUBJECTS` products and `MIN_AGENTS` agents with no other answer in between. The failures that opened it were the
marketplace's, so they are given back to the tasks and agents that were charged with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sellerwatch.agents.agent import Outcome
from sellerwatch.kernel.circuit import CIRCUIT_LIFE, CircuitState
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import TaskId, WorkerId


class Endpoint(StrEnum):
    """LIST: a seller's products. DETAIL and OPTIONS: of one product. TOKEN: the page that gives an agent its token."""

    LIST = "list"
    DETAIL = "detail"
    OPTIONS = "options"
    TOKEN = "token"  # noqa: S105


#: Failures of fewer products or agents than these may be the product's or the agent's own. A list page is a subject
#: too, but a seller may have only one; the token page has no product at all: there the agents alone must do.
MIN_SUBJECTS = {Endpoint.LIST: 1, Endpoint.DETAIL: 3, Endpoint.OPTIONS: 3, Endpoint.TOKEN: 1}
MIN_AGENTS = 3
#: Failures remembered at most; older ones are not given back.
MOST_REMEMBERED = 1000
#: The time between probes doubles up to this multiple of the first.
LONGEST_OPEN = 20
#: Requests at once after a probe succeeded; doubled by each group of good answers until there is no bound.
FIRST_RAMP = 2
RAMP_ENDS = 64
#: A ramp ends after this time, however few requests there were: it says nothing about the next outage.
RAMP_LASTS = timedelta(minutes=5)
#: While it ramps up, failures of this many agents are enough to open it again.
MIN_RAMP_AGENTS = 2
#: Subjects remembered at most as failed and not answered since.
MOST_FAILED_SUBJECTS = 300
#: A probe that is left to the job that checks endpoints is sent by others if it has not been for this long.
LEFT_TO_CHECK = timedelta(minutes=2)


@dataclass(frozen=True)
class MarketplaceCircuitRules:
    """`failures` in a row open it; the first probe leaves after `open_for`, and is waited for no longer than
    `probe_patience`."""

    failures: int = 5
    open_for: timedelta = timedelta(seconds=30)
    probe_patience: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class EndpointFailure:
    """One failure that may belong to an outage: who asked, about what, and what it was charged as.

    `is_counted` is False once the endpoint answered another request afterwards: the failure no longer counts towards
    opening the circuit. It is still given back if the circuit opens, because that other request may have left before
    the outage began.
    """

    agent_row: int
    subject: str
    task_id: TaskId | None
    outcome: Outcome
    at: datetime
    permit: int
    is_counted: bool = True


@dataclass(frozen=True)
class MarketplaceCircuit:
    """`since` is when the present outage was noticed; `not_before` when the next probe may leave (or, while one is on
    its way, until when it is waited for); `most_at_once` bounds requests while it ramps up after an outage.

    `away_since` is when this endpoint first went away in a time without a moment in which all endpoints answered. It
    outlives the closing of this circuit until the others are closed too, so that the time is counted once.
    `failed_subjects` failed in an outage and were not answered since, the one that failed first in front. They may be
    what is broken, so they neither open the circuit by themselves nor are probes about them sent while others can be.
    """

    endpoint: Endpoint
    state: CircuitState = CIRCUIT_LIFE.first
    since: datetime | None = None
    not_before: datetime | None = None
    opening_count: int = 0
    probe_worker_id: WorkerId | None = None
    closed_at: datetime | None = None
    most_at_once: int | None = None
    failure: Failure | None = None
    recent: tuple[EndpointFailure, ...] = ()
    away_since: datetime | None = None
    failed_subjects: tuple[str, ...] = ()

    @property
    def is_closed(self) -> bool:
        return self.state is CircuitState.CLOSED

    @property
    def is_quiet(self) -> bool:
        """Closed, with nothing in its row that an answer could change."""
        return self.is_closed and not self.recent and self.most_at_once is None

    @property
    def counted(self) -> tuple[EndpointFailure, ...]:
        """Recent failures after which the endpoint has answered nothing."""
        return tuple(each for each in self.recent if each.is_counted)

    def may_probe(self, now: datetime, subject: str | None = None) -> bool:
        """Whether one request may leave to find out. A probe that was never answered gets a successor.

        `subject`: what a task or a start would ask about; None: what is asked was chosen for a probe. The subject may
        be the only thing that is broken, so one that failed before, and each second probe, are left to the job that
        chooses (`service/check_endpoints.py`).
        """
        if self.is_closed:
            return False
        is_left = subject is not None and (subject in self.failed_subjects or self.opening_count % 2 == 0)
        return self.not_before is None or self.not_before + (LEFT_TO_CHECK if is_left else timedelta(0)) <= now

    def is_ramping(self, now: datetime) -> bool:
        """Whether it closed a short time ago and requests are still bounded."""
        return self.most_at_once is not None and self.closed_at is not None and now < self.closed_at + RAMP_LASTS

    def room(self, now: datetime) -> int | None:
        """How many requests may be claimed now; None where the circuit does not bound it."""
        if self.is_closed:
            return self.most_at_once if self.is_ramping(now) else None
        return 1 if self.may_probe(now) else 0

    def probe(self, worker_id: WorkerId, rules: MarketplaceCircuitRules, now: datetime) -> MarketplaceCircuit:
        return self._move("half_open", probe_worker_id=worker_id, not_before=now + rules.probe_patience)

    def failed(
        self, entry: EndpointFailure, failure: Failure, rules: MarketplaceCircuitRules, now: datetime
    ) -> MarketplaceCircuit:
        """Record a failure while closed; open if there are enough. While ramping up, fewer are enough."""
        recorded = replace(self, recent=(*self.recent, entry)[-MOST_REMEMBERED:], failure=failure)
        if not recorded._has_enough_failures(rules, now):
            return recorded
        opened = recorded._move(
            "open",
            since=now,
            not_before=now + rules.open_for,
            opening_count=1,
            most_at_once=None,
            recent=(),
            away_since=self.away_since or now,
        )
        return opened.with_failed_subjects(each.subject for each in recorded.recent)

    def _has_enough_failures(self, rules: MarketplaceCircuitRules, now: datetime) -> bool:
        """Whether the counted failures open it. Whatever their number, some have to be about subjects that did not fail
        in an earlier outage."""
        counted, fewest = self.counted, MIN_SUBJECTS[self.endpoint]
        subjects, agents = {each.subject for each in counted}, {each.agent_row for each in counted}
        if len(subjects.difference(self.failed_subjects)) < min(2, fewest):
            return False
        if self.is_ramping(now):
            return len(agents) >= MIN_RAMP_AGENTS
        return len(subjects) >= fewest and len(agents) >= MIN_AGENTS and len(counted) >= rules.failures

    def with_failed_subjects(self, subjects: Iterable[str]) -> MarketplaceCircuit:
        """Remember that these failed in the outage."""
        new = dict.fromkeys(subjects)
        known = (each for each in self.failed_subjects if each not in new)
        return replace(self, failed_subjects=(*known, *new)[-MOST_FAILED_SUBJECTS:])

    def without_failed_subject(self, subject: str | None) -> MarketplaceCircuit:
        """The endpoint answered about this one: it is not broken."""
        if subject not in self.failed_subjects:
            return self
        return replace(self, failed_subjects=tuple(each for each in self.failed_subjects if each != subject))

    def blames_no_agent(self, entry: EndpointFailure) -> bool:
        """Whether a failure is not its agent's: several agents failed in a row, or its subject failed before."""
        is_known = entry.subject in self.failed_subjects
        return is_known or len({each.agent_row for each in (*self.counted, entry)}) >= MIN_AGENTS

    def forgive_agents(self) -> MarketplaceCircuit:
        return replace(self, recent=tuple(replace(each, outcome=Outcome.BLAMELESS) for each in self.recent))

    def answered(self, sent_at: datetime, at: datetime, subject: str | None = None) -> MarketplaceCircuit:
        """Record that the endpoint answered, at `at`, a request sent at `sent_at`; a ramp goes on or ends.

        Failures before `sent_at` were not an outage. One between the two times no longer counts towards opening, but
        is remembered: requests that left before an outage still come back well after its first failures.
        """
        if not self.is_closed:
            return self
        circuit = self.without_failed_subject(subject)
        if circuit.is_quiet:
            return circuit
        ramp = self.most_at_once * 2 if self.most_at_once is not None and self.is_ramping(at) else None
        ramp = None if ramp is None or ramp >= RAMP_ENDS else ramp
        recent = tuple(
            replace(each, is_counted=False) if each.is_counted and each.at <= at else each
            for each in self.recent
            if each.at > sent_at
        )
        failure = self.failure if recent or ramp is not None else None
        return replace(circuit, recent=recent, most_at_once=ramp, failure=failure)

    def has_ended_since(self, at: datetime) -> bool:
        """Whether an outage that was going on at `at` has ended; a failure from then says nothing about now."""
        return self.is_closed and self.closed_at is not None and at <= self.closed_at

    def probe_failed(self, failure: Failure, rules: MarketplaceCircuitRules, now: datetime) -> MarketplaceCircuit:
        """A probe that failed late, when its successor has failed already, says nothing new."""
        if self.state is CircuitState.OPEN:
            return self
        openings = self.opening_count + 1
        wait = rules.open_for * min(2 ** min(openings - 1, 10), LONGEST_OPEN)
        return self._move("open", not_before=now + wait, opening_count=openings, probe_worker_id=None, failure=failure)

    def probe_succeeded(self, now: datetime, subject: str | None = None) -> MarketplaceCircuit:
        return self.without_failed_subject(subject)._move(
            "close",
            closed_at=now,
            since=None,
            not_before=None,
            opening_count=0,
            probe_worker_id=None,
            most_at_once=FIRST_RAMP,
            recent=(),
        )

    def _move(self, verb: str, **changed: object) -> MarketplaceCircuit:
        state = CIRCUIT_LIFE.after(self.state, verb, f"of the {self.endpoint} endpoint")
        return replace(self, state=state, **changed)  # type: ignore[arg-type]


def next_probe(circuits: Iterable[MarketplaceCircuit], now: datetime) -> datetime | None:
    """Return the next time, after now, at which something more may be asked of a circuit that is not closed."""
    due = [circuit.not_before for circuit in circuits if not circuit.is_closed and circuit.not_before is not None]
    times = [time for each in due for time in (each, each + LEFT_TO_CHECK)]
    return min((time for time in times if time > now), default=None)
