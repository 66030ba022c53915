"""Read single products again now: detail and options, by ordinary tasks of a run of their own.

Such a run reads no list: it finds no product missing, is no completed run of its seller, and stands beside one that is
going. Its tasks are claimed fairly with all others, within the same budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated

from sellerwatch.catalog.product import Product, ProductNotFound
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.save_execution import add_execution
from sellerwatch.crawling.task import RequestUrl, Task, TaskType
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId, TaskId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.sellers.seller import SellerNotFound

#: Products of one command: their tasks are written in one transaction.
MOST_REFRESHED = 100
EXAMPLE_ITEM = 900000001


@dataclass(eq=False)
class ProductGone(Conflict):
    """The product was deleted: it is read again when its seller's list has it again."""

    item_no: int


@dataclass(frozen=True)
class RefreshRunView(View):
    """The run that reads the products of one seller. In a dry run it has no id: nothing is kept."""

    execution_id: Annotated[str | None, About(example="0198c0de-0000-7000-8002-000000000001")]
    seller_id: Annotated[str, About(example="seller_12345")]
    item_nos: Annotated[Sequence[int], About(example=[EXAMPLE_ITEM])]
    tasks: Annotated[int, About("Requests that will be made: two for each product.", 2)]


@dataclass(frozen=True)
class RefreshView(View):
    """A refresh that was asked for: one run for each seller."""

    dry_run: bool
    products: int
    tasks: int
    runs: Sequence[RefreshRunView]


def refresh_products(
    tx: CrawlTx,
    context: OperationContext,
    item_nos: Sequence[ItemNo],
    rules: CrawlRules,
    deadline: timedelta,
    *,
    dry_run: bool = False,
) -> RefreshView:
    """Ask for the detail and the options of these products to be read again now. One that is not known, is deleted, or
    whose seller is not ACTIVE is refused, and with it all others."""
    wanted = list(dict.fromkeys(item_nos))
    found = tx.products.of_items(wanted)
    of_sellers = defaultdict[SellerId, list[Product]](list)
    for item_no in wanted:
        product = found.get(item_no)
        if product is None:
            raise ProductNotFound(product=str(item_no))
        if product.is_deleted:
            raise ProductGone(item_no=item_no)
        of_sellers[product.seller_id].append(product)
    runs = [
        _refresh(tx, context, seller_id, products, rules, deadline, dry_run=dry_run)
        for seller_id, products in of_sellers.items()
    ]
    return RefreshView(dry_run, len(wanted), sum(run.tasks for run in runs), runs)


def _refresh(
    tx: CrawlTx,
    context: OperationContext,
    seller_id: SellerId,
    products: Sequence[Product],
    rules: CrawlRules,
    deadline: timedelta,
    *,
    dry_run: bool,
) -> RefreshRunView:
    seller, schedule, now = tx.sellers.get(seller_id), tx.schedules.of_seller(seller_id), context.now
    if seller is None or schedule is None:
        raise SellerNotFound(seller_id=seller_id)
    seller.must_be_active()
    items = [product.item_no for product in products]
    execution_id = ExecutionId(next(context.ids))
    tasks = list(_tasks(execution_id, seller_id, items, rules, context))
    if not dry_run:
        run = Execution.create(execution_id, schedule.schedule_id, seller_id, now)
        run = replace(run, refreshed_products=len(items), started_by=context.actor, deadline_at=now + deadline)
        add_execution(tx, run.start(len(tasks), now))
        tx.tasks.add(tasks)
        after = {"sellerId": seller_id, "itemNos": items}
        entry = AuditEntry(now, context.actor, "product.refresh", "execution", execution_id, after=after)
        record_audit(tx, entry)
    return RefreshRunView(None if dry_run else execution_id, seller_id, items, len(tasks))


def _tasks(
    execution_id: ExecutionId,
    seller_id: SellerId,
    items: Sequence[ItemNo],
    rules: CrawlRules,
    context: OperationContext,
) -> Iterator[Task]:
    place = rules.marketplace
    for item_no in items:
        for type_, url in (
            (TaskType.PRODUCT_DETAIL, place.detail_url(item_no)),
            (TaskType.PRODUCT_OPTION, place.option_url(item_no)),
        ):
            yield Task(
                task_id=TaskId(next(context.ids)),
                execution_id=execution_id,
                seller_id=seller_id,
                task_type=type_,
                request_url=RequestUrl.of_settings(type_, url),
                created_at=context.now,
                available_at=context.now,
                item_no=item_no,
            )
