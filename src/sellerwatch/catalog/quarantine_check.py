"""Check the changed parts of products before they are taken in, and hold those that may be wrong.

`catalog/quarantine.py` says what may be wrong. A batch is counted as a whole before its parts are judged: each part
counts for and against all others of the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sellerwatch.catalog.absorb import Part, ProductBatch, absorb_part, read_part
from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.facts import NormalizedPart
from sellerwatch.catalog.ports import CatalogTx, Reader, Unparsable
from sellerwatch.catalog.product import ForeignProduct, PartType, Product
from sellerwatch.catalog.quarantine import (
    Case,
    CaseKind,
    CheckCounts,
    DriftRules,
    HeldPart,
    HeldStatus,
    problem_kind,
    sample_of,
)
from sellerwatch.kernel.answer_problem import AnswerProblem
from sellerwatch.kernel.ids import CaseId, ExecutionId, ItemNo, SellerId
from sellerwatch.kernel.notices import Notice

#: Who decided a case that no person had to decide.
NOT_MET_AGAIN = "overtaken"


@dataclass(frozen=True, slots=True)
class UnreadableAnswer:
    """An answer that is JSON and does not match the contract; kept, so that a later parser can read it. A list page has
    no `item_no`."""

    part: PartType
    item_no: ItemNo | None
    problem: AnswerProblem
    body: bytes
    hash: str

    @property
    def kind_of_problem(self) -> str:
        """The kind of the parser's error: the same for every product."""
        return problem_kind(self.part, self.problem)


