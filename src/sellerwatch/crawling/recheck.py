"""Re-checks of a run that is paused because answers could not be read.

Unreadable answers are often an accident of the marketplace that passes: a deployment, a missing module. So a few of
the run's unread tasks are reopened, due one period later, and may be claimed although the run is paused. Each is an
ordinary task: its request has a permit, and its due time is in its row, so a restart loses nothing.

- Still unreadable: the run stays paused, and the next tasks are reopened, due one period later.
- Readable: the case is resolved, its unread tasks are reopened, and the run goes on unless another kind of problem
  keeps it paused.

A run without a failed task left to read again (paused by an older version) stays paused until a person decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import structs

from sellerwatch.catalog.quarantine import CaseKind
from sellerwatch.catalog.quarantine_check import UnreadableAnswer
from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules, RunState
from sellerwatch.crawling.ports import CrawlTx, NoteKind
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.ids import ExecutionId, TaskId
from sellerwatch.kernel.notices import Notice
from sellerwatch.oversight.audit import AuditEntry, record_audit

#: Tasks of a run that one re-check reads again.
AT_ONCE = 3

BY_ITSELF = "scheduler"


def settle_rechecks(batch: AbsorbBatch, run: RunState) -> None:
    """Act on what re-checks have found, and see that a run that is still paused has a next one."""
    if run.is_over:
        return
    for problem in run.readable:
        _resolve(batch, run, problem)
    if run.readable and not _keep_paused(batch, run):
        _go_on(batch, run)
    if run.is_paused and not run.rechecks:
        _plan(batch, run)


def note_unreadable(batch: AbsorbBatch, run: RunState, task_id: TaskId, answer: UnreadableAnswer) -> None:
    """Hold an answer that the parser cannot read, and count it; many of one kind pause the run. An answer that a
    re-check finds as it was is not counted again."""
    run.end_recheck(task_id)
    if run.unread.get(task_id) != answer.kind_of_problem:
        run.tally.fail_to_read(answer.kind_of_problem)
        run.note_unread(task_id, answer.kind_of_problem)
    batch.quarantine_check.hold_unreadable(run, answer)
    number = run.tally.unreadable.get(answer.kind_of_problem, 0)
    if number >= batch.rules.drift.unreadable and not run.is_paused and not run.is_over:
        run.paused = (answer.problem.stored, number)
        every = f"{batch.rules.recheck_every.total_seconds():g}"
        facts = {"seller": run.seller_id, "answers": number, "problem": answer.problem, "every": every}
        batch.notices.append(Notice("run.paused", run.execution_id, facts))


def plan_missing(tx: CrawlTx, rules: CrawlRules, ids: Iterator[str], now: datetime) -> int:
    """Plan a re-check of every paused run that has none; return how many runs that were.

    Absorbing plans the next one, so there are few: a run that an operator reopened while it was paused, or one whose
    last re-check ended without being absorbed.
    """
    runs = tx.run_notes.paused_without_recheck()
    if not runs:
        return 0
    tx.executions.hold(runs)
    batch = AbsorbBatch.begin(tx, rules, ids, now, runs, ())
    for run in batch.runs.values():
        settle_rechecks(batch, run)
    batch.write()
    return sum(1 for run in batch.runs.values() if run.rechecks)


def stop_rechecks(tx: CrawlTx, execution_id: ExecutionId, now: datetime) -> None:
    """End the re-checks of a run after an operator has decided: their tasks are ordinary tasks and no longer wait."""
    waiting = [TaskId(name) for name in tx.run_notes.of(execution_id)[NoteKind.RECHECK]]
    open_tasks = [task for task in tx.tasks.get_many(waiting).values() if task.may_start] if waiting else []
    # Due by every process's clock, not only by that of the command's host.
    tx.tasks.save([structs.replace(task, available_at=task.created_at) for task in tx.tasks.hold(open_tasks)], now)
    tx.run_notes.clear(execution_id, NoteKind.RECHECK)
    tx.run_notes.clear(execution_id, NoteKind.UNREAD_TASK)


def recheck_at(tx: CrawlTx, notes: Mapping[NoteKind, Mapping[str, int]]) -> datetime | None:
    """Return when the next unread answers of a paused run are read again; None if it is not paused, or not planned."""
    task_ids = [TaskId(name) for name in notes[NoteKind.RECHECK]]
    if not task_ids or not notes[NoteKind.PAUSED]:
        return None
    return min((task.available_at for task in tx.tasks.get_many(task_ids).values() if task.is_open), default=None)


def _resolve(batch: AbsorbBatch, run: RunState, problem: str) -> None:
    """Close the case of a kind of problem that is over, and reopen the tasks that failed because of it."""
    _reopen_unread(batch, run, [task_id for task_id, unread in run.unread.items() if unread == problem])
    run.forget_problem(problem)
    for case in [c for c in run.cases if c.kind is CaseKind.UNREADABLE and c.field == problem]:
        resolved = case.decide("resolve", BY_ITSELF, batch.now)
        batch.tx.quarantine.save(resolved)
        batch.tx.held_parts.free_case(case.case_id)
        run.cases.remove(case)
        shown = {"status": case.status}, {"status": resolved.status, "field": case.field}
        record_audit(batch.tx, AuditEntry(batch.now, BY_ITSELF, "quarantine.resolve", "case", case.case_id, *shown))


def _keep_paused(batch: AbsorbBatch, run: RunState) -> bool:
    return any(number >= batch.rules.drift.unreadable for number in Counter(run.unread.values()).values())


def _go_on(batch: AbsorbBatch, run: RunState) -> None:
    """Let the run go on, and reopen all tasks whose answer could not be read."""
    _reopen_unread(batch, run, list(run.unread))
    for problem in list(run.tally.unreadable):
        run.forget_problem(problem)
    if run.is_paused:
        batch.tx.run_notes.clear(run.execution.execution_id, NoteKind.PAUSED)
        run.go_on()
        facts = {"seller": run.execution.seller_id}
        batch.notices.append(Notice("run.resumed", run.execution.execution_id, facts))


def _plan(batch: AbsorbBatch, run: RunState) -> None:
    """Reopen the tasks that failed longest ago, so that every unread task is tried in time."""
    numbers, most = Counter(run.unread.values()), batch.rules.drift.unreadable
    pausing = [task_id for task_id, problem in run.unread.items() if numbers[problem] >= most] or list(run.unread)
    found = [task for task in _tasks(batch, pausing) if task.status is TaskStatus.FAILED or task.may_start]
    chosen = sorted(found, key=lambda task: (task.completed_at or batch.now, task.task_id))[:AT_ONCE]
    due = batch.now + batch.rules.recheck_every
    _reopen(batch, run, chosen, due)
    batch.tx.tasks.save([structs.replace(task, available_at=due) for task in chosen if task.is_open], batch.now)
    for task in chosen:
        run.note_recheck(task.task_id)


def _reopen_unread(batch: AbsorbBatch, run: RunState, task_ids: Sequence[TaskId]) -> None:
    _reopen(batch, run, _tasks(batch, task_ids), batch.now)
    for task_id in task_ids:
        run.forget_unread(task_id)


def _reopen(batch: AbsorbBatch, run: RunState, tasks: Iterable[Task], due: datetime) -> None:
    """Reopen those that failed. What failed in this batch has not been counted yet, so it is just not counted."""
    failed = [task for task in tasks if task.status is TaskStatus.FAILED]
    batch.tx.tasks.save([task.reopen(due) for task in failed], batch.now)
    uncounted = min(len(failed), run.failed)
    run.failed -= uncounted
    if len(failed) > uncounted:
        run.execution = run.execution.reopen_tasks(len(failed) - uncounted)
    for task in failed:
        # Its product's event waits for it again.
        ended = run.ended_items.get(task.item_no, 0) if task.item_no is not None else 0
        if task.item_no is not None and ended:
            run.ended_items[task.item_no] = ended - 1


def _tasks(batch: AbsorbBatch, task_ids: Sequence[TaskId]) -> Sequence[Task]:
    found = batch.tx.tasks.get_many(task_ids) if task_ids else {}
    return batch.tx.tasks.hold([found[task_id] for task_id in task_ids if task_id in found])
