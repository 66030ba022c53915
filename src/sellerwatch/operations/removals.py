"""Decide removals: announce their products as deleted, or refuse that they are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sellerwatch.catalog.removal import REMOVAL_LIFE, Removal
from sellerwatch.catalog.removal_queries import (
    RemovalDetailView,
    RemovalView,
    find_removal,
    removal_fields,
    show_removal,
)
from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.ids import RemovalId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About
from sellerwatch.operations.catalog_changes import BATCH
from sellerwatch.operations.session import OperationSession, Progress, no_progress
from sellerwatch.oversight.audit import AuditEntry, record_audit


@dataclass(frozen=True)
class ConfirmedRemovalView(RemovalDetailView):
    """A removal after a confirmation. Where products are `stillMissing`, confirm again."""

    dry_run: bool
    removed: Annotated[int, About("Products with a new PRODUCT_DELETED event.")]


@dataclass(frozen=True)
class RefusedRemovalView(RemovalView):
    """A removal after a refusal."""

    dry_run: bool


async def confirm_removal(
    session: OperationSession,
    removal_id: RemovalId,
    *,
    steps: int | None = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> ConfirmedRemovalView:
    """Write a PRODUCT_DELETED event for each product of a removal that is still missing.

    Each step of 100 products is a transaction; `steps` bounds their number. The removal is confirmed when no product is
    missing any more.
    """
    before = await session.ask(show_removal, removal_id)
    REMOVAL_LIFE.after(before.status, "confirm", removal_id)
    removed, more, number = 0, not dry_run, 0
    while more and number != steps:
        done, more = await session.run(_confirm_step, removal_id, session.rules)
        removed, number = removed + done, number + 1
        progress(removed, before.still_missing)
    return await session.ask(_confirmed, removal_id, removed, dry_run=dry_run)


def refuse_removal(
    tx: CrawlTx, context: OperationContext, removal_id: RemovalId, *, dry_run: bool = False
) -> RefusedRemovalView:
    """Refuse that the products are gone: no event is written. The next list that lacks them holds them again."""
    removal = find_removal(tx, removal_id)
    REMOVAL_LIFE.after(removal.status, "refuse", removal_id)
    decided = removal if dry_run else _decide(tx, removal, "refuse", context)
    return RefusedRemovalView(**vars(decided), dry_run=dry_run)


def _confirm_step(tx: CrawlTx, context: OperationContext, removal_id: RemovalId, rules: CrawlRules) -> tuple[int, bool]:
    """Announce the next products as deleted. Return how many, and whether more are missing."""
    removal = find_removal(tx, removal_id)
    REMOVAL_LIFE.after(removal.status, "confirm", removal_id)
    gone = tx.products.unseen_since(removal.seller_id, removal.unseen_since, BATCH)
    batch = AbsorbBatch.begin(tx, rules, context.ids, context.now, (), [product.item_no for product in gone])
    for product in gone:
        batch.announce_removal(product.item_no, removal.execution_id)
    batch.write()
    more = bool(tx.products.unseen_since(removal.seller_id, removal.unseen_since, 1))
    if not more:
        _decide(tx, removal, "confirm", context)
    return len(gone), more


def _confirmed(
    tx: CrawlTx, _: OperationContext, removal_id: RemovalId, removed: int, *, dry_run: bool
) -> ConfirmedRemovalView:
    return ConfirmedRemovalView(**removal_fields(tx, find_removal(tx, removal_id)), dry_run=dry_run, removed=removed)


def _decide(tx: CrawlTx, removal: Removal, verb: str, context: OperationContext) -> Removal:
    decided = removal.decide(verb, context.actor, context.now)
    tx.removals.save(decided)
    before, after = {"status": removal.status}, {"status": decided.status}
    action = f"removal.{verb}"
    record_audit(tx, AuditEntry(context.now, context.actor, action, "removal", removal.removal_id, before, after))
    return decided
