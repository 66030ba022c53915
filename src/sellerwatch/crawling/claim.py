"""Taking work: tasks, each with a permit and an identity, in one transaction. No byte is sent before it commits.

With the embedded queue any task that is ready may be taken. Where tasks are named by messages, only those are: the row
still decides, a message is a hint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sellerwatch.agents.endpoints import Endpoint
from sellerwatch.agents.lending import NOTHING, LendingTerms, Offer, lend_for, offer
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuit, next_probe
from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.ports import Permit, Reservation
from sellerwatch.catalog.ports import PartKey
from sellerwatch.catalog.product import PartType
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import ENDPOINTS, Task, TaskStatus, TaskType
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.fast_values import fast_frozen
from sellerwatch.kernel.ids import ExecutionId, TaskId, WorkerId
from sellerwatch.kernel.notices import Notice

#: Tasks looked at to find one whose product did not fail before, for a probe of an endpoint that is away.
PROBES_LOOKED_AT = 10


@fast_frozen
@dataclass(frozen=True, slots=True)
class Claim:
    """A task that is ours until its outcome is written, or our heartbeat lapses."""

    task: Task
    permit: Permit
    is_pool_probe: bool = False
    #: Of the body its part was last read from; an equal one need not be read.
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
    """What was taken. With nothing taken, `not_before` is when it is worth asking again: no one can tell if None.

    `tokenless` are agents that could work if they had a token; `hungry`: tasks were left for want of an agent. `stale`
    were named and are not to be done now: over, in other hands, or put back until their time.
    """

    taken: tuple[Claim, ...]
    not_before: datetime | None
    tokenless: tuple[Candidate, ...]
    hungry: bool
    notices: tuple[Notice, ...] = ()
    stale: tuple[TaskId, ...] = ()


def survey(
    tx: CrawlTx, wanted: int, turn: int, at: Moment, named: Sequence[TaskId] | None
) -> tuple[Sequence[Candidate], int]:
    """What a limiter that decides ahead must know: who could be lent, and for how many tasks at most."""
    runs, rooms, rechecks = _in_turn(_runs(tx), turn), _rooms(tx, at.now), _rechecks(tx)
    if named is None:
        waiting = tx.tasks.get_many(rechecks).values() if rechecks else ()
        ready = [task for task in waiting if _is_due(task, at.now) and rooms.admits(task)][:wanted]
        ready += _ready(tx, runs, wanted - len(ready), at.now, rooms)
    else:
        ready = _named(tx.tasks.get_many(named), named, runs, rechecks, at.now, rooms)[0][:wanted]
    return (tx.agents.candidates(at), len(ready)) if ready else ((), 0)


def claim(
    tx: CrawlTx,
    worker_id: WorkerId,
    wanted: int,
    turn: int,
    at: Moment,
    terms: LendingTerms,
    ahead: Reservation = NOTHING,
    named: Sequence[TaskId] | None = None,
) -> Claims:
    """Claim up to `wanted` tasks, fairly from all runs, as many as there are permits for. Of a paused run only
    re-checks.

    An endpoint whose circuit is open is left alone: no task of it is touched and no permit spent, but for the one that
    finds out. The pool's breaker is asked next, then permits: with none free no task is touched. `turn` rotates which
    run comes first, so that a large one never starves the others. With `named`, only those are taken.
    """
    runs, rooms, rechecks = _in_turn(_runs(tx), turn), _rooms(tx, at.now), _rechecks(tx)
    if named is None:
        waiting = tx.tasks.take_many(rechecks).values() if rechecks else ()
        to_recheck = [task for task in waiting if task.may_start]
        return _claim(tx, worker_id, wanted, at, terms, ahead, runs, rooms, None, to_recheck)
    # Locked, so that of two workers that received the same message one takes the task; a locked one is for later.
    found = tx.tasks.take_many(named)
    ready, refused = _named(found, named, runs, rechecks, at.now, rooms)
    busy = tx.tasks.get_many([task_id for task_id in named if task_id not in found])
    # Published, and its time is not now (a paused run, an outage): it waits, to be published when it may be done.
    early = [task for task in refused if task.status is TaskStatus.PUBLISHED]
    tx.tasks.save([task.put_back(max(task.available_at, at.now, rooms.reopens(task))) for task in early], at.now)
    claims = _claim(tx, worker_id, wanted, at, terms, ahead, runs, rooms, ready)
    known = {*busy, *(task.task_id for task in ready)}
    return replace(claims, stale=tuple(task_id for task_id in named if task_id not in known))


def _claim(
    tx: CrawlTx,
    worker_id: WorkerId,
    wanted: int,
    at: Moment,
    terms: LendingTerms,
    ahead: Reservation,
    runs: Sequence[ExecutionId],
    rooms: Rooms,
    named: Sequence[Task] | None,
    rechecks: Sequence[Task] = (),
) -> Claims:
    now = at.now
    rechecks = [task for task in rechecks if rooms.admits(task)]
    due = [task for task in rechecks if task.available_at <= now]
    if not (runs or due or named):
        return Claims((), min((task.available_at for task in rechecks), default=None), (), hungry=False)
    if rooms.is_shut:
        return Claims((), rooms.next_probe, (), hungry=False)
    offered = offer(tx, wanted, terms.for_tasks, at, ahead)
    if offered.is_shut:
        return Claims((), offered.not_before, (), hungry=True, notices=offered.notices)
    room = len(offered.grants) or 1
    if named is None:
        tasks: Sequence[Task] = due[:room] + _ready(tx, runs, room - len(due[:room]), now, rooms)
    else:
        tasks = named[:room]
    tasks, probed = _start_probes(tx, tasks, rooms, worker_id, terms, now) if offered.grants else (tasks, frozenset())
    if not tasks:
        not_before = _next_ready(tx, runs, rooms, rechecks) if named is None else None
        return Claims((), not_before, (), hungry=False, notices=offered.notices)
    if not offered.grants:
        tokenless, not_before = _with_tokens_to_be_had(rooms, offered)
        return Claims((), not_before, tokenless, hungry=True, notices=offered.notices)
    grants = offered.grants[: len(tasks)]
    started = [_started(task, worker_id, now, grant.candidate.row) for task, grant in zip(tasks, grants, strict=True)]
    permits, notices = lend_for(tx, offered, [task.task_id for task in started], worker_id, terms, at)
    tx.tasks.start(started, now)
    known = tx.bodies.body_hashes([task.item_no for task in started if task.item_no is not None])
    taken = tuple(
        Claim(task, permit, offered.gate.is_probe, _known(known, task), task.task_id in probed)
        for task, permit in zip(started, permits, strict=True)
    )
    tokenless, _ = _with_tokens_to_be_had(rooms, offered)
    return Claims(taken, None, tokenless, len(offered.grants) < wanted, (*offered.notices, *notices))


def _with_tokens_to_be_had(rooms: Rooms, offered: Offer) -> tuple[tuple[Candidate, ...], datetime | None]:
    """Agents that may be given a token now, and when to look again: while the token page is away, at its next probe."""
    tokens = rooms.circuits[Endpoint.TOKEN]
    if not offered.tokenless or tokens.room(rooms.now) != 0:
        return offered.tokenless, offered.not_before
    times = (offered.not_before, next_probe([tokens], rooms.now))
    return (), min((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class Rooms:
    """How many tasks of each type may be claimed now, by the circuits of their endpoints; None: any number."""

    circuits: Mapping[Endpoint, MarketplaceCircuit]
    by_type: Mapping[TaskType, int | None]
    now: datetime

    @property
    def free(self) -> tuple[TaskType, ...]:
        return tuple(type_ for type_, room in self.by_type.items() if room is None)

    @property
    def bounded(self) -> tuple[tuple[TaskType, int], ...]:
        return tuple((type_, room) for type_, room in self.by_type.items() if room)

    @property
    def answering(self) -> tuple[TaskType, ...] | None:
        """Types whose endpoint answers; None: all of them."""
        types = tuple(type_ for type_ in self.by_type if self.circuits[ENDPOINTS[type_]].is_closed)
        return None if len(types) == len(self.by_type) else types

    @property
    def probing(self) -> tuple[TaskType, ...]:
        """Types of which one task may find out whether their endpoint is back."""
        answering = self.answering
        return () if answering is None else tuple(t for t, room in self.by_type.items() if room and t not in answering)

    @property
    def is_shut(self) -> bool:
        return not any(room != 0 for room in self.by_type.values())

    @property
    def next_probe(self) -> datetime | None:
        """When the next circuit lets a probe through: later than now, as what it lets through now is not there."""
        return next_probe((self.circuits[ENDPOINTS[type_]] for type_ in self.by_type), self.now)

    def admits(self, task: Task) -> bool:
        """Whether the task may be claimed now, were it the only one."""
        circuit = self.circuits[task.endpoint]
        return self.by_type[task.task_type] != 0 and (circuit.is_closed or circuit.may_probe(self.now, task.subject))

    def reopens(self, task: Task) -> datetime:
        """When the task may be asked for again."""
        return self.now if self.admits(task) else next_probe([self.circuits[task.endpoint]], self.now) or self.now


def _rooms(tx: CrawlTx, now: datetime) -> Rooms:
    circuits = tx.marketplace.circuits()
    return Rooms(circuits, {type_: circuits[ENDPOINTS[type_]].room(now) for type_ in TaskType}, now)


def _runs(tx: CrawlTx) -> list[ExecutionId]:
    """Runs that may be worked on: none while all requests are paused, none of a paused seller."""
    pauses = {pause.seller_id for pause in tx.marketplace.pauses()}
    if None in pauses:
        return []
    return [run.execution_id for run in tx.executions.at_work() if run.seller_id not in pauses]


def _rechecks(tx: CrawlTx) -> Sequence[TaskId]:
    """Tasks by which paused runs find out whether they can go on; none while all requests are paused."""
    return () if any(pause.seller_id is None for pause in tx.marketplace.pauses()) else tx.run_notes.rechecks()


def _start_probes(
    tx: CrawlTx, tasks: Sequence[Task], rooms: Rooms, worker_id: WorkerId, terms: LendingTerms, now: datetime
) -> tuple[Sequence[Task], frozenset[TaskId]]:
    """Of an endpoint whose circuit is not closed one task finds out; its circuit waits for the answer. Another process
    may have sent a probe since the circuits were read: then those tasks are left."""
    probing = {task.endpoint: task.task_id for task in reversed(tasks) if not rooms.circuits[task.endpoint].is_closed}
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
    """Tasks that were named and cannot be done for a while (no budget): they wait until then, at no cost to them."""
    found = tx.tasks.get_many(task_ids).values()
    waiting = tx.tasks.hold([task for task in found if task.status is TaskStatus.PUBLISHED])
    tx.tasks.save([task.put_back(until) for task in waiting], now)
    return len(waiting)


def _started(task: Task, worker_id: WorkerId, now: datetime, agent_row: int) -> Task:
    """In the embedded queue publishing and starting are one step: the row itself is the message."""
    start = task.publish_and_start if task.status is TaskStatus.WAITING else task.start
    return start(worker_id, now, agent_row)


def _known(known: dict[PartKey, str], task: Task) -> str | None:
    if task.item_no is None:
        return None
    part = PartType.DETAIL if task.task_type is TaskType.PRODUCT_DETAIL else PartType.OPTION
    return known.get((task.item_no, part))


def _in_turn(runs: list[ExecutionId], turn: int) -> list[ExecutionId]:
    first = turn % len(runs) if runs else 0
    return runs[first:] + runs[:first]


def _named(
    found: Mapping[TaskId, Task],
    named: Sequence[TaskId],
    runs: Sequence[ExecutionId],
    rechecks: Sequence[TaskId],
    now: datetime,
    rooms: Rooms,
) -> tuple[list[Task], list[Task]]:
    """Those of these that are to be done now, in the order they were named, and those that are not. A message may come
    twice, late, or for a task that has long been done: its row knows."""
    at_work, left = frozenset(runs), dict(rooms.by_type)
    ready: list[Task] = []
    refused: list[Task] = []
    for task_id in dict.fromkeys(named):
        task = found.get(task_id)
        if task is None:
            continue
        room = left[task.task_type]
        may_go = task.execution_id in at_work or task_id in rechecks
        is_due = may_go and _is_due(task, now) and room != 0 and rooms.admits(task)
        (ready if is_due else refused).append(task)
        if is_due and room is not None:
            left[task.task_type] = room - 1
    return ready, refused


def _is_due(task: Task, now: datetime) -> bool:
    return task.may_start and task.available_at <= now


def _next_ready(tx: CrawlTx, runs: Sequence[ExecutionId], rooms: Rooms, rechecks: Sequence[Task]) -> datetime | None:
    """When a task of an endpoint that is asked comes due, or an endpoint may be asked again. A task that is due for a
    probe and was not taken failed before: its time has passed and is none to wake up at."""
    times = [tx.task_claims.next_ready(run, rooms.answering) for run in runs]
    if rooms.probing:
        later = [tx.task_claims.next_ready(run, rooms.probing) for run in runs]
        times += [time for time in later if time is not None and time > rooms.now]
    times += [task.available_at for task in rechecks]
    return min((time for time in (*times, rooms.next_probe) if time is not None), default=None)


def _ready(tx: CrawlTx, runs: Sequence[ExecutionId], wanted: int, now: datetime, rooms: Rooms) -> list[Task]:
    """Tasks that may be started: first the few of endpoints that are just being tried again, then all others."""
    found: list[Task] = []
    for type_, room in rooms.bounded:
        most = min(room, wanted - len(found))
        if most and type_ in rooms.probing:
            looked_at = _shared_out(tx, runs, PROBES_LOOKED_AT, now, (type_,))
            found += [task for task in looked_at if rooms.admits(task)][:most]
        else:
            found += _shared_out(tx, runs, most, now, (type_,))
    if rooms.free:
        types = None if len(rooms.free) == len(rooms.by_type) else rooms.free
        found += _shared_out(tx, runs, wanted - len(found), now, types)
    return found


def _shared_out(
    tx: CrawlTx, runs: Sequence[ExecutionId], wanted: int, now: datetime, types: Sequence[TaskType] | None
) -> list[Task]:
    """An equal share of each run that has work, then what is left of the shares from the runs that have more."""
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
