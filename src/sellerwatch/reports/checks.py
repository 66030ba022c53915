"""The registry of checks: everything about a service that can be wrong, each looked at in one place.

A check returns findings, one for each cause; none while all is well. Attention and `status` show all findings, health
those of the parts of the service, `config check --deploy` those of settings and files. A finding may explain others:
what is late because of an outage is not a second finding.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.no_agent import open_circuits
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.queries import causes_of_waiting
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Blame, Failure, FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.reports import deploy_checks
from sellerwatch.reports.deploy_checks import Deployment, UnsafeSetting
from sellerwatch.reports.freshness import FreshnessState
from sellerwatch.reports.service_state import ServiceState
from sellerwatch.reports.severity import Severity
from sellerwatch.schedules.forecast import DAY

#: Share of the tasks of a run that may fail.
FAILED_SHARE = 0.05
#: A disk with less space than this is full.
LEAST_DISK = 50_000_000


class AttentionKind(StrEnum):
    """What can need a person, worst first."""

    DISK_FULL = "disk_full"
    UNSAFE_TO_EXPOSE = "unsafe_to_expose"
    NO_WORKER = "no_worker"
    NO_SCHEDULER = "no_scheduler"
    RECEIVER_AWAY = "receiver_away"
    REFUSED_SELLERS = "refused_sellers"
    ENDPOINTS_AWAY = "endpoints_away"
    POOL_BREAKER = "pool_breaker"
    FAILED_EVENTS = "failed_events"
    STUCK_EVENTS = "stuck_events"
    FAILED_SCHEDULES = "failed_schedules"
    FAILING_STARTS = "failing_starts"
    FAILED_RUNS = "failed_runs"
    DEAD_LETTERS = "dead_letters"
    LOST_WORKERS = "lost_workers"
    MARKETPLACE_PAUSED = "marketplace_paused"
    OUTBOX_PAUSED = "outbox_paused"
    NO_RECEIVER = "no_receiver"
    SELLERS_PAUSED = "sellers_paused"
    PAUSED_RUNS = "paused_runs"
    QUARANTINE_CASES = "quarantine_cases"
    HELD_REMOVALS = "held_removals"
    BUDGET_TOO_SMALL = "budget_too_small"
    LATE_SELLERS = "late_sellers"
    BLOCKED_AGENTS = "blocked_agents"
    OLD_BACKUP = "old_backup"

    @property
    def severity(self) -> Severity:
        return Severity.WARNING if self in _WARNINGS else Severity.ERROR


_WARNINGS = frozenset(
    {
        AttentionKind.MARKETPLACE_PAUSED,
        AttentionKind.OUTBOX_PAUSED,
        AttentionKind.NO_RECEIVER,
        AttentionKind.SELLERS_PAUSED,
        AttentionKind.PAUSED_RUNS,
        AttentionKind.QUARANTINE_CASES,
        AttentionKind.HELD_REMOVALS,
        AttentionKind.BUDGET_TOO_SMALL,
        AttentionKind.LATE_SELLERS,
        AttentionKind.BLOCKED_AGENTS,
        AttentionKind.OLD_BACKUP,
    }
)
KINDS = list(AttentionKind)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and how much of it. `cause` is why, where that differs from case to case."""

    kind: AttentionKind
    count: int
    cause: Failure | None = None
    seller_ids: Sequence[SellerId] = ()


@dataclass(frozen=True)
class Check:
    """What is looked at. `explains`: failures of these codes, and `blames`: those charged to these, follow from what
    it finds. `part` is the part of the service that is down with it, for health: by `is_down`, else by any finding."""

    looks_at: str
    find: Callable[[ServiceState], Iterator[Finding]]
    explains: frozenset[FailureCode] = frozenset()
    blames: frozenset[Blame] = frozenset()
    part: str | None = None
    is_down: Callable[[ServiceState], bool] | None = None
    #: What health shows about the part, also while all is well.
    details: Callable[[ServiceState], Mapping[str, object]] = field(default=lambda _: {})
    #: For what can be said without the database: from settings and files alone.
    find_unsafe: Callable[[Deployment], Iterator[UnsafeSetting]] | None = None

    @classmethod
    def of_deployment(cls, looks_at: str, find_unsafe: Callable[[Deployment], Iterator[UnsafeSetting]]) -> Self:
        """Return a check of settings and files. On a public address its errors need a person."""

        def find(look: ServiceState) -> Iterator[Finding]:
            deployment = look.check_context.deployment
            if deployment is not None and deployment.is_public:
                errors = [each for each in find_unsafe(deployment) if each.severity is Severity.ERROR]
                yield from _some(AttentionKind.UNSAFE_TO_EXPOSE, len(errors))

        return cls(looks_at, find, find_unsafe=find_unsafe)


