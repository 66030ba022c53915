"""What an operator decides about the catalogue: quarantine, removals, and reading stored bodies again.

Cases and removals may be about thousands of products: each transaction takes a handful, and the caller goes on until
nothing is left. Cut off in between, the rest is still held and the same command finishes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from sellerwatch.catalog.absorb import Part, read_part
from sellerwatch.catalog.announce import current
from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.catalog.product import PartType, Product, ProductState
from sellerwatch.catalog.quarantine import CASE_LIFE, Case, CaseNotFound
from sellerwatch.catalog.removal import REMOVAL_LIFE, Removal, RemovalNotFound
from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules, RunState
from sellerwatch.crawling.ports import CrawlTx, NoteKind
from sellerwatch.crawling.recheck import stop_rechecks
from sellerwatch.crawling.screening import part_of, reach, settle_pending, take_in
from sellerwatch.kernel.ids import CaseId, ExecutionId, ItemNo, RemovalId, SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.event import read_event
from sellerwatch.oversight.audit import AuditEntry

#: Products of one transaction.
BATCH = 100


@dataclass(frozen=True)
class Released:
    """One step of a release: parts taken in, events written, and those that today's parser cannot read either."""

    case: Case
    taken: int
    events: int
    unreadable: tuple[ItemNo, ...]
    left: int
    after: ItemNo | None


def release_case(
    tx: CrawlTx,
    case_id: CaseId,
    rules: CrawlRules,
    *,
    after: ItemNo,
    actor: str,
    ids: Iterator[str],
    now: datetime,
) -> Released:
    """Take in the next parts held under a case, with today's parser. The case is over when none is left; what cannot be
    read stays held, and its case open. `after` is where the next step begins, None at the end."""
    case = _case(tx, case_id)
    CASE_LIFE.after(case.status, "release", case_id)
    held = tx.held_parts.of_case(case_id, after, BATCH)
    batch, run = _beside(tx, case.execution_id, rules, ids, now, [part.item_no for part in held])
    reach(batch, held)
    unreadable, taken = [], 0
    for part in held:
        try:
            read = part_of(batch, part)
        except Unparsable:
            unreadable.append(part.item_no)
            continue
        if run is not None and part.item_no in batch.product_batch.products:
            take_in(batch, run, read)
            taken += 1
        else:
            tx.held_parts.free([read.key])
    _tell(batch, run)
    left = tx.held_parts.count_held([case_id]).get(case_id, 0)
    if not left:
        _close(tx, case, "release", actor, now)
        case = _case_after(tx, case)
    behind = held[-1].item_no if left and len(held) == BATCH else None
    return Released(case, taken, batch.events, tuple(unreadable), left, behind)


def drop_case(tx: CrawlTx, case_id: CaseId, *, actor: str, now: datetime) -> tuple[Case, int]:
    """Forget what is held under a case; the products stay as they were, and the same facts are not held again."""
    case = _case(tx, case_id)
    CASE_LIFE.after(case.status, "drop", case_id)
    dropped = tx.held_parts.drop(case_id)
    _close(tx, case, "drop", actor, now)
    return _case_after(tx, case), dropped


@dataclass(frozen=True)
class Confirmed:
    """One step of a removal: products told as gone, and how many are left."""

    removal: Removal
    removed: tuple[ItemNo, ...]
    left: int


def confirm_removal(
    tx: CrawlTx, removal_id: RemovalId, rules: CrawlRules, *, actor: str, ids: Iterator[str], now: datetime
) -> Confirmed:
    """Tell the next of the products as gone. Those that were seen again since are not touched."""
    removal = _removal(tx, removal_id)
    REMOVAL_LIFE.after(removal.status, "confirm", removal_id)
    gone = tx.products.unseen_since(removal.seller_id, removal.unseen_since, BATCH)
    batch = AbsorbBatch.begin(tx, rules, ids, now, (), [product.item_no for product in gone])
    for product in gone:
        batch.announce_removal(product.item_no, removal.execution_id)
    batch.write()
    left = len(tx.products.unseen_since(removal.seller_id, removal.unseen_since, 1))
    if not left:
        removal = _decide(tx, removal, "confirm", actor, now)
    return Confirmed(removal, tuple(product.item_no for product in gone), left)


def refuse_removal(tx: CrawlTx, removal_id: RemovalId, *, actor: str, now: datetime) -> Removal:
    """They are not gone: nothing is told. Should the next complete list lack them too, it is asked again."""
    return _decide(tx, _removal(tx, removal_id), "refuse", actor, now)


@dataclass(frozen=True)
class Reread:
    """What reading a product's stored bodies again would change, or has changed."""

    item_no: ItemNo
    changes: tuple[Change, ...]
    problem: str | None = None


@dataclass(frozen=True)
class Rereading:
    """One step of reading again: `after` is where the next begins, None at the end."""

    read: int
    differing: tuple[Reread, ...]
    events: int
    after: int | None


