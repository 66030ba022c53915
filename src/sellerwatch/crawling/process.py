"""Absorbing what came back: one transaction for a group of endings, in which everything they change is changed.

Task outcome, products, bodies, events, follow-up tasks, the run's counts, the agents' health, permits and the usage
log: all or nothing. It begins with the guard (still running, by this worker, at this attempt), so a second delivery, a
lost lease or a second run of the same transaction does nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.charge import charge
from sellerwatch.catalog.absorb import Shelf, absorb_entry, absorb_part
from sellerwatch.catalog.announce import announce
from sellerwatch.catalog.product import ForeignProduct
from sellerwatch.crawling.outcome import Ending, TaskEnd
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import RequestUrl, Task, TaskType
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, ProductId, SellerId, TaskId, WorkerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.marketplaces.ports import Marketplace

#: How often a run reads its list again because products had moved between pages while it read.
LIST_READINGS = 3


@dataclass(frozen=True)
class CrawlRules:
    """What processing goes by; from the settings."""

    marketplace: Marketplace
    page_size: int = 500
    task_retries: int = 2
    breaker: BreakerRules = field(default_factory=BreakerRules)


@dataclass
class Sums:
    """What a group changes in the counts of one run."""

    added: int = 0
    completed: int = 0
    failed: int = 0
    list_total: int | None = None


@dataclass(frozen=True)
class Absorbed:
    """What the group did; for progress displays and to nudge delivery."""

    completed: int
    failed: int
    again: int
    events: int
    products: int
    notices: tuple[Notice, ...] = ()


@dataclass
class _Group:
    """The state of one transaction, thrown away with it."""

    shelf: Shelf
    ids: Iterator[str]
    tasks: list[Task] = field(default_factory=list)
    follow_ups: dict[ExecutionId, list[Task]] = field(default_factory=lambda: defaultdict(list))
    ended_items: dict[ExecutionId, list[ItemNo]] = field(default_factory=lambda: defaultdict(list))
    sums: dict[ExecutionId, Sums] = field(default_factory=lambda: defaultdict(Sums))
    again: int = 0
    over: Set[ExecutionId] = frozenset()


def absorb(
    tx: CrawlTx,
    endings: Sequence[Ending],
    forgiven: Sequence[tuple[int, Outcome]],
    worker_id: WorkerId,
    rules: CrawlRules,
    ids: Iterator[str],
    at: Moment,
) -> Absorbed:
    """Write a group of endings. One that is not ours any more is skipped; its permit and its agent still count."""
    now = at.now
    notices = charge(tx, [ending.charge for ending in endings], forgiven, worker_id, rules.breaker, at)
    tasks = tx.tasks.get_many([ending.claim.task.task_id for ending in endings])
    ours = [e for e in endings if _is_ours(tasks.get(e.claim.task.task_id), e, worker_id)]
    runs = {ending.claim.task.execution_id for ending in ours}
    group = _Group(Shelf(tx.products.of_items(_items(ours))), ids, over=over_of(tx, runs))
    for ending in ours:
        _end_task(group, ending, tasks[ending.claim.task.task_id], rules, now)
    tx.tasks.save(group.tasks, now)
    for execution_id, follow_ups in group.follow_ups.items():
        group.sums[execution_id].added += tx.tasks.add(follow_ups)
    events = _announce_due(tx, group, rules, now)
    added, changed = group.shelf.written()
    tx.products.add(added)
    tx.products.save(changed)
    tx.products.keep_raw(group.shelf.raws)
    for execution_id, sums in group.sums.items():
        _count(tx, execution_id, sums, group, rules, now)
    return Absorbed(
        completed=sum(sums.completed for sums in group.sums.values()),
        failed=sum(sums.failed for sums in group.sums.values()),
        again=group.again,
        events=events,
        products=len(added),
        notices=notices,
    )


def abandon(tx: CrawlTx, ending: Ending, worker_id: WorkerId, problem: str, at: Moment) -> None:
    """The last resort for an ending that nothing can absorb: its permit is answered, its task fails and is counted, and
    nothing else."""
    now = at.now
    tx.permits.answer([ending.claim.permit.number], at)
    task = tx.tasks.get(ending.claim.task.task_id)
    if task is None or not _is_ours(task, ending, worker_id):
        return
    tx.tasks.save([task.fail(problem, now)], now)
    execution = tx.executions.get(task.execution_id)
    if execution is not None:
        tx.executions.save(execution.record(now, failed=1))


def over_of(tx: CrawlTx, runs: Iterable[ExecutionId]) -> frozenset[ExecutionId]:
    """Those of these runs that have ended: cancelled, or past their deadline. What they still had in flight is taken
    in, but nothing is added to them or tried again for them."""
    found = {run: tx.executions.get(run) for run in sorted(runs)}
    return frozenset(run for run, execution in found.items() if execution is None or not execution.is_open)


def end_failed(tx: CrawlTx, tasks: Sequence[Task], rules: CrawlRules, ids: Iterator[str], now: datetime) -> None:
    """Tasks that ended as FAILED without an answer (cancelled, poison): counted, and their products' events are due."""
    if not tasks:
        return
    items = list(dict.fromkeys(task.item_no for task in tasks if task.item_no is not None))
    group = _Group(Shelf(tx.products.of_items(items)), ids)
    for task in tasks:
        group.tasks.append(task)
        group.sums[task.execution_id].failed += 1
        if task.item_no is not None:
            group.ended_items[task.execution_id].append(task.item_no)
    tx.tasks.save(group.tasks, now)
    _announce_due(tx, group, rules, now)
    tx.products.save(group.shelf.written()[1])
    for execution_id, sums in group.sums.items():
        _count(tx, execution_id, sums, group, rules, now)