@dataclass(frozen=True, slots=True)
class ServicePart:
    """A part of the service, as health shows it."""

    name: str
    is_up: bool
    details: Mapping[str, object]


def service_parts(look: ServiceState) -> list[ServicePart]:
    """Return the parts of the service that checks are about, up or down."""
    return [
        ServicePart(
            check.part,
            not (any(check.find(look)) if check.is_down is None else check.is_down(look)),
            check.details(look),
        )
        for check in CHECKS
        if check.part is not None
    ]


def service_part_names() -> list[str]:
    """Return the names of the parts of the service."""
    return [check.part for check in CHECKS if check.part is not None]


def run_checks(look: ServiceState) -> list[Finding]:
    """Return everything that is wrong, worst first: one finding for each cause."""
    found: list[Finding] = []
    codes: set[FailureCode] = set()
    blames: set[Blame] = set()
    for check in CHECKS:
        mine = [each for each in check.find(look) if not _is_explained(each, codes, blames)]
        if mine:
            codes |= check.explains
            blames |= check.blames
        found += mine
    return sorted(_together(found), key=lambda each: (KINDS.index(each.kind), -each.count))


def find_unsafe(deployment: Deployment) -> Sequence[UnsafeSetting]:
    """Return what is unsafe to expose, errors first: what `config check --deploy` shows."""
    checks = [check.find_unsafe for check in CHECKS if check.find_unsafe is not None]
    found = [unsafe for find in checks for unsafe in find(deployment)]
    return sorted(found, key=lambda each: each.severity is not Severity.ERROR)


