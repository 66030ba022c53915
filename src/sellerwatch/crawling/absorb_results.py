"""Absorb results: one transaction for a batch, in which everything they change is changed.

Task outcome, products, bodies, history, events, follow-up tasks, the run's counts, the agents' health, permits and the
usage log: all or nothing. It begins with the guard (still running, by this worker, at this attempt), so a second
delivery, a lost lease or a second run of the same transaction does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from msgspec import structs

from sellerwatch.agents.judgement import TaskEnd
from sellerwatch.agents.outages import observe
from sellerwatch.agents.record_outcomes import record_outcomes
from sellerwatch.catalog.absorb import EntryCache, EntryChanges, Part, absorb_entry, absorb_part
from sellerwatch.catalog.product import ForeignProduct, PartType
from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules, RunState
from sellerwatch.crawling.judged_result import JudgedResult
from sellerwatch.crawling.list_reconciliation import end_list, list_tasks
from sellerwatch.crawling.outage_effects import apply_outage
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.recheck import note_unreadable, settle_rechecks
from sellerwatch.crawling.save_execution import save_execution
from sellerwatch.crawling.task import Purpose, RequestUrl, Task, TaskNote, TaskType
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, ItemNo, ProductId, TaskId, WorkerId
from sellerwatch.kernel.notices import Notice

#: The limit of requests for one task in a run, whatever made them necessary.
MOST_REQUESTS = 6
#: The wait of a task while it is not known whether the task or the marketplace is at fault; it doubles each time.
UNPROVED_WAIT = timedelta(seconds=30)
LONGEST_UNPROVED_WAIT = timedelta(seconds=900)
#: What is asked about every product of a list page.
ITEM_TASKS = (TaskType.PRODUCT_DETAIL, TaskType.PRODUCT_OPTION)


@dataclass(frozen=True)
class Absorbed:
    """What a batch did, for progress displays and to nudge delivery."""

    completed: int
    failed: int
    again: int
    events: int
    products: int
    notices: tuple[Notice, ...] = ()
    #: For the cache of list entries, after the commit.
    entries: EntryChanges = field(default_factory=EntryChanges, compare=False)


def absorb(
    tx: CrawlTx,
    results: Sequence[JudgedResult],
    worker_id: WorkerId,
    rules: CrawlRules,
    ids: Iterator[str],
    at: Moment,
    entries: EntryCache | None = None,
) -> Absorbed:
    """Write a batch of results. A task that this worker no longer holds is skipped; its permit and its agent still
    count."""
    tx.executions.hold({result.claim.task.execution_id for result in results})
    held = tx.task_claims.attempts_held(worker_id, [result.claim.task.task_id for result in results])
    current = [each for each in results if held.get(each.claim.task.task_id) == each.claim.task.attempt]
    outcomes = {each.claim.permit.number: each.request_outcome for each in results}
    observations = [outcomes[each.claim.permit.number].observation for each in current]
    observed = observe(tx, observations, rules.marketplace_circuit, at.now)
    apply_outage(tx, observed, {each.claim.task.task_id for each in current}, at.now)
    runs = (result.claim.task.execution_id for result in current)
    batch = AbsorbBatch.begin(tx, rules, ids, at.now, runs, _items(current), entries)
    judged_before = {run: _judged_enough(batch, run) for run in batch.runs}
    batch.quarantine_check.check(list(_parts(batch, current)))
    for result in current:
        _end_task(batch, result, result.claim.task, is_excused=result.claim.permit.number in observed.excused)
    for result in current:
        if result.unknown:
            tx.drift.note(result.claim.task.task_type, result.unknown, result.claim.task.item_no, at.now)
    _finish(batch, judged_before)
    # Last, because this locks agents, which all processes need, until the commit.
    notices = record_outcomes(tx, [*outcomes.values()], observed, worker_id, rules.breaker, at)
    return Absorbed(
        completed=sum(run.completed for run in batch.runs.values()),
        failed=sum(run.failed for run in batch.runs.values()),
        again=batch.again,
        events=batch.events,
        products=batch.products,
        notices=(*observed.notices, *notices, *batch.notices),
        entries=batch.product_batch.entry_changes,
    )


def abandon(tx: CrawlTx, result: JudgedResult, worker_id: WorkerId, problem: Failure, at: Moment) -> None:
    """Fail the task of a result that cannot be absorbed, and answer its permit. Nothing else of it is written."""
    now = at.now
    execution = tx.executions.get(result.claim.task.execution_id)
    task = tx.tasks.get(result.claim.task.task_id)
    if task is not None and task.is_held_by(worker_id, result.claim.task.attempt):
        tx.tasks.save([task.fail(problem, now)], now)
        if execution is not None:
            save_execution(tx, execution, execution.record(now, failed=1))
    tx.permits.answer([result.claim.permit.number], at)


def over_of(tx: CrawlTx, runs: Iterable[ExecutionId]) -> frozenset[ExecutionId]:
    """Return which of these runs have ended: cancelled, or past their deadline. Results that were in flight are still
    absorbed for them, but no task is added or retried."""
    found = {run: tx.executions.get(run) for run in sorted(runs)}
    return frozenset(run for run, execution in found.items() if execution is None or not execution.is_open)


def end_failed(
    tx: CrawlTx, tasks: Sequence[Task], rules: CrawlRules, ids: Iterator[str], now: datetime
) -> tuple[Notice, ...]:
    """Count tasks that FAILED without an answer (cancelled, poison), and write the events that are due by that."""
    if not tasks:
        return ()
    items = (task.item_no for task in tasks if task.item_no is not None)
    batch = AbsorbBatch.begin(tx, rules, ids, now, (task.execution_id for task in tasks), items)
    for task in tasks:
        batch.tasks.append(task)
        if (run := batch.runs.get(task.execution_id)) is not None and not run.is_over:
            run.forget_unread(task.task_id)
        _note_end(batch, task, failed=1)
    _finish(batch, {run: _judged_enough(batch, run) for run in batch.runs})
    return tuple(batch.notices)


def _finish(batch: AbsorbBatch, judged_before: dict[ExecutionId, frozenset[PartType]]) -> None:
    """Write what the tasks' ends lead to, in the order in which one thing depends on another."""
    tx = batch.tx
    tx.tasks.save([task for task in batch.tasks if task.is_open], batch.now)
    tx.tasks.end([task for task in batch.tasks if not task.is_open], batch.now)
    tx.tasks.complete(batch.completed, batch.now)
    for execution_id, run in batch.runs.items():
        run.added += tx.tasks.add(run.follow_ups)
        if run.list_total is not None:
            run.execution = replace(run.execution, list_total=run.list_total)
        settle_rechecks(batch, run)
        if run.a_list_ended:
            end_list(batch, run)
        _remove_proved(batch, run)
        # Of a run that was ended from outside, what waits is left to the job that looks after those.
        settled = PartType if run.ends else _judged_enough(batch, execution_id) - judged_before[execution_id]
        run.note_taken_in(batch.quarantine_check.settle_pending(run, settled))
        if run.ends:
            batch.quarantine_check.close_overtaken(run)
        _announce_due(batch, run)
    batch.write()