def _is_ours(task: Task | None, ending: Ending, worker_id: WorkerId) -> bool:
    return task is not None and task.is_held_by(worker_id, ending.claim.task.attempt)


def _items(endings: Iterable[Ending]) -> list[ItemNo]:
    """Every product a group may touch, each once."""
    found: dict[ItemNo, None] = {}
    for ending in endings:
        if ending.claim.task.item_no is not None:
            found[ending.claim.task.item_no] = None
        found.update((part.item_no, None) for part in ending.parts)
    return list(found)


def _end_task(group: _Group, ending: Ending, task: Task, rules: CrawlRules, now: datetime) -> None:
    sums = group.sums[task.execution_id]
    over = task.execution_id in group.over
    if ending.end is TaskEnd.AGAIN and not over:
        group.tasks.append(task.put_back(now))
        group.again += 1
        return
    if ending.end is TaskEnd.DONE:
        note = _take_in(group, ending, task, rules, now)
        group.tasks.append(replace(task.complete(now), error_message=note))
        sums.completed += 1
    else:
        failed = task.fail(ending.problem, now)
        if ending.end is TaskEnd.FAILED and not over and failed.can_retry(rules.task_retries):
            group.tasks.append(failed.retry(now + (ending.wait or timedelta(0)), rules.task_retries))
            group.again += 1
            return
        group.tasks.append(failed)
        sums.failed += 1
    if task.item_no is not None:
        group.ended_items[task.execution_id].append(task.item_no)


def _take_in(group: _Group, ending: Ending, task: Task, rules: CrawlRules, now: datetime) -> str | None:
    """The parts of a good answer, into the catalogue. Returns a note where something was left out."""
    if task.task_type is TaskType.MINISHOP:
        _take_page(group, ending, task, rules, now)
        return None
    try:
        for part in ending.parts:
            absorb_part(group.shelf, part, task.seller_id, now)
    except ForeignProduct as foreign:
        return str(foreign)
    return None


def _take_page(group: _Group, ending: Ending, task: Task, rules: CrawlRules, now: datetime) -> None:
    """Every product of a page becomes a product and gets its detail and its option task."""
    group.sums[task.execution_id].list_total = ending.list_total
    follow_ups = group.follow_ups[task.execution_id]
    over = task.execution_id in group.over
    for part in ending.parts:
        product_id, detail_id, option_id = next(group.ids), next(group.ids), next(group.ids)
        listed = absorb_entry(group.shelf, part, ProductId(product_id), task.seller_id, task.execution_id, now)
        if listed and not over:
            place = rules.marketplace
            detail, option = place.detail_url(part.item_no), place.option_url(part.item_no)
            follow_ups.append(_follow_up(task, detail_id, TaskType.PRODUCT_DETAIL, detail, part.item_no, now))
            follow_ups.append(_follow_up(task, option_id, TaskType.PRODUCT_OPTION, option, part.item_no, now))


def _follow_up(task: Task, task_id: str, type_: TaskType, url: str, item_no: ItemNo, now: datetime) -> Task:
    return Task(
        task_id=TaskId(task_id),
        execution_id=task.execution_id,
        seller_id=task.seller_id,
        task_type=type_,
        request_url=RequestUrl.parse(type_, url),
        created_at=now,
        available_at=now,
        item_no=item_no,
    )


def _announce_due(tx: CrawlTx, group: _Group, rules: CrawlRules, now: datetime) -> int:
    """A product's event is due when its last open task of the run ends, so that it is whole and one."""
    events = 0
    for execution_id, items in group.ended_items.items():
        products = group.shelf.products
        due = [item for item in dict.fromkeys(items) if item in products and products[item].due_event() is not None]
        still_open = tx.tasks.open_items(execution_id, due) if due else {}
        for item in due:
            if item not in still_open:
                outbox_id = OutboxId(next(group.ids))
                message = announce(
                    group.shelf,
                    products[item],
                    tx.products,
                    tx.product_outbox,
                    rules.marketplace,
                    outbox_id,
                    execution_id,
                    now,
                )
                events += message is not None
    return events


def _count(tx: CrawlTx, execution_id: ExecutionId, sums: Sums, group: _Group, rules: CrawlRules, now: datetime) -> None:
    """Move the run's counts; before its last task ends it, see that the list was read whole."""
    execution = tx.executions.get(execution_id)
    if execution is None:
        return
    if sums.list_total is not None:
        execution = replace(execution, list_total=sums.list_total)
    if execution.would_end(added=sums.added, completed=sums.completed, failed=sums.failed):
        pages = pages_of(execution.list_total or 0, rules.page_size)
        missing = (execution.list_total or 0) - tx.products.count_seen(execution.seller_id, execution_id)
        if missing > 0 and tx.tasks.count_lists(execution_id) < pages * LIST_READINGS:
            again = list_tasks(execution_id, execution.seller_id, pages, group.ids, rules, now)
            sums.added += tx.tasks.add(again)
    tx.executions.save(execution.record(now, added=sums.added, completed=sums.completed, failed=sums.failed))


def pages_of(total: int, page_size: int) -> int:
    return -(-total // page_size)


def list_tasks(
    execution_id: ExecutionId, seller_id: SellerId, pages: int, ids: Iterator[str], rules: CrawlRules, now: datetime
) -> list[Task]:
    """One list task for each page of a seller."""
    return [
        Task(
            task_id=TaskId(next(ids)),
            execution_id=execution_id,
            seller_id=seller_id,
            task_type=TaskType.MINISHOP,
            request_url=RequestUrl.parse(
                TaskType.MINISHOP, rules.marketplace.list_url(seller_id, page, rules.page_size)
            ),
            created_at=now,
            available_at=now,
            page_no=page,
        )
        for page in range(pages)
    ]
