"""Changed parts of products that were told are judged before they are taken in (`catalog/quarantine.py` says how).

A batch is counted as a whole and then judged: what it brings counts for and against all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sellerwatch.catalog.absorb import Part, absorb_part, read_part
from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.facts import NormalizedPart
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.catalog.product import ForeignProduct, PartType, Product
from sellerwatch.catalog.quarantine import (
    Case,
    CaseKind,
    HeldPart,
    HeldStatus,
    problem_kind,
    sample_of,
)
from sellerwatch.crawling.absorb_batch import AbsorbBatch, RunState
from sellerwatch.crawling.judged_result import JudgedResult, UnreadableAnswer
from sellerwatch.kernel.ids import CaseId, ItemNo, TaskId
from sellerwatch.kernel.notices import Notice

#: Who decided a case that nobody had to decide.
BY_ITSELF = "overtaken"


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A part whose facts differ from what its product is known by."""

    part: Part
    changes: Sequence[Change]
    fields: frozenset[str]


def screen(batch: AbsorbBatch, results: Sequence[JudgedResult]) -> None:
    """Judge what the batch brings; afterwards the product_batch knows which parts it must not take in."""
    parts = list(_read_parts(batch, results))
    changed = [(run, part) for run, part in parts if _differs(batch, run, part)]
    products = batch.product_batch.products
    watched = [part.item_no for run, part in parts if run.cases]
    items = [*watched, *(part.item_no for _, part in changed)]
    standing = batch.tx.held_parts.held(items) if items else {}
    if changed:
        batch.product_batch.stored = batch.tx.bodies.latest_raws(
            [products[part.item_no].product_id for _, part in changed]
        )
    for run in batch.runs.values():
        for type_, number in Counter(part.type for of, part in parts if of is run).items():
            run.tally.judge(type_, number)
    suspects: list[tuple[RunState, _Suspect]] = []
    for run, part in changed:
        held = standing.get(part.key)
        if held is not None and held.status is HeldStatus.DROPPED and held.hash == part.digest:
            batch.product_batch.withheld[part.key] = None
            continue
        suspect = _suspect(batch, part, products[part.item_no])
        run.tally.change(part.type, suspect.fields)
        suspects.append((run, suspect))
    for run, suspect in suspects:
        _judge(batch, run, suspect, is_last=False)
    batch.tx.held_parts.put([held for held in batch.product_batch.withheld.values() if held is not None])
    _free_obsolete(batch, [part for _, part in parts], standing.values())


def hold_unreadable(batch: AbsorbBatch, run: RunState, task_id: TaskId, unread: UnreadableAnswer) -> None:
    """Keep an answer that our parser could not read, and say so once; many of one kind pause the run. An answer that a
    re-check finds as it was is not counted again."""
    problem = problem_kind(unread.part, unread.problem)
    run.end_recheck(task_id)
    if run.unread.get(task_id) != problem:
        run.tally.fail_to_read(problem)
        run.note_unread(task_id, problem)
    number = run.tally.unreadable.get(problem, 0)
    held = batch.tx.held_parts.held([unread.item_no]) if unread.item_no is not None else {}
    known = None if unread.item_no is None else held.get((unread.item_no, unread.part))
    if known is None or known.status is not HeldStatus.DROPPED or known.hash != unread.hash:
        case = _case_of(batch, run, unread.part, CaseKind.UNREADABLE, problem, unread.item_no, ("", unread.problem))
        if unread.item_no is not None:
            part = _held(run, unread.item_no, unread.part, unread.hash, unread.body, batch, case)
            batch.tx.held_parts.put([part])
    if number >= batch.rules.drift.unreadable and not run.is_paused and not run.is_over:
        run.paused = f"{number} answers could not be read: {unread.problem}"
        seller = run.execution.seller_id
        every = batch.rules.recheck_every.total_seconds()
        text = (
            f"The run of {seller} is paused: {run.paused}. A few of them are read again every {every:g} s, and the run"
            " goes on by itself once they are readable. To decide now, release or drop its quarantine case."
        )
        batch.notices.append(Notice("run.paused", run.execution.execution_id, text))


def settle_pending(batch: AbsorbBatch, run: RunState, parts: Iterable[PartType]) -> None:
    """Enough of the run has been judged, or all of it: what waited for that is taken in, or held."""
    execution_id = run.execution.execution_id
    pending = [held for part in parts for held in batch.tx.held_parts.pending(execution_id, part)]
    if not pending:
        return
    reach(batch, pending)
    for held in pending:
        suspect = _suspect_again(batch, held)
        if suspect is None:
            continue
        if _judge(batch, run, suspect, is_last=True):
            moved = batch.product_batch.withheld[held.item_no, held.part]
            batch.tx.held_parts.put([moved] if moved is not None else [])
        else:
            take_in(batch, run, suspect.part)


def close_overtaken(batch: AbsorbBatch, run: RunState) -> None:
    """A run has ended: cases under which nothing is held any more, and which it did not meet again, are over."""
    held = batch.tx.held_parts.count_held([case.case_id for case in run.cases])
    for case in run.cases:
        if not held.get(case.case_id) and case.field not in run.tally.unreadable:
            batch.tx.quarantine.save(case.decide("release", BY_ITSELF, batch.now))


def reach(batch: AbsorbBatch, held: Sequence[HeldPart]) -> None:
    """Put the products of these on the product_batch, with their bodies."""
    missing = [h.item_no for h in held if h.item_no not in batch.product_batch.products]
    batch.product_batch.products.update(batch.tx.products.of_items(missing))
    ids = [
        batch.product_batch.products[h.item_no].product_id for h in held if h.item_no in batch.product_batch.products
    ]
    batch.product_batch.stored = {**batch.tx.bodies.latest_raws(ids), **batch.product_batch.stored}


