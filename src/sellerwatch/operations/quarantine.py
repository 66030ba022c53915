"""Decide quarantine cases: release what is held into the catalogue, or drop it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Annotated

from sellerwatch.catalog.absorb import read_part
from sellerwatch.catalog.ports import Reader, Unparsable
from sellerwatch.catalog.product import PartType
from sellerwatch.catalog.quarantine import CASE_LIFE, Case
from sellerwatch.catalog.quarantine_queries import MOST_ITEMS, CaseView, case_fields, count_held, find_case, show_case
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.ports import CrawlTx, NoteKind
from sellerwatch.crawling.recheck import stop_rechecks
from sellerwatch.kernel.clock import EPOCH
from sellerwatch.kernel.ids import CaseId, ItemNo
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import Cursor, decode_cursor, encode_cursor
from sellerwatch.kernel.views import About
from sellerwatch.operations.catalog_changes import BATCH, announce_and_write, open_group
from sellerwatch.operations.session import OperationSession, Progress, no_progress
from sellerwatch.oversight.audit import AuditEntry, record_audit

RELEASE = "release"


@dataclass(frozen=True)
class ReleasedCaseView(CaseView):
    """A case after a release. `held` parts are left; where `next` is not null, go on with it as the cursor."""

    dry_run: bool
    taken: Annotated[int, About("Parts that are in the catalogue now.")]
    events: int
    unreadable: Annotated[int, About("Parts that the parser of this version cannot read; they stay held.")]
    items: Annotated[Sequence[int], About("The first of the products whose part cannot be read.")]
    next: str | None


@dataclass(frozen=True)
class DroppedCaseView(CaseView):
    """A case after a drop."""

    dry_run: bool
    dropped: Annotated[int, About("Parts that are not held any more.")]


@dataclass(frozen=True)
class ReleaseStep:
    """The result of one transaction of a release. `after` is where the next one begins, None at the end."""

    case: Case
    taken: int
    events: int
    unreadable: tuple[ItemNo, ...]
    left: int
    after: ItemNo | None


async def release_case(
    session: OperationSession,
    case_id: CaseId,
    *,
    cursor: str | None = None,
    steps: int | None = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> ReleasedCaseView:
    """Read the parts held under a case with the parser of this version and put them into the catalogue.

    Each step of 100 parts is a transaction; `steps` bounds their number. The case is released when no part is left.
    What cannot be read stays held, and the case open. A dry run only counts what cannot be read.
    """
    position = decode_cursor(RELEASE, cursor)
    after = ItemNo(0 if position is None else position.row)
    total = (await session.ask(show_case, case_id)).held
    taken = events = seen = 0
    unreadable: list[ItemNo] = []
    for number in count(1):
        if dry_run:
            step = await session.ask(_preview_step, case_id, session.rules.marketplace, after)
        else:
            step = await session.run(_release_step, case_id, session.rules, after)
        taken, events, seen = taken + step.taken, events + step.events, min(total, seen + BATCH)
        unreadable += step.unreadable
        progress(seen, total)
        if step.after is None or number == steps:
            break
        after = step.after
    return ReleasedCaseView(
        **case_fields(step.case, step.left, session.language),
        dry_run=dry_run,
        taken=taken,
        events=events,
        unreadable=len(unreadable),
        items=unreadable[:MOST_ITEMS],
        next=None if step.after is None else encode_cursor(RELEASE, Cursor(EPOCH, step.after)),
    )


def drop_case(tx: CrawlTx, context: OperationContext, case_id: CaseId, *, dry_run: bool = False) -> DroppedCaseView:
    """Delete the bodies held under a case. The products stay as they are, and the same facts are not held again."""
    case = find_case(tx, case_id)
    CASE_LIFE.after(case.status, "drop", case_id)
    if dry_run:
        return DroppedCaseView(**case_fields(case, count_held(tx, case_id), context.language), dry_run=True, dropped=0)
    dropped = tx.held_parts.drop(case_id)
    return DroppedCaseView(
        **case_fields(_close(tx, case, "drop", context), 0, context.language), dry_run=False, dropped=dropped
    )


def settle_ended(tx: CrawlTx, rules: CrawlRules, ids: Iterator[str], now: datetime) -> tuple[int, tuple[Notice, ...]]:
    """Decide the pending parts of runs that ended before enough of their parts were checked. Return how many products
    had one, and what people should hear of."""
    settled = 0
    notices: list[Notice] = []
    for execution_id in tx.quarantine.pending_runs():
        execution = tx.executions.get(execution_id)
        if execution is not None and not execution.is_open:
            group, run = open_group(tx, execution_id, rules, ids, now, ())
            if run is not None:
                run.note_taken_in(group.quarantine_check.settle_pending(run, PartType))
                announce_and_write(group, run)
                settled += len(run.ended_items)
                notices += group.notices
    return settled, tuple(notices)


def _release_step(
    tx: CrawlTx, context: OperationContext, case_id: CaseId, rules: CrawlRules, after: ItemNo
) -> ReleaseStep:
    """Take in the next parts held under a case."""
    case = find_case(tx, case_id)
    CASE_LIFE.after(case.status, "release", case_id)
    held = tx.held_parts.of_case(case_id, after, BATCH)
    items = [part.item_no for part in held]
    group, run = open_group(tx, case.execution_id, rules, context.ids, context.now, items)
    check = group.quarantine_check
    check.load(held)
    unreadable, taken = [], 0
    for part in held:
        try:
            read = check.read(part)
        except Unparsable:
            unreadable.append(part.item_no)
            continue
        if run is not None and part.item_no in group.product_batch.products:
            if check.take_in(run, read, part.created_at):
                run.note_taken_in([read.item_no])
            taken += 1
        else:
            tx.held_parts.free([read.key])
    announce_and_write(group, run)
    left = count_held(tx, case_id)
    if not left:
        case = _close(tx, case, "release", context)
    behind = items[-1] if left and len(held) == BATCH else None
    return ReleaseStep(case, taken, group.events, tuple(unreadable), left, behind)


def _preview_step(tx: CrawlTx, _: OperationContext, case_id: CaseId, reader: Reader, after: ItemNo) -> ReleaseStep:
    """Read the next parts held under a case, and change nothing."""
    case = find_case(tx, case_id)
    CASE_LIFE.after(case.status, "release", case_id)
    held = tx.held_parts.of_case(case_id, after, BATCH)
    unreadable = []
    for part in held:
        try:
            read_part(reader, part.part, part.item_no, part.body)
        except Unparsable:
            unreadable.append(part.item_no)
    behind = held[-1].item_no if len(held) == BATCH else None
    return ReleaseStep(case, 0, 0, tuple(unreadable), count_held(tx, case_id), behind)


def _close(tx: CrawlTx, case: Case, verb: str, context: OperationContext) -> Case:
    """Decide a case. A paused run of its seller goes on."""
    decided = case.decide(verb, context.actor, context.now)
    tx.quarantine.save(decided)
    before, after = {"status": case.status}, {"status": decided.status, "field": case.field}
    action = f"quarantine.{verb}"
    record_audit(tx, AuditEntry(context.now, context.actor, action, "case", case.case_id, before, after))
    open_run = tx.executions.open_of(case.seller_id)
    if open_run is not None:
        tx.run_notes.clear(open_run.execution_id, NoteKind.PAUSED)
        tx.run_notes.clear(open_run.execution_id, NoteKind.UNREADABLE)
        stop_rechecks(tx, open_run.execution_id, context.now)
    return decided