def _judged_enough(batch: AbsorbBatch, execution_id: ExecutionId) -> frozenset[PartType]:
    tally = batch.runs[execution_id].tally
    return frozenset(part for part in PartType if tally.knows_enough(part, batch.rules.drift))


def _items(results: Iterable[JudgedResult]) -> Iterator[ItemNo]:
    """Return every product that a batch may change."""
    for result in results:
        if result.claim.task.item_no is not None:
            yield result.claim.task.item_no
        for part in result.parts:
            yield part.item_no


def _parts(batch: AbsorbBatch, results: Iterable[JudgedResult]) -> Iterator[tuple[RunState, Part]]:
    for result in results:
        run = batch.runs.get(result.claim.task.execution_id)
        if run is not None and not run.is_of_archived:
            yield from ((run, part) for part in result.parts)


def _end_task(batch: AbsorbBatch, result: JudgedResult, task: Task, *, is_excused: bool) -> None:
    run, now, retries = batch.runs.get(task.execution_id), batch.now, batch.rules.task_retries
    is_over = run is None or run.is_over
    if is_excused and not is_over:
        batch.tasks.append(task.excuse(now))
        batch.again += 1
        return
    if run is not None and result.unread is not None:
        note_unreadable(batch, run, task.task_id, result.unread)
    is_spent = _is_limit_reached(result, task)
    end = TaskEnd.FATAL if is_spent else result.end
    if (end is TaskEnd.AGAIN and not is_over) or _must_be_read_again(batch, result):
        batch.tasks.append(task.put_back(now, counts=result.counts))
        batch.again += 1
    elif end is TaskEnd.DONE:
        note = _take_in(batch, run, result, task) if run is not None else None
        if note is None:
            batch.completed.append(task)
        else:
            batch.tasks.append(structs.replace(task.complete(now), note=note))
        if run is not None:
            run.read_well(task.task_id)
        _note_end(batch, task, completed=1)
    else:
        failed = task.fail(_failure(result, is_spent=is_spent), now)
        if end is TaskEnd.FAILED and not is_over and failed.can_retry(retries):
            again = failed.retry(now + (result.wait or timedelta(0)), retries)
            batch.tasks.append(structs.replace(again, requests_made=again.requests_made - (not result.counts)))
            batch.again += 1
        elif result.verdict.is_outage and not is_over and (wait := _unproved_outage(batch, task)) is not None:
            batch.tasks.append(task.put_back(now + wait))
            batch.again += 1
        else:
            batch.tasks.append(failed)
            if run is not None and result.unread is None:
                run.forget_unread(task.task_id)
            _note_end(batch, task, failed=1)


