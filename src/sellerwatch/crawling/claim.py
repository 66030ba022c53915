"""Claim tasks, each with a permit and an agent, in one transaction. Nothing is sent before it commits.

With the embedded queue any task that is ready may be claimed. Where messages name tasks, only those are: the row
decides, a message is a hint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from msgspec import Struct

from sellerwatch.agents.lending import NOTHING, LendingRules, Offer, lend_for, offer
from sellerwatch.agents.marketplace_circuit import Endpoint, next_probe
from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.ports import Permit, Reservation
from sellerwatch.catalog.ports import PartKey
from sellerwatch.catalog.product import PartType
from sellerwatch.crawling.endpoint_capacity import EndpointCapacity
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import Task, TaskStatus, TaskType
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import ExecutionId, TaskId, WorkerId
from sellerwatch.kernel.notices import Notice

#: Tasks looked at to find one whose product did not fail before, for a probe of an endpoint that is away.
PROBES_LOOKED_AT = 10


class Claim(Struct, frozen=True):
    """A task that a worker holds until its result is written or the worker's heartbeat lapses."""

    task: Task
    permit: Permit
    is_pool_probe: bool = False
    #: Hash of the body from which its part was last read; an equal body is not read again.
    known_hash: str | None = None
    is_endpoint_probe: bool = False

    @property
    def candidate(self) -> Candidate:
        return self.permit.grant.candidate

    @property
    def is_page(self) -> bool:
        return self.task.task_type is TaskType.MINISHOP


@dataclass(frozen=True, slots=True)
class Claims:
    """What a claim took. With nothing taken, `not_before` is when to claim again; None: not known.

    `tokenless` are agents that could work if they had a token. `lacks_agents`: ready tasks were left because no agent
    was free. `stale` tasks were named and are not to be done now: ended, held by another worker, or put back.
    """

    taken: tuple[Claim, ...]
    not_before: datetime | None
    tokenless: tuple[Candidate, ...]
    lacks_agents: bool
    notices: tuple[Notice, ...] = ()
    stale: tuple[TaskId, ...] = ()


def survey(
    tx: CrawlTx, wanted: int, rotation: int, at: Moment, named: Sequence[TaskId] | None
) -> tuple[Sequence[Candidate], int]:
    """Return what a limiter that decides before the transaction needs: agents that could be lent, and the number of
    tasks that could be claimed."""
    runs, capacity, rechecks = _rotate(_runs(tx), rotation), EndpointCapacity.read(tx, at.now), _rechecks(tx)
    if named is None:
        waiting = tx.tasks.get_many(rechecks).values() if rechecks else ()
        ready = [task for task in waiting if _is_due(task, at.now) and capacity.admits(task)][:wanted]
        ready += _ready(tx, runs, wanted - len(ready), at.now, capacity)
    else:
        ready = _named(tx.tasks.get_many(named), named, runs, rechecks, at.now, capacity)[0][:wanted]
    return (tx.agents.candidates(at), len(ready)) if ready else ((), 0)


def claim(
    tx: CrawlTx,
    worker_id: WorkerId,
    wanted: int,
    rotation: int,
    at: Moment,
    terms: LendingRules,
    ahead: Reservation = NOTHING,
    named: Sequence[TaskId] | None = None,
) -> Claims:
    """Claim up to `wanted` tasks, fairly from all runs, as many as there are permits for. Of a paused run only
    re-checks.

    No task of an endpoint whose circuit is open is claimed and no permit spent, except one as a probe. The pool's
    breaker is asked next, then the limiter: without a free permit no task is touched. `rotation` says
    which run comes first, so that a large one never starves the others. With `named`, only those are taken.
    """
    runs, capacity, rechecks = _rotate(_runs(tx), rotation), EndpointCapacity.read(tx, at.now), _rechecks(tx)
    if named is None:
        waiting = tx.tasks.take_many(rechecks).values() if rechecks else ()
        to_recheck = [task for task in waiting if task.may_start]
        return _claim(tx, worker_id, wanted, at, terms, ahead, runs, capacity, None, to_recheck)
    # Locked, so that one of two workers with the same message claims the task; a task locked by another one waits.
    found = tx.tasks.take_many(named)
    ready, refused = _named(found, named, runs, rechecks, at.now, capacity)
    busy = tx.tasks.get_many([task_id for task_id in named if task_id not in found])
    # Published, but not to be done now (a paused run, an outage): it is published again when it may be done.
    early = [task for task in refused if task.status is TaskStatus.PUBLISHED]
    tx.tasks.save([task.put_back(max(task.available_at, at.now, capacity.admits_at(task))) for task in early], at.now)
    claims = _claim(tx, worker_id, wanted, at, terms, ahead, runs, capacity, ready)
    known = {*busy, *(task.task_id for task in ready)}
    return replace(claims, stale=tuple(task_id for task_id in named if task_id not in known))


