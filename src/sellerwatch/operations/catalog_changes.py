"""What quarantine, removals and reparsing share: they change the catalogue outside of a run, in steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from sellerwatch.crawling.absorb_batch import CrawlRules, Group, Run
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.ids import ExecutionId, ItemNo

#: Products or parts of one transaction. A case or a removal may be about thousands: what is left after an interruption
#: is still held, and the same operation finishes it.
BATCH = 100
#: Steps that one request may take.
MOST_STEPS = 50


def open_group(
    tx: CrawlTx,
    execution_id: ExecutionId,
    rules: CrawlRules,
    ids: Iterator[str],
    now: datetime,
    items: Sequence[ItemNo],
) -> tuple[Group, Run | None]:
    """Return a group for the products of a run, and that run if it still exists."""
    group = Group.begin(tx, rules, ids, now, (execution_id,), items)
    return group, group.runs.get(execution_id)


def announce_and_write(group: Group, run: Run | None, items: Sequence[ItemNo] = ()) -> None:
    """Write the group with an event for each changed product, except those that an open run has tasks of: the run
    writes their events when these end."""
    execution_id = None if run is None else run.execution.execution_id
    for item in [*items, *(() if run is None else run.ended_items)]:
        product = group.product_batch.products[item]
        open_run = group.tx.executions.open_of(product.seller_id)
        if open_run is None or not group.tx.run_tasks.open_items(open_run.execution_id, [item]):
            group.announce(item, execution_id)
    group.write()