def reparse(
    tx: CrawlTx,
    rules: CrawlRules,
    *,
    seller_id: SellerId | None,
    after: int,
    dry_run: bool,
    actor: str,
    ids: Iterator[str],
    now: datetime,
) -> Rereading:
    """Run today's parser over the stored bodies of the next products; what differs from what was told is told."""
    page = tx.product_queries.newest(seller_id=seller_id, state=ProductState.COMPLETE, after=after, limit=BATCH)
    products = [product for _, product in page]
    batch = AbsorbBatch.begin(tx, rules, ids, now, (), [product.item_no for product in products])
    batch.product_batch.stored = tx.bodies.latest_raws([product.product_id for product in products])
    found = [reread for product in products if (reread := _reread(tx, batch, product)) is not None]
    if not dry_run:
        for reread in found:
            if reread.problem is None:
                _take_reread(batch, reread.item_no)
        _tell(batch, None, [reread.item_no for reread in found if reread.problem is None])
        if batch.events:
            changed = {"products": [reread.item_no for reread in found]}
            tx.audit.record(AuditEntry(now, actor, "products.reparse", "seller", seller_id or "*", after=changed))
    return Rereading(len(page), tuple(found), batch.events, page[-1][0] if len(page) == BATCH else None)


def settle_ended(tx: CrawlTx, rules: CrawlRules, ids: Iterator[str], now: datetime) -> tuple[int, tuple[Notice, ...]]:
    """What waited for the judgement of a run that has ended otherwise: nothing more will be judged, so it is now."""
    settled = 0
    notices: list[Notice] = []
    for execution_id in tx.quarantine.pending_runs():
        execution = tx.executions.get(execution_id)
        if execution is not None and not execution.is_open:
            batch, run = _beside(tx, execution_id, rules, ids, now, ())
            if run is not None:
                settle_pending(batch, run, PartType)
                _tell(batch, run)
                settled += len(run.ended_items)
                notices += batch.notices
    return settled, tuple(notices)


def _beside(
    tx: CrawlTx,
    execution_id: ExecutionId,
    rules: CrawlRules,
    ids: Iterator[str],
    now: datetime,
    items: Sequence[ItemNo],
) -> tuple[AbsorbBatch, RunState | None]:
    batch = AbsorbBatch.begin(tx, rules, ids, now, (execution_id,), items)
    return batch, batch.runs.get(execution_id)


def _tell(batch: AbsorbBatch, run: RunState | None, items: Sequence[ItemNo] = ()) -> None:
    """Announce what was taken in, but of a product that a run is at: that run will."""
    execution_id = None if run is None else run.execution.execution_id
    for item in [*items, *(() if run is None else run.ended_items)]:
        product = batch.product_batch.products[item]
        going = batch.tx.executions.open_of(product.seller_id)
        busy = batch.tx.run_tasks.open_items(going.execution_id, [item]) if going is not None else {}
        if not busy:
            batch.announce(item, execution_id)
    batch.write()


def _reread(tx: CrawlTx, batch: AbsorbBatch, product: Product) -> Reread | None:
    """None where today's parser finds what was told."""
    if product.version == 0:
        return None
    try:
        _, known = current(batch.product_batch, product, tx.bodies, batch.rules.marketplace)
    except Unparsable as unparsable:
        return Reread(product.item_no, (), str(unparsable))
    told = read_event(tx.product_outbox.latest_of(product.product_id, 1)[0].payload).product_data
    changes = differences(told, orjson.loads(known))
    return Reread(product.item_no, tuple(changes)) if changes else None


def _take_reread(batch: AbsorbBatch, item: ItemNo) -> None:
    product_batch = batch.product_batch
    for type_ in PartType:
        product = product_batch.products[item]
        body = product_batch.stored[product.product_id][type_]
        part = Part.of(type_, item, read_part(batch.rules.marketplace, type_, item, body), body)
        seen, _ = product.see_part(type_, part.digest or "", batch.now)
        product_batch.put(seen)


def _case(tx: CrawlTx, case_id: CaseId) -> Case:
    case = tx.quarantine.get(case_id)
    if case is None:
        raise CaseNotFound(case_id=case_id)
    return case


def _case_after(tx: CrawlTx, case: Case) -> Case:
    return tx.quarantine.get(case.case_id) or case


def _close(tx: CrawlTx, case: Case, verb: str, actor: str, now: datetime) -> None:
    """Decided; a run of the seller that was paused for what could not be read goes on."""
    decided = case.decide(verb, actor, now)
    tx.quarantine.save(decided)
    before, after = {"status": case.status}, {"status": decided.status, "field": case.field}
    tx.audit.record(AuditEntry(now, actor, f"quarantine.{verb}", "case", case.case_id, before, after))
    going = tx.executions.open_of(case.seller_id)
    if going is not None:
        tx.run_notes.clear(going.execution_id, NoteKind.PAUSED)
        tx.run_notes.clear(going.execution_id, NoteKind.UNREADABLE)
        stop_rechecks(tx, going.execution_id, now)


def _removal(tx: CrawlTx, removal_id: RemovalId) -> Removal:
    removal = tx.removals.get(removal_id)
    if removal is None:
        raise RemovalNotFound(removal_id=removal_id)
    return removal


def _decide(tx: CrawlTx, removal: Removal, verb: str, actor: str, now: datetime) -> Removal:
    decided = removal.decide(verb, actor, now)
    tx.removals.save(decided)
    shown: tuple[Mapping[str, Any], Mapping[str, Any]] = ({"status": removal.status}, {"status": decided.status})
    tx.audit.record(AuditEntry(now, actor, f"removal.{verb}", "removal", removal.removal_id, *shown))
    return decided