def _claim(
    tx: CrawlTx,
    worker_id: WorkerId,
    wanted: int,
    at: Moment,
    terms: LendingRules,
    ahead: Reservation,
    runs: Sequence[ExecutionId],
    capacity: EndpointCapacity,
    named: Sequence[Task] | None,
    rechecks: Sequence[Task] = (),
) -> Claims:
    now = at.now
    rechecks = [task for task in rechecks if capacity.admits(task)]
    due = [task for task in rechecks if task.available_at <= now]
    if not (runs or due or named):
        return Claims((), min((task.available_at for task in rechecks), default=None), (), lacks_agents=False)
    if capacity.is_none:
        return Claims((), capacity.next_probe, (), lacks_agents=False)
    offered = offer(tx, wanted, terms.for_tasks, at, ahead)
    if offered.is_shut:
        return Claims((), offered.not_before, (), lacks_agents=True, notices=offered.notices)
    room = len(offered.grants) or 1
    if named is None:
        tasks: Sequence[Task] = due[:room] + _ready(tx, runs, room - len(due[:room]), now, capacity)
    else:
        tasks = named[:room]
    tasks, probed = (
        _start_probes(tx, tasks, capacity, worker_id, terms, now) if offered.grants else (tasks, frozenset())
    )
    if not tasks:
        not_before = _next_ready(tx, runs, capacity, rechecks) if named is None else None
        return Claims((), not_before, (), lacks_agents=False, notices=offered.notices)
    if not offered.grants:
        tokenless, not_before = _agents_to_give_tokens(capacity, offered)
        return Claims((), not_before, tokenless, lacks_agents=True, notices=offered.notices)
    grants = offered.grants[: len(tasks)]
    started = [_started(task, worker_id, now, grant.candidate.row) for task, grant in zip(tasks, grants, strict=True)]
    permits, notices = lend_for(tx, offered, [task.task_id for task in started], worker_id, terms, at)
    tx.tasks.start(started, now)
    known = tx.bodies.body_hashes([task.item_no for task in started if task.item_no is not None])
    taken = tuple(
        Claim(task, permit, offered.gate.is_probe, _known(known, task), task.task_id in probed)
        for task, permit in zip(started, permits, strict=True)
    )
    tokenless, _ = _agents_to_give_tokens(capacity, offered)
    return Claims(taken, None, tokenless, len(offered.grants) < wanted, (*offered.notices, *notices))


def _agents_to_give_tokens(capacity: EndpointCapacity, offered: Offer) -> tuple[tuple[Candidate, ...], datetime | None]:
    """Return the agents that may be given a token now, and when to look again: while the token page does not answer,
    at its next probe."""
    tokens = capacity.circuits[Endpoint.TOKEN]
    if not offered.tokenless or tokens.room(capacity.now) != 0:
        return offered.tokenless, offered.not_before
    times = (offered.not_before, next_probe([tokens], capacity.now))
    return (), min((time for time in times if time is not None), default=None)


def _runs(tx: CrawlTx) -> list[ExecutionId]:
    """Return the runs whose tasks may be claimed: none while all requests are paused, none of a paused seller."""
    pauses = {pause.seller_id for pause in tx.marketplace.pauses()}
    if None in pauses:
        return []
    return [run.execution_id for run in tx.executions.at_work() if run.seller_id not in pauses]


def _rechecks(tx: CrawlTx) -> Sequence[TaskId]:
    """Return the tasks by which paused runs find out whether they can go on; none while all requests are paused."""
    return () if any(pause.seller_id is None for pause in tx.marketplace.pauses()) else tx.run_notes.rechecks()


def _start_probes(
    tx: CrawlTx,
    tasks: Sequence[Task],
    capacity: EndpointCapacity,
    worker_id: WorkerId,
    terms: LendingRules,
    now: datetime,
) -> tuple[Sequence[Task], frozenset[TaskId]]:
    """Keep one task of each endpoint whose circuit is not closed, as its probe; return the tasks kept and the probes.
    Where another process has sent a probe since the circuits were read, all tasks of the endpoint are left."""
    probing = {
        task.endpoint: task.task_id for task in reversed(tasks) if not capacity.circuits[task.endpoint].is_closed
    }
    lost = set()
    for endpoint in sorted(probing):
        circuit = tx.marketplace.hold(endpoint, now)
        if circuit.is_closed:
            continue
        if circuit.may_probe(now):
            tx.marketplace.save(circuit.probe(worker_id, terms.circuit, now), now)
        else:
            lost.add(endpoint)
    kept = [
        task for task in tasks if task.endpoint not in lost and probing.get(task.endpoint, task.task_id) == task.task_id
    ]
    return kept, frozenset(probing.values())


