"""Remove a seller: end its run, archive it, and delete its products, with or without telling the receiver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from sellerwatch.catalog.removal import Removal
from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.views import CancelledExecutionView
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About
from sellerwatch.operations.catalog_changes import BATCH
from sellerwatch.operations.quarantine import drop_case
from sellerwatch.operations.sellers import end_runs
from sellerwatch.operations.session import OperationSession, Progress, no_progress
from sellerwatch.sellers.commands import ChangedSellerView, archive_seller
from sellerwatch.sellers.queries import find_seller
from sellerwatch.sellers.seller import SELLER_LIFE, SellerStatus

#: Later than any product was listed: all products of a seller were unseen since then.
_LATER = timedelta(days=1)


@dataclass(frozen=True)
class RemovedSellerView(ChangedSellerView):
    """A seller after its removal. Where products are `left`, remove it again: the rest follows."""

    ended_execution: Annotated[CancelledExecutionView | None, About("The run that was ended with it.")]
    removed: Annotated[int, About("Products that were deleted, or would be.", 240)]
    events: Annotated[int, About("PRODUCT_DELETED events that were written for them, or would be.", 238)]
    left: Annotated[int, About("Products that are not deleted yet.", 0)]


@dataclass(frozen=True)
class _Ended:
    """What the first transaction of a removal found and did."""

    seller: ChangedSellerView
    execution: CancelledExecutionView | None
    products: int
    with_events: int


@dataclass(frozen=True)
class _Step:
    removed: int
    events: int
    left: int


async def remove_seller(
    session: OperationSession,
    seller_id: SellerId,
    *,
    tell_receiver: bool = False,
    steps: int | None = None,
    progress: Progress = no_progress,
) -> RemovedSellerView:
    """End and archive a seller with its products. `tell_receiver`: with a PRODUCT_DELETED event for each product that
    had an event. Events that wait are delivered in any case.

    The first transaction archives the seller, so nothing is crawled any more; then each step of 100 products is a
    transaction, and `steps` bounds their number. What an interruption leaves is deleted when it is removed again. Its
    history, its runs and its events stay.
    """
    ended = await session.run(_end, seller_id, session.rules, tell_receiver)
    removed = events = number = 0
    left = ended.products
    if session.dry_run:
        removed, events, left = ended.products, ended.with_events if tell_receiver else 0, 0
    while left and number != steps:
        step = await session.run(_delete_step, seller_id, session.rules, tell_receiver)
        removed, events, left, number = removed + step.removed, events + step.events, step.left, number + 1
        progress(removed, ended.products)
    return RemovedSellerView(
        **vars(ended.seller), ended_execution=ended.execution, removed=removed, events=events, left=left
    )


def _end(tx: CrawlTx, context: OperationContext, seller_id: SellerId, rules: CrawlRules, tell_receiver: bool) -> _Ended:
    """Archive the seller, end its open runs, and decide what waits for a person about it."""
    seller, schedule = find_seller(tx, seller_id)
    products = tx.product_queries.counts(seller_id).present
    if seller.status is SellerStatus.ARCHIVED:
        if not products:
            SELLER_LIFE.after(seller.status, "archive", seller_id)
        view, execution = ChangedSellerView.of(seller, schedule, dry_run=context.dry_run), None
    else:
        note = "the receiver is told" if tell_receiver else "the receiver is not told"
        archived, schedule = archive_seller(tx, seller_id, context, note)
        execution = end_runs(tx, context, seller_id, rules)
        for case in tx.quarantine.open_cases(seller_id):
            drop_case(tx, context, case.case_id)
        held: Removal | None = tx.removals.held_of(seller_id)
        if held is not None:
            tx.removals.save(held.decide("supersede", context.actor, context.now))
        view = ChangedSellerView.of(archived, schedule, dry_run=context.dry_run)
    with_events = tx.products.count_unseen_since(seller_id, context.now + _LATER)
    return _Ended(view, execution, products, with_events)


def _delete_step(
    tx: CrawlTx, context: OperationContext, seller_id: SellerId, rules: CrawlRules, tell_receiver: bool
) -> _Step:
    """Delete the next products. Nothing is done where the seller was activated again meanwhile."""
    if find_seller(tx, seller_id)[0].status is not SellerStatus.ARCHIVED:
        return _Step(0, 0, 0)
    found = tx.products.present_of(seller_id, BATCH)
    batch = AbsorbBatch.begin(tx, rules, context.ids, context.now, (), [product.item_no for product in found])
    for product in found:
        if tell_receiver and product.version:
            batch.announce_removal(product.item_no, None)
        else:
            batch.archive(product.item_no)
    batch.write()
    return _Step(len(found), batch.events, tx.product_queries.counts(seller_id).present)
