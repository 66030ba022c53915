"""Read stored bodies again with the parser of this version, and take in what differs from the last event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated

import orjson

from sellerwatch.catalog.absorb import Part, read_part
from sellerwatch.catalog.announce import current
from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.catalog.product import PartType, Product
from sellerwatch.catalog.product_views import ChangeView
from sellerwatch.catalog.queries import count_complete, last_event_data
from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.clock import EPOCH
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import Cursor, decode_cursor, encode_cursor
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import error_text
from sellerwatch.operations.catalog_changes import BATCH, announce_and_write
from sellerwatch.operations.session import OperationSession, Progress
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.sellers.queries import require_seller

REPARSE = "reparse"
#: Products that are named; the counts are of all of them.
MOST_ITEMS = 100
MOST_PROBLEMS = 20


@dataclass(frozen=True)
class ChangeSampleView(ChangeView):
    """A difference, as an example."""

    item_no: int


@dataclass(frozen=True)
class FieldDifferencesView(View):
    """A field that differs, in how many products, with one of them as an example."""

    field: Annotated[str, About(example="options[].stock")]
    products: int
    sample: ChangeSampleView


@dataclass(frozen=True)
class UnreadableBodyView(View):
    """A product with a stored body that cannot be read."""

    item_no: int
    message: str


@dataclass(frozen=True)
class ReparseView(View):
    """What reading stored bodies again has found. Where `next` is not null, go on with it as the cursor."""

    dry_run: bool
    read: Annotated[int, About("Products read.")]
    differing: int
    events: int
    unreadable: int
    fields: Sequence[FieldDifferencesView]
    items: Annotated[Sequence[int], About("The first that differ.")]
    problems: Sequence[UnreadableBodyView]
    next: str | None


@dataclass(frozen=True)
class ReparsedProduct:
    """A product whose stored bodies differ from its last event, or cannot be read."""

    item_no: ItemNo
    changes: tuple[Change, ...]
    problem: str | None = None


@dataclass(frozen=True)
class ReparseStep:
    """The result of one transaction. `after` is where the next one begins, None at the end."""

    read: int
    found: tuple[ReparsedProduct, ...]
    events: int
    after: int | None


@dataclass
class ReparseSummary:
    """The steps so far: counts, and so few examples that a large catalogue fits."""

    read: int = 0
    differing: int = 0
    events: int = 0
    unreadable: int = 0
    by_field: Counter[str] = field(default_factory=Counter)
    samples: dict[str, ChangeSampleView] = field(default_factory=dict)
    items: list[ItemNo] = field(default_factory=list)
    problems: list[UnreadableBodyView] = field(default_factory=list)

    def add(self, step: ReparseStep) -> None:
        self.read += step.read
        self.events += step.events
        for product in step.found:
            if product.problem is None:
                self._add_differing(product)
            else:
                self.unreadable += 1
                self.problems.append(UnreadableBodyView(product.item_no, product.problem))
        del self.problems[MOST_PROBLEMS:], self.items[MOST_ITEMS:]

    def _add_differing(self, product: ReparsedProduct) -> None:
        self.differing += 1
        self.items.append(product.item_no)
        self.by_field.update({change.general_field for change in product.changes})
        for change in product.changes:
            if change.general_field not in self.samples:
                sample = ChangeSampleView(**vars(ChangeView.of(change)), item_no=product.item_no)
                self.samples[change.general_field] = sample

    def view(self, after: int | None, *, dry_run: bool) -> ReparseView:
        return ReparseView(
            dry_run=dry_run,
            read=self.read,
            differing=self.differing,
            events=self.events,
            unreadable=self.unreadable,
            fields=[
                FieldDifferencesView(name, number, self.samples[name]) for name, number in self.by_field.most_common()
            ],
            items=self.items,
            problems=self.problems,
            next=None if after is None else encode_cursor(REPARSE, Cursor(EPOCH, after)),
        )


async def reparse_products(
    session: OperationSession,
    seller_id: SellerId | None = None,
    *,
    cursor: str | None = None,
    steps: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ReparseView:
    """Read the stored bodies of complete products again, and take in what differs from their last events.

    Each step of 100 products is a transaction; `steps` bounds their number. A product with a body that cannot be read
    stays as it is.
    """
    position = decode_cursor(REPARSE, cursor)
    after = 0 if position is None else position.row
    total = 0 if progress is None else await session.ask(count_complete, seller_id)
    summary = ReparseSummary()
    call = session.ask if dry_run else session.run
    for number in count(1):
        step = await call(_reparse_step, seller_id, session.rules, after, dry_run=dry_run)
        summary.add(step)
        if progress is not None:
            progress(summary.read, total)
        if step.after is None or number == steps:
            break
        after = step.after
    return summary.view(step.after, dry_run=dry_run)


def _reparse_step(
    tx: CrawlTx,
    context: OperationContext,
    seller_id: SellerId | None,
    rules: CrawlRules,
    after: int,
    *,
    dry_run: bool,
) -> ReparseStep:
    require_seller(tx, seller_id)
    rows = tx.product_queries.complete_after(after, seller_id, BATCH)
    products = [product for _, product in rows]
    batch = AbsorbBatch.begin(tx, rules, context.ids, context.now, (), [product.item_no for product in products])
    batch.product_batch.stored = tx.bodies.latest_raws([product.product_id for product in products])
    found = [reparsed for product in products if (reparsed := _reparse(tx, context, batch, product)) is not None]
    if not dry_run:
        differing = [reparsed.item_no for reparsed in found if reparsed.problem is None]
        for item_no in differing:
            _take_in(batch, item_no)
        announce_and_write(batch, None, differing)
        if batch.events:
            changed = {"products": [reparsed.item_no for reparsed in found]}
            subject = seller_id or "*"
            action = "products.reparse"
            record_audit(tx, AuditEntry(context.now, context.actor, action, "seller", subject, after=changed))
    return ReparseStep(len(rows), tuple(found), batch.events, rows[-1][0] if len(rows) == BATCH else None)


def _reparse(tx: CrawlTx, context: OperationContext, batch: AbsorbBatch, product: Product) -> ReparsedProduct | None:
    """Read the bodies of a product; return None where they say the same as its last event."""
    if product.version == 0:
        return None
    try:
        _, data = current(batch.product_batch, product, tx.bodies, batch.rules.marketplace)
    except Unparsable as unparsable:
        problem = error_text(unparsable.code, unparsable.facts, context.language)
        return ReparsedProduct(product.item_no, (), problem)
    changes = differences(last_event_data(tx, product), orjson.loads(data))
    return ReparsedProduct(product.item_no, tuple(changes)) if changes else None


def _take_in(batch: AbsorbBatch, item: ItemNo) -> None:
    """Give a product the hashes of its stored bodies, so that the differences become an event."""
    product_batch = batch.product_batch
    for type_ in PartType:
        product = product_batch.products[item]
        body = product_batch.stored[product.product_id][type_]
        part = Part.of(type_, item, read_part(batch.rules.marketplace, type_, item, body), body)
        seen, _ = product.see_part(type_, part.digest or "", batch.now)
        product_batch.put(seen)
