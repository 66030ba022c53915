"""What quarantine, removals and reparsing share: they change the catalogue outside of a run, in steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from sellerwatch.crawling.absorb_batch import AbsorbBatch, CrawlRules, RunState
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
) -> tuple[AbsorbBatch, RunState | None]:
    """Return a batch for the products of a run, and that run if it still exists."""
    batch = AbsorbBatch.begin(tx, rules, ids, now, (execution_id,), items)
    return batch, batch.runs.get(execution_id)


def announce_and_write(batch: AbsorbBatch, run: RunState | None, items: Sequence[ItemNo] = ()) -> None:
    """Write the batch with an event for each changed product, except those that an open run has tasks of: the run
    writes their events when these end."""
    execution_id = None if run is None else run.execution.execution_id
    for item in [*items, *(() if run is None else run.ended_items)]:
        product = batch.product_batch.products[item]
        open_run = batch.tx.executions.open_of(product.seller_id)
        if open_run is None or not batch.tx.run_tasks.open_items(open_run.execution_id, [item]):
            batch.announce(item, execution_id)
    batch.write()