def _together(found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield one finding for all of several checks that say the same without a cause."""
    counts = Counter[AttentionKind]()
    for each in found:
        if each.cause is None and not each.seller_ids:
            counts[each.kind] += each.count
        else:
            yield each
    yield from (Finding(kind, count) for kind, count in counts.items())


def _is_explained(finding: Finding, codes: set[FailureCode], blames: set[Blame]) -> bool:
    cause = finding.cause
    return cause is not None and (not codes.isdisjoint((cause.code, *cause.causes)) or cause.blame in blames)


def _some(kind: AttentionKind, count: int) -> Iterator[Finding]:
    if count:
        yield Finding(kind, count)


def _by_cause(kind: AttentionKind, causes: Mapping[SellerId, Failure]) -> Iterator[Finding]:
    """One finding for each code of a first cause; its sentence is that of the newest failure."""
    by_code: dict[str, list[tuple[SellerId, Failure]]] = defaultdict(list)
    for seller_id, failure in causes.items():
        by_code[(failure.code, *failure.causes)[-1]].append((seller_id, failure))
    for mine in by_code.values():
        newest = max((failure for _, failure in mine), key=lambda failure: failure.at)
        yield Finding(kind, len(mine), newest, [seller_id for seller_id, _ in mine])


def _disk(look: ServiceState) -> Iterator[Finding]:
    left = look.check_context.disk_left
    yield from _some(AttentionKind.DISK_FULL, int(left is not None and left < LEAST_DISK))


def _workers(look: ServiceState) -> Iterator[Finding]:
    yield from _some(AttentionKind.NO_WORKER, int(look.has_sellers and not look.has_worker))


def _schedulers(look: ServiceState) -> Iterator[Finding]:
    """Where no process is at work at all, that is one cause."""
    lacks = look.has_sellers and look.has_worker and not look.has_scheduler
    yield from _some(AttentionKind.NO_SCHEDULER, int(lacks))


def _receiver(look: ServiceState) -> Iterator[Finding]:
    channel = look.channel
    if channel.state is not CircuitState.CLOSED:
        waiting = look.tx.outbox_queries(OutboxKind.PRODUCT).pending()
        cause = Failure.of(
            FailureCode.RECEIVER_AWAY, channel.opened_at or look.now, events=waiting, detail=channel.reason or ""
        )
        yield Finding(AttentionKind.RECEIVER_AWAY, 1, cause)


def _refused_sellers(look: ServiceState) -> Iterator[Finding]:
    """One finding: its cause is the newest."""
    refused = sorted(look.refused_sellers, key=lambda each: each.opened_at or look.now)
    if refused:
        newest = refused[-1]
        since, reason = newest.opened_at or look.now, newest.reason or ""
        cause = Failure.of(FailureCode.SELLER_REFUSED, since, seller=newest.seller_id, detail=reason)
        yield Finding(AttentionKind.REFUSED_SELLERS, len(refused), cause, [each.seller_id for each in refused])


def _endpoints(look: ServiceState) -> Iterator[Finding]:
    """One finding, whatever each endpoint says: it is one marketplace that is away. Its cause is the newest."""
    away = sorted(look.marketplace.away, key=lambda each: each.since or look.now)
    if away:
        yield Finding(AttentionKind.ENDPOINTS_AWAY, len(away), away[-1].failure)


def _pool(look: ServiceState) -> Iterator[Finding]:
    """A successful probe keeps the breaker closed for a while, although too few agents are available. Agents whose own
    circuits are open count as available, and make no request."""
    rules, (available, total) = look.check_context.pool.breaker, look.tx.agents.tally()
    breaker = look.tx.circuits.breaker().look(available, total, rules, look.now)
    shut, circuits = open_circuits(look.tx.pool_report.agents(), look.now)
    if breaker.state is not CircuitState.CLOSED or not rules.is_enough(available, total):
        rate = f"{100 * available / total if total else 0.0:.2f}"
        cause = Failure.of(FailureCode.POOL_BREAKER_OPEN, breaker.opened_at or look.now, rate=rate)
        yield Finding(AttentionKind.POOL_BREAKER, 1, cause)
    elif not rules.is_enough(available - shut, total):
        yield Finding(AttentionKind.POOL_BREAKER, 1, circuits)


def _pauses(look: ServiceState) -> Iterator[Finding]:
    yield from _some(AttentionKind.MARKETPLACE_PAUSED, int(look.marketplace.is_paused))
    yield from _some(AttentionKind.SELLERS_PAUSED, len(look.marketplace.seller_pauses))


def _undelivered(look: ServiceState) -> int:
    """Events that wait for more than a minute, without those that failed for good."""
    return max(0, sum(each.undelivered for each in look.freshness.values()) - look.needs.failed_events)


def _no_receiver(look: ServiceState) -> Iterator[Finding]:
    if not look.check_context.has_receiver:
        yield from _some(AttentionKind.NO_RECEIVER, _undelivered(look))


def _is_stuck(look: ServiceState) -> bool:
    """An event that is due is not sent for long. Without a receiver, or paused, events wait, which is no error."""
    due = look.health.oldest_due
    return look.check_context.has_receiver and due is not None and look.now - due > look.check_context.longest_lag


def _stuck_events(look: ServiceState) -> Iterator[Finding]:
    is_stopped = look.channel.is_paused or look.channel.state is not CircuitState.CLOSED
    is_explained = is_stopped or bool(look.refused_sellers)
    yield from _some(AttentionKind.STUCK_EVENTS, _undelivered(look) if _is_stuck(look) and not is_explained else 0)


def _paused_runs(look: ServiceState) -> Iterator[Finding]:
    yield from _some(AttentionKind.PAUSED_RUNS, look.needs.paused_runs)


def _cases(look: ServiceState) -> Iterator[Finding]:
    """A case that pauses its run is the run's."""
    yield from _some(AttentionKind.QUARANTINE_CASES, look.needs.open_cases)


def _starts(look: ServiceState) -> Iterator[Finding]:
    yield from _by_cause(AttentionKind.FAILING_STARTS, _failing_starts(look))


def _failing_starts(look: ServiceState) -> dict[SellerId, Failure]:
    """Starts that are tried again, and those that were given up since the seller's last complete run."""
    given_up = {run.seller_id: run.failure for run in _failed_since(look) if run.started_at is None and run.failure}
    waiting = causes_of_waiting(look.tx, look.pending_runs, look.now)
    return given_up | {
        run.seller_id: waiting[run.execution_id] for run in look.pending_runs if run.execution_id in waiting
    }


def _failed_since(look: ServiceState) -> Iterator[Execution]:
    """The newest failed run of each active seller, where no run has completed or begun since."""
    pending = {run.execution_id for run in look.pending_runs}
    known = {each.seller_id: each.timing for each in look.freshness.values()}
    seen: set[SellerId] = set()
    for run in look.failed_runs:
        timing = known.get(run.seller_id)
        if run.seller_id in seen or timing is None or look.freshness[run.seller_id].state is FreshnessState.OFF:
            continue
        seen.add(run.seller_id)
        last = None if timing.last_run is None else timing.last_run.started_at
        is_at_work = timing.open_run is not None and timing.open_run not in pending
        if not is_at_work and (last is None or run.created_at > last):
            yield run


def _runs(look: ServiceState) -> Iterator[Finding]:
    yield from _by_cause(AttentionKind.FAILED_RUNS, _failing_runs(look))


def _failing_runs(look: ServiceState) -> dict[SellerId, Failure]:
    """Last runs with more than 5 % failed tasks, or that failed as a whole."""
    causes: dict[SellerId, Failure] = {}
    for each in look.freshness.values():
        run = each.timing.last_run
        if run is None or each.state is FreshnessState.OFF or run.failed_tasks <= FAILED_SHARE * run.total_tasks:
            continue
        for failure, _ in look.tx.run_tasks.failures(run.execution_id, 1):
            causes[each.seller_id] = failure
    failed = {run.seller_id: run.failure for run in _failed_since(look) if run.started_at is not None}
    person = {seller_id for seller_id, failure in failed.items() if failure and failure.blame is Blame.PERSON}
    return causes | {s: failure for s, failure in failed.items() if failure is not None and s not in person}


def _late(look: ServiceState) -> Iterator[Finding]:
    """Late sellers whose runs start and end well: the others are named with those."""
    late = {each.seller_id for each in look.freshness.values() if each.state is FreshnessState.LATE}
    late -= _failing_starts(look).keys() | _failing_runs(look).keys() if late else set()
    yield from _by_cause(AttentionKind.LATE_SELLERS, {s: cause for s, cause in look.causes.items() if s in late})


def _budget(look: ServiceState) -> Iterator[Finding]:
    yield from _some(AttentionKind.BUDGET_TOO_SMALL, int(look.requests_per_day > look.requests_allowed))


def _blocked(look: ServiceState) -> Iterator[Finding]:
    blocked = sum(each.agent.status is AgentStatus.BLOCKED for each in look.agents)
    yield from _some(AttentionKind.BLOCKED_AGENTS, blocked)


def _backup(look: ServiceState) -> Iterator[Finding]:
    """Counted in days. A database that was never backed up by us may be by others: nothing is known of it."""
    made_at = None if look.last_backup is None else look.last_backup.made_at
    if made_at is not None and look.now - made_at > look.check_context.backup_max_age:
        yield Finding(AttentionKind.OLD_BACKUP, (look.now - made_at) // DAY)


def _disk_details(look: ServiceState) -> Mapping[str, object]:
    return {"freeBytes": look.check_context.disk_left, "neededBytes": LEAST_DISK}


def _worker_details(look: ServiceState) -> Mapping[str, object]:
    return {
        "workers": look.health.workers,
        "lastBeatAt": look.health.beat_at,
        "silentAfterSeconds": look.check_context.silent_after.total_seconds(),
    }


def _outbox_details(look: ServiceState) -> Mapping[str, object]:
    due = look.health.oldest_due
    lag = 0.0 if due is None else max(0.0, (look.now - due).total_seconds())
    return {"lagSeconds": round(lag, 1), "receiver": look.check_context.has_receiver}


def _marketplace_details(look: ServiceState) -> Mapping[str, object]:
    found = look.marketplace
    return {
        "state": "PAUSED" if found.is_paused else "OPEN" if found.away else "CLOSED",
        "circuits": {each.endpoint.value: each.state.value for each in found.endpoints},
        "pausedBy": None if found.pause is None else found.pause.paused_by,
        "pausedSellers": len(found.seller_pauses),
    }


#: In the order in which they explain one another: what others follow from comes first.
CHECKS: Sequence[Check] = (
    Check("free space on the disk of the database", _disk, part="disk", details=_disk_details),
    Check(
        "processes that crawl",
        _workers,
        explains=frozenset({FailureCode.RUN_TAKES_LONG}),
        part="worker",
        is_down=lambda look: not look.has_worker,
        details=_worker_details,
    ),
    Check(
        "processes that start runs",
        _schedulers,
        explains=frozenset({FailureCode.START_OVERDUE}),
        part="scheduler",
        is_down=lambda look: not look.has_scheduler,
        details=lambda look: {"schedulers": look.health.schedulers},
    ),
    Check(
        "pauses of requests to the marketplace",
        _pauses,
        explains=frozenset({FailureCode.MARKETPLACE_PAUSED}),
    ),
    Check(
        "the circuits of the marketplace's endpoints",
        _endpoints,
        explains=frozenset({FailureCode.CIRCUIT_OPEN}),
        blames=frozenset({Blame.MARKETPLACE}),
        part="marketplace",
        is_down=lambda look: look.marketplace.is_paused or bool(look.marketplace.away),
        details=_marketplace_details,
    ),
    Check(
        "the breaker of the pool",
        _pool,
        explains=frozenset(
            {
                FailureCode.POOL_BREAKER_OPEN,
                FailureCode.NO_FREE_AGENT,
                FailureCode.AGENT_CIRCUITS_OPEN,
                FailureCode.RUN_TAKES_LONG,
            }
        ),
        blames=frozenset({Blame.AGENT}),
        part="breaker",
        is_down=lambda look: look.health.breaker == CircuitState.OPEN,
        details=lambda look: {"state": look.health.breaker},
    ),
    Check(
        "the receiver's circuit",
        _receiver,
        explains=frozenset({FailureCode.RECEIVER_AWAY, FailureCode.SELLER_REFUSED}),
    ),
    Check(
        "the circuits of sellers at the receiver", _refused_sellers, explains=frozenset({FailureCode.SELLER_REFUSED})
    ),
    Check(
        "the pause of the outbox",
        lambda look: _some(AttentionKind.OUTBOX_PAUSED, int(look.channel.is_paused)),
        explains=frozenset({FailureCode.OUTBOX_PAUSED}),
    ),
    Check("whether there is a receiver", _no_receiver, explains=frozenset({FailureCode.EVENTS_WAIT})),
    Check(
        "events that failed for good",
        lambda look: _some(AttentionKind.FAILED_EVENTS, look.needs.failed_events),
        explains=frozenset({FailureCode.EVENTS_WAIT}),
    ),
    Check(
        "events that are not sent",
        _stuck_events,
        explains=frozenset({FailureCode.EVENTS_WAIT}),
        part="outbox",
        is_down=_is_stuck,
        details=_outbox_details,
    ),
    Check("schedules", lambda look: _some(AttentionKind.FAILED_SCHEDULES, look.needs.failed_schedules)),
    Check(
        "runs paused by unreadable answers",
        _paused_runs,
        explains=frozenset({FailureCode.RUN_PAUSED, FailureCode.UNREADABLE, FailureCode.PARTS_HELD}),
    ),
    Check(
        "quarantine",
        _cases,
        explains=frozenset({FailureCode.UNREADABLE, FailureCode.PARTS_HELD}),
    ),
    Check(
        "removals that are held",
        lambda look: _some(AttentionKind.HELD_REMOVALS, look.needs.held_removals),
        explains=frozenset({FailureCode.REMOVAL_HELD}),
    ),
    Check("starts of runs", _starts),
    Check("the last run of each seller", _runs),
    Check(
        "the queue's dead letters",
        lambda look: _some(AttentionKind.DEAD_LETTERS, look.check_context.dead_letters or 0),
        explains=frozenset({FailureCode.WORKER_LOST}),
    ),
    Check("tasks whose workers vanished", lambda look: _some(AttentionKind.LOST_WORKERS, look.needs.lost_tasks)),
    Check(
        "the pool's budget",
        _budget,
        explains=frozenset({FailureCode.RUN_TAKES_LONG, FailureCode.RUN_SKIPPED, FailureCode.BUDGET_USED_UP}),
    ),
    Check("how fresh sellers are", _late),
    Check("blocked agents", _blocked),
    Check("how old the last backup is", _backup),
    Check.of_deployment("servers that are reached in plain text", deploy_checks.plaintext),
    Check.of_deployment("secrets that can be guessed", deploy_checks.weak_secrets),
    Check.of_deployment("the proxy in front", deploy_checks.front),
    Check.of_deployment("files that others can read", deploy_checks.exposed_files),
    Check.of_deployment("signatures of events", deploy_checks.unsigned),
)
