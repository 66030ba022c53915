"""When a run has read its seller's list: check that the list is complete, and find the products that are missing.

Products move between pages while a list is read: where fewer were seen than the total states, the list is read again.
Only a complete list shows which products are gone. Where the marketplace states a larger total than it ever lists,
nothing is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sellerwatch.catalog.ports import ListCounts
from sellerwatch.catalog.product import PartType, Product
from sellerwatch.catalog.removal import LISTS_WITHOUT, Removal, RemovalReason
from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules, RunState
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import CrawlTx, NoteKind
from sellerwatch.crawling.task import Purpose, RequestUrl, Task, TaskType
from sellerwatch.kernel.ids import ExecutionId, ItemNo, RemovalId, SellerId, TaskId
from sellerwatch.kernel.notices import Notice

#: How often a run reads its list again because products had moved between pages while it read.
LIST_READINGS = 3

BY_ITSELF = "scheduler"


def end_list(batch: AbsorbBatch, run: RunState) -> None:
    """Called when the last open list task of a run has ended; what it adds keeps the run from ending."""
    tx, execution = batch.tx, run.execution
    if tx.run_tasks.count_lists(execution.execution_id, is_open=True):
        return
    batch.write_products()
    total = execution.list_total or 0
    counts = tx.products.list_counts(execution.seller_id, execution.execution_id)
    foreign = {*tx.run_notes.of(execution.execution_id)[NoteKind.FOREIGN], *map(str, run.foreign)}
    if counts.seen + len(foreign) < total:
        _read_again(batch, run, total)
    elif not tx.run_tasks.unread_pages(execution.execution_id) and counts.missing:
        _judge_missing(batch, run, counts, total)


def hold_all(tx: CrawlTx, execution: Execution, ids: Iterator[str], now: datetime) -> tuple[Notice, ...]:
    """Hold the removal of all products of a seller whose list is empty, until an operator decides."""
    counts = tx.products.list_counts(execution.seller_id, execution.execution_id)
    if not counts.missing:
        return ()
    return (_hold(tx, execution, RemovalReason.EMPTY_LIST, counts, ids, now),)


def list_tasks(
    execution_id: ExecutionId,
    seller_id: SellerId,
    pages: Iterator[int] | range,
    ids: Iterator[str],
    rules: CrawlRules,
    now: datetime,
) -> list[Task]:
    """Return one list task for each of these pages of a seller."""
    return [
        Task(
            task_id=TaskId(next(ids)),
            execution_id=execution_id,
            seller_id=seller_id,
            task_type=TaskType.MINISHOP,
            request_url=RequestUrl.of_settings(
                TaskType.MINISHOP, rules.marketplace.list_url(seller_id, page, rules.page_size)
            ),
            created_at=now,
            available_at=now,
            page_no=page,
        )
        for page in pages
    ]


def pages_of(total: int, page_size: int) -> int:
    return -(-total // page_size)


def _read_again(batch: AbsorbBatch, run: RunState, total: int) -> None:
    tx, execution, rules = batch.tx, run.execution, batch.rules
    pages = pages_of(total, rules.page_size)
    unreadable = any(name.startswith(PartType.MINISHOP) for name in run.tally.unreadable)
    if tx.run_tasks.count_lists(execution.execution_id) < pages * LIST_READINGS and not unreadable and not run.is_over:
        again = list_tasks(execution.execution_id, execution.seller_id, range(pages), batch.ids, rules, batch.now)
        run.added += tx.tasks.add(again)


def _judge_missing(batch: AbsorbBatch, run: RunState, counts: ListCounts, total: int) -> None:
    tx, execution = batch.tx, run.execution
    reason = batch.rules.removal_rules.holds(counts.missing, counts.told, total)
    if reason is not None:
        batch.notices.append(_hold(tx, execution, reason, counts, batch.ids, batch.now))
        return
    proofs = []
    for product in tx.products.missing(execution.seller_id, execution.execution_id):
        missed = batch.product_batch.products.get(product.item_no, product).miss(batch.now)
        batch.product_batch.put(missed)
        if missed.missing_runs >= LISTS_WITHOUT:
            batch.announce_removal(product.item_no, execution.execution_id)
        elif not run.is_over:
            proofs.append(_proof(batch, run, product))
    run.added += tx.tasks.add(proofs)


def _proof(batch: AbsorbBatch, run: RunState, product: Product) -> Task:
    """Return a task that asks for the detail once more; a 404 proves that the product is gone."""
    return Task(
        task_id=TaskId(next(batch.ids)),
        execution_id=run.execution.execution_id,
        seller_id=run.execution.seller_id,
        task_type=TaskType.PRODUCT_DETAIL,
        request_url=RequestUrl.of_settings(
            TaskType.PRODUCT_DETAIL, batch.rules.marketplace.detail_url(ItemNo(product.item_no))
        ),
        created_at=batch.now,
        available_at=batch.now,
        purpose=Purpose.REMOVAL_PROOF,
        item_no=product.item_no,
    )


def _hold(
    tx: CrawlTx,
    execution: Execution,
    reason: RemovalReason,
    counts: ListCounts,
    ids: Iterator[str],
    now: datetime,
) -> Notice:
    """Hold a removal. A seller has one held removal at most: an earlier one is superseded."""
    seller_id, missing, told = execution.seller_id, counts.missing, counts.told
    earlier = tx.removals.held_of(seller_id)
    if earlier is not None:
        tx.removals.save(earlier.decide("supersede", BY_ITSELF, now))
    removal = Removal(
        removal_id=RemovalId(next(ids)),
        seller_id=seller_id,
        execution_id=execution.execution_id,
        reason=reason,
        told=told,
        missing=missing,
        unseen_since=execution.created_at,
        created_at=now,
    )
    tx.removals.add(removal)
    facts = {"seller": seller_id, "missing": missing, "products": told}
    return Notice("removal.held", removal.removal_id, facts)