@dataclass
class CheckedRun:
    """What the parts of a run are judged by: what the run has found so far, and the open cases of its seller."""

    seller_id: SellerId
    execution_id: ExecutionId
    tally: CheckCounts
    cases: list[Case]


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A part whose facts differ from those of its product. `fields` are those that can open a case."""

    part: Part
    changes: Sequence[Change]
    fields: frozenset[str]


@dataclass(frozen=True)
class QuarantineCheck:
    """Checks parts within one transaction. For each case that it opens it adds a notice to `notices`."""

    product_batch: ProductBatch
    tx: CatalogTx
    reader: Reader
    rules: DriftRules
    ids: Iterator[str]
    now: datetime
    notices: list[Notice]

    def check(self, parts: Sequence[tuple[CheckedRun, Part]]) -> None:
        """Judge the parts of a batch. Afterwards the product batch knows which of them it must not take in."""
        changed = [(run, part) for run, part in parts if self._differs(run, part)]
        products = self.product_batch.products
        items = [*(part.item_no for run, part in parts if run.cases), *(part.item_no for _, part in changed)]
        earlier = self.tx.held_parts.held(items) if items else {}
        if changed:
            ids = [products[part.item_no].product_id for _, part in changed]
            self.product_batch.stored = self.tx.bodies.latest_raws(ids)
        for run in {id(run): run for run, _ in parts}.values():
            for part_type, number in Counter(part.type for each, part in parts if each is run).items():
                run.tally.judge(part_type, number)
        suspects: list[tuple[CheckedRun, _Suspect]] = []
        for run, part in changed:
            held = earlier.get(part.key)
            if held is not None and held.status is HeldStatus.DROPPED and held.hash == part.digest:
                self.product_batch.withheld[part.key] = None
                continue
            suspect = self._suspect(part, products[part.item_no])
            run.tally.change(part.type, self.rules.all_fields(suspect.changes))
            suspects.append((run, suspect))
        for run, suspect in suspects:
            self._withhold(run, suspect, is_last=False)
        self.tx.held_parts.put([held for held in self.product_batch.withheld.values() if held is not None])
        self._free_overtaken([part for _, part in parts], earlier.values())

    def hold_unreadable(self, run: CheckedRun, answer: UnreadableAnswer) -> None:
        """Hold an answer that the parser cannot read under a case, unless an equal one was dropped."""
        item = answer.item_no
        held = self.tx.held_parts.held([item]).get((item, answer.part)) if item is not None else None
        if held is not None and held.status is HeldStatus.DROPPED and held.hash == answer.hash:
            return
        sample = ("", answer.problem.stored)
        case = self._case_of(run, answer.part, CaseKind.UNREADABLE, answer.kind_of_problem, item, sample)
        if item is not None:
            self.tx.held_parts.put([self._held(run, item, answer.part, answer.hash, answer.body, case)])

    def settle_pending(self, run: CheckedRun, parts: Iterable[PartType]) -> list[ItemNo]:
        """Decide the pending parts of these types: enough of the run has been judged, or all of it. Return the products
        that had a part taken in; the others are held."""
        pending = [held for part in parts for held in self.tx.held_parts.pending(run.execution_id, part)]
        if not pending:
            return []
        self.load(pending)
        taken = []
        for held in pending:
            suspect = self._suspect_again(held)
            if suspect is None:
                continue
            if self._withhold(run, suspect, is_last=True):
                withheld = self.product_batch.withheld[held.item_no, held.part]
                self.tx.held_parts.put([withheld] if withheld is not None else [])
            elif self.take_in(run, suspect.part, held.created_at):
                taken.append(held.item_no)
        return taken

    def close_overtaken(self, run: CheckedRun) -> None:
        """At the end of a run, close the cases under which nothing is held and which the run did not meet again."""
        held = self.tx.held_parts.count_held([case.case_id for case in run.cases])
        for case in run.cases:
            if not held.get(case.case_id) and case.field not in run.tally.unreadable:
                self.tx.quarantine.save(case.decide("release", NOT_MET_AGAIN, self.now))

    def load(self, held: Sequence[HeldPart]) -> None:
        """Put the products of held parts into the product batch, with their bodies."""
        products = self.product_batch.products
        products.update(self.tx.products.of_items([each.item_no for each in held if each.item_no not in products]))
        ids = [products[each.item_no].product_id for each in held if each.item_no in products]
        self.product_batch.stored = {**self.tx.bodies.latest_raws(ids), **self.product_batch.stored}

    def take_in(self, run: CheckedRun, part: Part, read_at: datetime) -> bool:
        """Take a part that was held into its product; it is as old as its reading. Return False where it is another
        seller's."""
        self.product_batch.withheld.pop(part.key, None)
        self.tx.held_parts.free([part.key])
        try:
            absorb_part(self.product_batch, part, run.seller_id, self.now)
        except ForeignProduct:
            return False
        self.product_batch.note_read(part, read_at)
        return True

    def read(self, held: HeldPart) -> Part:
        """Read a held body with the parser of this version."""
        facts = read_part(self.reader, held.part, held.item_no, held.body)
        return Part.of(held.part, held.item_no, facts, held.body)

    def _differs(self, run: CheckedRun, part: Part) -> bool:
        """Whether it changes a product of this seller that the receiver knows: nothing else can be judged."""
        if part.digest is None:
            return False
        product = self.product_batch.products.get(part.item_no)
        if product is None or product.version == 0 or product.is_deleted or product.seller_id != run.seller_id:
            return False
        if part.normalized is not None and part.normalized.owner not in (None, run.seller_id):
            return False
        known = product.hash_of(part.type)
        return known is not None and known != part.digest

    def _suspect(self, part: Part, product: Product) -> _Suspect:
        old = self.product_batch.stored.get(product.product_id, {}).get(part.type)
        before: Mapping[str, Any] = {}
        if old is not None:
            try:
                before = NormalizedPart.of(read_part(self.reader, part.type, part.item_no, old)).read()
            except Unparsable:
                # The parser of this version requires more than the one that read it: then every field has changed.
                before = {}
        changes = differences(before, part.normalized.read()) if part.normalized is not None else []
        return _Suspect(part, changes, self.rules.counted_fields(changes))

    def _suspect_again(self, held: HeldPart) -> _Suspect | None:
        product = self.product_batch.products.get(held.item_no)
        if product is None or product.is_deleted:
            self.tx.held_parts.free([(held.item_no, held.part)])
            return None
        return self._suspect(self.read(held), product)

    def _withhold(self, run: CheckedRun, suspect: _Suspect, *, is_last: bool) -> bool:
        """Withhold a part under a case, or until more parts have been judged. Return False where it is good."""
        part = suspect.part
        case = next((c for c in run.cases if c.covers(part.type, suspect.fields)), None)
        strange = [] if case else run.tally.strange(part.type, suspect.fields, self.rules)
        if strange:
            sample = sample_of(suspect.changes, strange)
            case = self._case_of(run, part.type, CaseKind.SHARE, strange[0], part.item_no, sample)
        if case is None and (is_last or run.tally.knows_enough(part.type, self.rules)):
            return False
        held = self._held(run, part.item_no, part.type, part.digest or "", part.body, case)
        self.product_batch.withheld[part.key] = held
        return True

    def _held(
        self, run: CheckedRun, item_no: ItemNo, part: PartType, digest: str, body: bytes, case: Case | None
    ) -> HeldPart:
        return HeldPart(
            item_no=item_no,
            part=part,
            status=HeldStatus.HELD if case else HeldStatus.PENDING,
            seller_id=run.seller_id,
            execution_id=run.execution_id,
            hash=digest,
            created_at=self.now,
            case_id=case.case_id if case else None,
            body=body,
        )

    def _case_of(
        self,
        run: CheckedRun,
        part: PartType,
        kind: CaseKind,
        field: str,
        item: ItemNo | None,
        sample: tuple[str, str],
    ) -> Case:
        """Return the open case of the seller for this, or open one and add a notice."""
        for case in run.cases:
            if (case.part, case.kind, case.field) == (part, kind, field):
                return case
        case = Case(
            case_id=CaseId(next(self.ids)),
            seller_id=run.seller_id,
            execution_id=run.execution_id,
            part=part,
            kind=kind,
            field=field,
            created_at=self.now,
            updated_at=self.now,
            sample_item=item,
            sample_before=sample[0],
            sample_after=sample[1],
        )
        self.tx.quarantine.add(case)
        run.cases.append(case)
        problem = AnswerProblem.read(sample[1]) if kind is CaseKind.UNREADABLE else None
        facts: dict[str, object] = {"seller": run.seller_id, "field": field, "part": part, "item": str(item)}
        facts |= {"before": sample[0], "after": problem or sample[1]}
        self.notices.append(Notice("quarantine.opened", case.case_id, facts, variant=kind.lower()))
        return case

    def _free_overtaken(self, parts: Sequence[Part], earlier: Collection[HeldPart]) -> None:
        """Free the held parts that a newer part of this batch replaces."""
        if earlier:
            read = {part.key for part in parts} - self.product_batch.withheld.keys()
            self.tx.held_parts.free([(h.item_no, h.part) for h in earlier if (h.item_no, h.part) in read])