def _is_limit_reached(result: JudgedResult, task: Task) -> bool:
    """Whether the task would be tried again, but its requests are used up."""
    is_tried_again = result.end in (TaskEnd.AGAIN, TaskEnd.FAILED)
    return is_tried_again and result.counts and task.requests_made >= MOST_REQUESTS


def _failure(result: JudgedResult, *, is_spent: bool) -> Failure:
    """Return why a task failed."""
    failure = result.failure or Failure.of(FailureCode.INTERNAL, result.at, detail="no answer")
    if not is_spent:
        return failure
    return Failure.because(failure, FailureCode.REQUEST_LIMIT, result.at, failure.blame, requests=MOST_REQUESTS)


def _unproved_outage(batch: AbsorbBatch, task: Task) -> timedelta | None:
    """Return how long a task without retries waits while it may not be at fault itself: its endpoint has answered no
    other request since the task first failed, and too few requests have failed to open the circuit."""
    recent = batch.tx.marketplace.circuits()[task.endpoint].recent
    own = sum(failure.task_id == task.task_id for failure in recent)
    if own <= batch.rules.task_retries:
        return None
    doubled: int = 1 << min(own - batch.rules.task_retries - 1, 10)
    return min(UNPROVED_WAIT * doubled, LONGEST_UNPROVED_WAIT)


def _must_be_read_again(batch: AbsorbBatch, result: JudgedResult) -> bool:
    """Whether the body is equal to the last one, but the facts read from that one are not stored any more."""
    for part in result.parts:
        product = batch.product_batch.products.get(part.item_no)
        if part.normalized is None and product is not None and product.hash_of(part.type) is None:
            return True
    return False


def _note_end(batch: AbsorbBatch, task: Task, *, completed: int = 0, failed: int = 0) -> None:
    run = batch.runs.get(task.execution_id)
    if run is None:
        return
    run.completed += completed
    run.failed += failed
    run.a_list_ended |= task.task_type is TaskType.MINISHOP
    if task.item_no is not None:
        run.ended_items[task.item_no] = run.ended_items.get(task.item_no, 0) + 1