def put_off(tx: CrawlTx, task_ids: Sequence[TaskId], until: datetime, now: datetime) -> int:
    """Put back named tasks that cannot be done before `until` because no permit is free. Return how many."""
    found = tx.tasks.get_many(task_ids).values()
    waiting = tx.tasks.hold([task for task in found if task.status is TaskStatus.PUBLISHED])
    tx.tasks.save([task.put_back(until) for task in waiting], now)
    return len(waiting)


def _started(task: Task, worker_id: WorkerId, now: datetime, agent_row: int) -> Task:
    """Start a task. With the embedded queue this publishes it too: the row is the message."""
    start = task.publish_and_start if task.status is TaskStatus.WAITING else task.start
    return start(worker_id, now, agent_row)


def _known(known: dict[PartKey, str], task: Task) -> str | None:
    if task.item_no is None:
        return None
    part = PartType.DETAIL if task.task_type is TaskType.PRODUCT_DETAIL else PartType.OPTION
    return known.get((task.item_no, part))


def _rotate(runs: list[ExecutionId], rotation: int) -> list[ExecutionId]:
    first = rotation % len(runs) if runs else 0
    return runs[first:] + runs[:first]


def _named(
    found: Mapping[TaskId, Task],
    named: Sequence[TaskId],
    runs: Sequence[ExecutionId],
    rechecks: Sequence[TaskId],
    now: datetime,
    capacity: EndpointCapacity,
) -> tuple[list[Task], list[Task]]:
    """Divide named tasks into those to be done now, in their order, and the others. A message may come twice, late, or
    for a task that has ended: the row decides."""
    at_work, left = frozenset(runs), dict(capacity.by_type)
    ready: list[Task] = []
    refused: list[Task] = []
    for task_id in dict.fromkeys(named):
        task = found.get(task_id)
        if task is None:
            continue
        room = left[task.task_type]
        may_go = task.execution_id in at_work or task_id in rechecks
        is_due = may_go and _is_due(task, now) and room != 0 and capacity.admits(task)
        (ready if is_due else refused).append(task)
        if is_due and room is not None:
            left[task.task_type] = room - 1
    return ready, refused


def _is_due(task: Task, now: datetime) -> bool:
    return task.may_start and task.available_at <= now


def _next_ready(
    tx: CrawlTx, runs: Sequence[ExecutionId], capacity: EndpointCapacity, rechecks: Sequence[Task]
) -> datetime | None:
    """Return when the next task of an answering endpoint is due, or the next probe may be sent. A task that is due but
    was not taken as a probe failed before, so its time is no reason to look again."""
    times = [tx.task_claims.next_ready(run, capacity.answering) for run in runs]
    if capacity.probing:
        later = [tx.task_claims.next_ready(run, capacity.probing) for run in runs]
        times += [time for time in later if time is not None and time > capacity.now]
    times += [task.available_at for task in rechecks]
    return min((time for time in (*times, capacity.next_probe) if time is not None), default=None)


def _ready(
    tx: CrawlTx, runs: Sequence[ExecutionId], wanted: int, now: datetime, capacity: EndpointCapacity
) -> list[Task]:
    """Return tasks that may be started: first the few of endpoints that recover, then all others."""
    found: list[Task] = []
    for type_, limit in capacity.bounded:
        most = min(limit, wanted - len(found))
        if most and type_ in capacity.probing:
            looked_at = _shared_out(tx, runs, PROBES_LOOKED_AT, now, (type_,))
            found += [task for task in looked_at if capacity.admits(task)][:most]
        else:
            found += _shared_out(tx, runs, most, now, (type_,))
    if capacity.unbounded:
        types = None if len(capacity.unbounded) == len(capacity.by_type) else capacity.unbounded
        found += _shared_out(tx, runs, wanted - len(found), now, types)
    return found


def _shared_out(
    tx: CrawlTx, runs: Sequence[ExecutionId], wanted: int, now: datetime, types: Sequence[TaskType] | None
) -> list[Task]:
    """Return an equal share of each run, and what other runs leave of theirs from the runs that have more."""
    share = -(-wanted // len(runs)) if runs else 0
    found: list[Task] = []
    full = []
    for run in runs:
        if len(found) >= wanted:
            break
        got = tx.task_claims.ready(run, now, min(share, wanted - len(found)), types=types)
        found += got
        if len(got) == share:
            full.append(run)
    for run in full:
        if len(found) >= wanted:
            break
        known = {task.task_id for task in found}
        more = tx.task_claims.ready(run, now, share + wanted - len(found), types=types)
        found += [task for task in more if task.task_id not in known][: wanted - len(found)]
    return found