def take_in(batch: AbsorbBatch, run: RunState, part: Part) -> None:
    """A part that was held after all."""
    batch.product_batch.withheld.pop(part.key, None)
    batch.tx.held_parts.free([part.key])
    try:
        absorb_part(batch.product_batch, part, run.execution.seller_id, batch.now)
    except ForeignProduct:
        return
    run.ended_items.setdefault(part.item_no, 0)


def part_of(batch: AbsorbBatch, held: HeldPart) -> Part:
    """A held body read by today's parser."""
    facts = read_part(batch.rules.marketplace, held.part, held.item_no, held.body)
    return Part.of(held.part, held.item_no, facts, held.body)


def _read_parts(batch: AbsorbBatch, results: Sequence[JudgedResult]) -> Iterator[tuple[RunState, Part]]:
    for result in results:
        run = batch.runs.get(result.claim.task.execution_id)
        if run is not None:
            for part in result.parts:
                yield run, part


def _differs(batch: AbsorbBatch, run: RunState, part: Part) -> bool:
    """A change of a product of this seller that the receiver knows; anything else has nothing to be judged by."""
    if part.digest is None:
        return False
    product, seller_id = batch.product_batch.products.get(part.item_no), run.execution.seller_id
    if product is None or product.version == 0 or product.is_deleted:
        return False
    if product.seller_id != seller_id:
        return False
    if part.normalized is not None and part.normalized.owner not in (None, seller_id):
        return False
    known = product.hash_of(part.type)
    return known is not None and known != part.digest


def _suspect(batch: AbsorbBatch, part: Part, product: Product) -> _Suspect:
    old = batch.product_batch.stored.get(product.product_id, {}).get(part.type)
    before: Mapping[str, Any] = {}
    if old is not None:
        try:
            before = NormalizedPart.of(read_part(batch.rules.marketplace, part.type, part.item_no, old)).read()
        except Unparsable:
            # Today's parser wants more than the one that read it: then everything about it is new.
            before = {}
    changes = differences(before, part.normalized.read()) if part.normalized is not None else []
    return _Suspect(part, changes, batch.rules.drift.counted_fields(changes))


def _suspect_again(batch: AbsorbBatch, held: HeldPart) -> _Suspect | None:
    product = batch.product_batch.products.get(held.item_no)
    if product is None or product.is_deleted:
        batch.tx.held_parts.free([(held.item_no, held.part)])
        return None
    return _suspect(batch, part_of(batch, held), product)


def _judge(batch: AbsorbBatch, run: RunState, suspect: _Suspect, *, is_last: bool) -> bool:
    """Whether it is withheld: under a case, or until more has been judged."""
    part, rules = suspect.part, batch.rules.drift
    case = next((c for c in run.cases if c.covers(part.type, suspect.fields)), None)
    strange = [] if case else run.tally.strange(part.type, suspect.fields, rules)
    if strange:
        sample = sample_of(suspect.changes, strange)
        case = _case_of(batch, run, part.type, CaseKind.SHARE, strange[0], part.item_no, sample)
    if case is None and (is_last or run.tally.knows_enough(part.type, rules)):
        return False
    digest = part.digest or ""
    batch.product_batch.withheld[part.key] = _held(run, part.item_no, part.type, digest, part.body, batch, case)
    return True


def _held(
    run: RunState, item_no: ItemNo, part: PartType, digest: str, body: bytes, batch: AbsorbBatch, case: Case | None
) -> HeldPart:
    return HeldPart(
        item_no=item_no,
        part=part,
        status=HeldStatus.HELD if case else HeldStatus.PENDING,
        seller_id=run.execution.seller_id,
        execution_id=run.execution.execution_id,
        hash=digest,
        created_at=batch.now,
        case_id=case.case_id if case else None,
        body=body,
    )


def _case_of(
    batch: AbsorbBatch,
    run: RunState,
    part: PartType,
    kind: CaseKind,
    field: str,
    item: ItemNo | None,
    sample: tuple[str, str],
) -> Case:
    """The seller's open case of this, or a new one that a person hears of."""
    for case in run.cases:
        if (case.part, case.kind, case.field) == (part, kind, field):
            return case
    seller, now = run.execution.seller_id, batch.now
    case = Case(
        case_id=CaseId(next(batch.ids)),
        seller_id=seller,
        execution_id=run.execution.execution_id,
        part=part,
        kind=kind,
        field=field,
        created_at=now,
        updated_at=now,
        sample_item=item,
        sample_before=sample[0],
        sample_after=sample[1],
    )
    batch.tx.quarantine.add(case)
    run.cases.append(case)
    about = "could not be read" if kind is CaseKind.UNREADABLE else "changed in too many products at once"
    shown = f"item {item}: {sample[0]!r} became {sample[1]!r}" if kind is CaseKind.SHARE else sample[1]
    text = f"Products of {seller} are held: {field} {about} ({shown})."
    batch.notices.append(Notice("quarantine.opened", case.case_id, text))
    return case


def _free_obsolete(batch: AbsorbBatch, parts: Sequence[Part], standing: Collection[HeldPart]) -> None:
    """What stood for a part that now reads as good or as known has been overtaken."""
    if standing:
        read = {part.key for part in parts} - batch.product_batch.withheld.keys()
        batch.tx.held_parts.free([(h.item_no, h.part) for h in standing if (h.item_no, h.part) in read])