def _take_in(batch: AbsorbBatch, run: RunState, result: JudgedResult, task: Task) -> str | None:
    """Take the parts of a good answer into the catalogue. Return a note where a part was left out."""
    if run.is_of_archived:
        return None
    if task.task_type is TaskType.MINISHOP:
        _take_page(batch, run, result, task)
        return None
    if task.purpose is Purpose.REMOVAL_PROOF:
        if not result.is_gone:
            return TaskNote.STILL_ANSWERS
        run.proved.append(ItemNo(task.item_no or 0))
        return None
    try:
        for part in result.parts:
            absorb_part(batch.product_batch, part, task.seller_id, batch.now)
            batch.product_batch.note_read(part, batch.now)
            if part.key in batch.product_batch.withheld:
                return TaskNote.HELD
    except ForeignProduct:
        return TaskNote.FOREIGN
    return None


def _take_page(batch: AbsorbBatch, run: RunState, result: JudgedResult, task: Task) -> None:
    """Add each product of a list page, with a task for its detail and one for its options."""
    run.list_total = result.list_total
    place, now = batch.rules.marketplace, batch.now
    detail_task, option_task = (_follow_up(task, type_, now) for type_ in ITEM_TASKS)
    for part in result.parts:
        product_id, detail_id, option_id = next(batch.ids), next(batch.ids), next(batch.ids)
        listed = absorb_entry(batch.product_batch, part, ProductId(product_id), task.seller_id, task.execution_id, now)
        if listed is None:
            run.foreign[part.item_no] = None
        elif not run.is_over:
            # The marketplace's own addresses, which its tests hold against the type.
            item = part.item_no
            detail, option = RequestUrl(place.detail_url(item)), RequestUrl(place.option_url(item))
            run.follow_ups += (
                structs.replace(detail_task, task_id=TaskId(detail_id), request_url=detail, item_no=item),
                structs.replace(option_task, task_id=TaskId(option_id), request_url=option, item_no=item),
            )
    size, page = batch.rules.page_size, task.page_no or 0
    expected = (result.list_total or 0) - page * size
    is_believed = (page + 1) * size < batch.rules.max_list_total
    if len(result.parts) >= size > expected and is_believed and not run.is_over:
        # A full page where the stated total has fewer: the list goes on behind it, but not for ever.
        behind = range(page + 1, page + 2)
        run.follow_ups += list_tasks(task.execution_id, task.seller_id, behind, batch.ids, batch.rules, now)


def _follow_up(page: Task, type_: TaskType, now: datetime) -> Task:
    """Return a task with what all tasks of this type have in common that follow from a list page."""
    return Task(
        task_id=page.task_id,
        execution_id=page.execution_id,
        seller_id=page.seller_id,
        task_type=type_,
        request_url=page.request_url,
        created_at=now,
        available_at=now,
    )


def _remove_proved(batch: AbsorbBatch, run: RunState) -> None:
    """Announce the removal of products whose detail was answered with 404, unless they were listed meanwhile."""
    for item in run.proved:
        product = batch.product_batch.products.get(item)
        listed = product is not None and product.last_seen_execution == run.execution.execution_id
        if product is not None and not listed and not product.is_deleted:
            batch.announce_removal(item, run.execution.execution_id)


def _announce_due(batch: AbsorbBatch, run: RunState) -> None:
    """Write the events that are due: a product has one event, when its last open task of the run has ended."""
    products, execution_id = batch.product_batch.products, run.execution.execution_id
    due = [item for item in run.ended_items if item in products and products[item].due_event() is not None]
    # Of one whose tasks all ended here none is open; that need not be asked.
    unsure = [item for item in due if run.ended_items[item] < len(ITEM_TASKS)]
    still_open = batch.tx.run_tasks.open_items(execution_id, unsure) if unsure else {}
    whole = [item for item in due if item not in still_open]
    batch.fetch_bodies(whole)
    for item in whole:
        batch.announce(item, execution_id)
