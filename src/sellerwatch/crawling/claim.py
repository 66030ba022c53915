"""Taking work: tasks, each with a permit and an identity, in one transaction. No byte is sent before it commits.

With the embedded queue any task that is ready may be taken. Where tasks are named by messages, only those are: the row
still decides, a message is a hint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.gate import Gate, ask_gate, start_probe
from sellerwatch.agents.limiter import EmbeddedLimiter
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.pool import Candidate, Grant, Lending
from sellerwatch.agents.ports import Limiter, Permit, Reservation
from sellerwatch.catalog.ports import PartKey
from sellerwatch.catalog.product import PartType
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import Task, TaskStatus, TaskType
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.copies import quick
from sellerwatch.kernel.ids import ExecutionId, TaskId, WorkerId
from sellerwatch.kernel.notices import Notice


@quick
@dataclass(frozen=True, slots=True)
class Claim:
    """A task that is ours until its outcome is written, or our heartbeat lapses."""

    task: Task
    permit: Permit
    is_pool_probe: bool = False
    #: Of the body its part was last read from; an equal one need not be read.
    known_hash: str | None = None

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


@dataclass(frozen=True, slots=True)
class Terms:
    """What a claim goes by: the limits of each agent, of the marketplace as a whole, of the pool, and who decides."""

    limits: Limits
    host: Host
    breaker: BreakerRules
    limiter: Limiter = field(default_factory=EmbeddedLimiter)


#: Nothing was set aside before the transaction.
NOTHING = Reservation()


def survey(
    tx: CrawlTx, wanted: int, turn: int, at: Moment, named: Sequence[TaskId] | None
) -> tuple[Sequence[Candidate], int]:
    """What a limiter that decides ahead must know: who could be lent, and for how many tasks at most."""
    runs = _in_turn([execution.execution_id for execution in tx.executions.at_work()], turn)
    rechecks = tx.run_notes.rechecks()
    if named is None:
        waiting = tx.tasks.get_many(rechecks).values() if rechecks else ()
        ready = [task for task in waiting if _is_due(task, at.now)][:wanted]
        ready += _ready(tx, runs, wanted - len(ready), at.now)
    else:
        ready = _named(tx.tasks.get_many(named), named, runs, rechecks, at.now)[0][:wanted]
    return (tx.agents.candidates(at), len(ready)) if ready else ((), 0)


def claim(
    tx: CrawlTx,
    worker_id: WorkerId,
    wanted: int,
    turn: int,
    at: Moment,
    terms: Terms,
    ahead: Reservation = NOTHING,
    named: Sequence[TaskId] | None = None,
) -> Claims:
    """Up to `wanted` tasks, fairly from all runs, as many as there are permits for. Of a paused run only re-checks.

    The pool's gate first, then permits: with none free no task is touched and none waits in anybody's hands. `turn`
    rotates which run comes first, so that a large one never starves the others. With `named`, only those are taken.
    """
    runs = _in_turn([execution.execution_id for execution in tx.executions.at_work()], turn)
    rechecks = tx.run_notes.rechecks()
    if named is None:
        waiting = tx.tasks.take_many(rechecks).values() if rechecks else ()
        return _claim(tx, worker_id, wanted, at, terms, ahead, runs, None, [t for t in waiting if t.may_start])
    # Held, so that of two who were told of the same task one takes it; what somebody else holds now is for later.
    found = tx.tasks.take_many(named)
    ready, refused = _named(found, named, runs, rechecks, at.now)
    busy = tx.tasks.get_many([task_id for task_id in named if task_id not in found])
    # Published, and its time is not now (a paused run): it waits again, to be published when it may be done.
    early = [task for task in refused if task.status is TaskStatus.PUBLISHED]
    tx.tasks.save([task.put_back(max(task.available_at, at.now)) for task in early], at.now)
    claims = _claim(tx, worker_id, wanted, at, terms, ahead, runs, ready)
    known = {*busy, *(task.task_id for task in ready)}
    return replace(claims, stale=tuple(task_id for task_id in named if task_id not in known))


def _claim(
    tx: CrawlTx,
    worker_id: WorkerId,
    wanted: int,
    at: Moment,
    terms: Terms,
    ahead: Reservation,
    runs: Sequence[ExecutionId],
    named: Sequence[Task] | None,
    rechecks: Sequence[Task] = (),
) -> Claims:
    now, limits = at.now, terms.limits
    due = [task for task in rechecks if task.available_at <= now]
    gate = ask_gate(tx, terms.breaker, now)
    if gate.most == 0:
        return Claims((), gate.not_before, (), hungry=True, notices=gate.notices)
    if not (runs or due or named):
        times = [task.available_at for task in rechecks]
        return Claims((), min(times, default=None), (), hungry=False, notices=gate.notices)
    # Before the candidates are read: the claim that frees a window may use it.
    tx.permits.expire(at, limits)
    candidates = tx.agents.candidates(at)
    tokenless = tuple(c for c in candidates if not c.has_token(now) and c.may_work(now))
    most = wanted if gate.most is None else min(wanted, gate.most)
    lending = terms.limiter.lend(tx, ahead, candidates, most, (limits, terms.host), at)
    room = len(lending.grants) or 1
    tasks = (due[:room] + _ready(tx, runs, room - len(due[:room]), now)) if named is None else named[:room]
    if named is not None and not tasks:
        return Claims((), None, (), hungry=False, notices=gate.notices)
    if not tasks:
        times = [time for time in (tx.tasks.next_ready(run) for run in runs) if time is not None]
        times += [task.available_at for task in rechecks]
        return Claims((), min(times, default=None), (), hungry=False, notices=gate.notices)
    if not lending.grants:
        return Claims((), _next_chance(tx, lending, at, terms), tokenless, hungry=True, notices=gate.notices)
    grants = lending.grants[: len(tasks)]
    started = [_started(task, worker_id, now, grant.candidate.row) for task, grant in zip(tasks, grants, strict=True)]
    permits = tx.permits.reserve(grants, [task.task_id for task in started], worker_id, at)
    tx.tasks.start(started, now)
    notices = gate.notices + _start_probes(tx, gate, grants, worker_id, terms.breaker, now)
    known = tx.products.body_hashes([task.item_no for task in started if task.item_no is not None])
    taken = tuple(
        Claim(task, permit, gate.is_probe, _known(known, task)) for task, permit in zip(started, permits, strict=True)
    )
    return Claims(taken, None, tokenless, len(lending.grants) < wanted, notices)


def put_off(tx: CrawlTx, task_ids: Sequence[TaskId], until: datetime, now: datetime) -> int:
    """Tasks that were named and cannot be done for a while (no budget): they wait until then, at no cost to them."""
    found = tx.tasks.get_many(task_ids).values()
    waiting = tx.tasks.hold([task for task in found if task.status is TaskStatus.PUBLISHED])
    tx.tasks.save([task.put_back(until) for task in waiting], now)
    return len(waiting)


def _start_probes(
    tx: CrawlTx, gate: Gate, grants: Sequence[Grant], worker_id: WorkerId, rules: BreakerRules, now: datetime
) -> tuple[Notice, ...]:
    """Circuits and the breaker that let one request through wait for its answer."""
    probing = {grant.candidate.row: grant.candidate.circuit for grant in grants if grant.is_probe}
    if probing:
        held = tx.circuits.get_rows(list(probing))
        probing = {row: circuit for row, circuit in held.items() if circuit.may_probe(now)}
        tx.circuits.save(probing, {row: circuit.half_open(now) for row, circuit in probing.items()}, now)
    return start_probe(tx, gate, worker_id, rules, now)


def _next_chance(tx: CrawlTx, lending: Lending, at: Moment, terms: Terms) -> datetime | None:
    """When the rate, a circuit or a window that empties may allow the next request."""
    free_us = None if terms.limiter.looks_ahead else tx.permits.next_free_us(terms.limits)
    waits = [wait for wait in (lending.wait_us, None if free_us is None else free_us - at.boot_us) if wait]
    return at.now + timedelta(microseconds=min(waits)) if waits else None


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
) -> tuple[list[Task], list[Task]]:
    """Those of these that are to be done now, in the order they were named, and those that are not. A message may come
    twice, late, or for a task that has long been done: its row knows."""
    at_work = frozenset(runs)
    ready: list[Task] = []
    refused: list[Task] = []
    for task_id in dict.fromkeys(named):
        task = found.get(task_id)
        if task is None:
            continue
        may_go = task.execution_id in at_work or task_id in rechecks
        (ready if may_go and _is_due(task, now) else refused).append(task)
    return ready, refused


def _is_due(task: Task, now: datetime) -> bool:
    return task.may_start and task.available_at <= now


def _ready(tx: CrawlTx, runs: Sequence[ExecutionId], wanted: int, now: datetime) -> list[Task]:
    """An equal share of each run that has work, then what is left of the shares from whoever has more."""
    share = -(-wanted // len(runs)) if runs else 0
    found: list[Task] = []
    full = []
    for run in runs:
        if len(found) >= wanted:
            break
        got = tx.tasks.ready(run, now, min(share, wanted - len(found)))
        found += got
        if len(got) == share:
            full.append(run)
    for run in full:
        if len(found) >= wanted:
            break
        known = {task.task_id for task in found}
        more = tx.tasks.ready(run, now, share + wanted - len(found))
        found += [task for task in more if task.task_id not in known][: wanted - len(found)]
    return found
