"""Send the present state of products again: ask for a resync, write its snapshots step by step, cancel it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from sellerwatch.catalog.ports import CatalogTx
from sellerwatch.catalog.resync import RESYNC_LIFE, Resync, ResyncChoice, ResyncInProgress
from sellerwatch.catalog.resync_queries import ResyncDetailView, find_resync, resync_detail
from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import ResyncId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.sellers.queries import require_seller

#: Snapshots of one transaction.
STEP = 100
#: People look once a second; steps are more frequent.
PROGRESS_EVERY = timedelta(seconds=1)
BY_ITSELF = "scheduler"


@dataclass(eq=False)
class NothingToResync(Conflict):
    """No product of the choice has had an event: there is no state to send again."""


@dataclass(frozen=True)
class StartedResyncView(View):
    """A resync that was asked for, in numbers. In a dry run it has no id: nothing is kept."""

    dry_run: bool
    resync_id: Annotated[str | None, About(example="0198c0de-0000-7000-8009-000000000001")]
    seller_id: Annotated[str | None, About("Null: of all sellers.", "seller_12345")]
    since: Annotated[datetime | None, About("Only products with an event that was delivered since then.")]
    products: Annotated[int, About("Products with one snapshot each.", 20000)]
    deleted: Annotated[int, About("Those of them that were deleted.", 310)]
    left_out: Annotated[int, About("Products left out, because they are not complete yet and never had an event.")]
    held: Annotated[int, About("Products whose snapshot waits behind an event that failed for good.")]


@dataclass(frozen=True)
class CancelledResyncView(ResyncDetailView):
    """A resync after it was cancelled. Snapshots that are written are delivered."""

    dry_run: bool


@dataclass(frozen=True)
class ResyncStep:
    """What one transaction wrote, and whether products are left."""

    written: int
    more: bool


def start_resync(
    tx: CatalogTx, context: OperationContext, choice: ResyncChoice, *, dry_run: bool = False
) -> StartedResyncView:
    """Ask for a resync: one PRODUCT_SNAPSHOT event for each product of the choice that has had an event, deleted ones
    included. The service writes them as fast as the receiver accepts them."""
    require_seller(tx, choice.seller_id)
    going = tx.resyncs.open_of(choice.seller_id)
    if going is not None:
        raise ResyncInProgress(resync_id=going.resync_id)
    found = tx.resyncs.counts(choice)
    if not found.products:
        raise NothingToResync
    failed = MessageFilter(status=MessageStatus.FAILED, seller_id=choice.seller_id)
    resync_id = ResyncId(next(context.ids))
    if not dry_run:
        resync = Resync.create(resync_id, choice, found.products, found.last_row, context.actor, context.now)
        tx.resyncs.add(resync)
        since = None if choice.since is None else stamp(choice.since)
        after = {"sellerId": choice.seller_id, "since": since, "products": found.products}
        record_audit(tx, AuditEntry(context.now, context.actor, "resync.start", "resync", resync_id, after=after))
    return StartedResyncView(
        dry_run=dry_run,
        resync_id=None if dry_run else resync_id,
        seller_id=choice.seller_id,
        since=choice.since,
        products=found.products,
        deleted=found.deleted,
        left_out=found.left_out,
        held=tx.outbox_queries(OutboxKind.PRODUCT).count(failed).subjects,
    )


def cancel_resync(
    tx: CatalogTx, context: OperationContext, resync_id: ResyncId, *, dry_run: bool = False
) -> CancelledResyncView:
    """End a resync before all its snapshots are written. Those that are written are delivered."""
    resync = find_resync(tx, resync_id)
    RESYNC_LIFE.after(resync.status, "cancel", resync_id)
    if not dry_run:
        before = {"status": resync.status}
        resync = resync.cancel(context.actor, context.now)
        tx.resyncs.save(resync)
        after = {"status": resync.status, "written": resync.written}
        record_audit(tx, AuditEntry(context.now, context.actor, "resync.cancel", "resync", resync_id, before, after))
    return CancelledResyncView(**vars(resync_detail(tx, resync)), dry_run=dry_run)


def write_step(
    tx: CrawlTx,
    resync_id: ResyncId,
    limit: int,
    waiting: int,
    measured_at: datetime,
    rules: CrawlRules,
    ids: Iterator[str],
    now: datetime,
) -> ResyncStep:
    """Write the next snapshots of a resync and move its cursor, in one transaction: each product has one, wherever the
    process is killed. `waiting` snapshots were on their way at `measured_at`, and those written since then.

    A resync that was cancelled meanwhile writes nothing.
    """
    resync = tx.resyncs.get(resync_id)
    if resync is None or not resync.is_running:
        return ResyncStep(0, more=False)
    rows = tx.resyncs.products(resync, limit + 1)
    chosen, more = rows[:limit], len(rows) > limit
    batch = AbsorbBatch.begin(tx, rules, ids, now, (), [item_no for _, item_no in chosen])
    for _, item_no in chosen:
        batch.announce_snapshot(item_no)
    batch.write()
    after_row = chosen[-1][0] if chosen else resync.after_row
    resync = resync.advance(after_row, len(chosen), waiting + len(chosen), measured_at)
    if not more:
        resync = resync.complete(now)
        after = {"status": resync.status, "written": resync.written}
        record_audit(tx, AuditEntry(now, BY_ITSELF, "resync.complete", "resync", resync_id, after=after))
    tx.resyncs.save(resync)
    data = {"sellerId": resync.seller_id, "total": resync.total, "written": resync.written}
    tx.activity.add_unless_lately(Activity(now, "resync.progress", "resync", resync_id, data), PROGRESS_EVERY)
    return ResyncStep(len(chosen), more)
