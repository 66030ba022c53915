"""Make a restored backup the database that is worked with: what happened since it was made is unknown to it.

- Requests of since then are not in its windows: they count as full for one window.
- Events of since then have versions and bodies that it does not know. So no event of before is sent any more, versions
  go on above all that were sent (`version_floor_at`), and the receiver is sent the present state of each product.
"""

from __future__ import annotations

from sellerwatch.agents.agent_status import FullReason
from sellerwatch.agents.limits import PoolRules
from sellerwatch.catalog.resync import ResyncChoice
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.operations.resyncs import NothingToResync, cancel_resync, start_resync
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.oversight.backups import Restore, version_floor_at

#: Messages that are read at a time.
BATCH = 500
#: A message that is one of these may be sent.
UNFINISHED = (MessageStatus.WAITING, MessageStatus.SENDING, MessageStatus.FAILED)


def adopt_backup(tx: ServiceTx, context: OperationContext, pool: PoolRules, file: str) -> tuple[int, int]:
    """Prepare a restored database for its first start; return how many events of before are given up, and of how many
    products the receiver will be sent the state."""
    tx.windows.fill(context.moment, pool.limits(tx.overrides.all()), FullReason.RESTORED)
    floor = version_floor_at(context.now)
    tx.backups.add_restore(Restore(context.now, file, floor))
    given_up = sum(_supersede(tx, context, status) for status in UNFINISHED)
    products = _resync(tx, context)
    after: dict[str, object] = {
        "file": file,
        "eventsGivenUp": given_up,
        "products": products,
        "versionsFrom": floor + 1,
    }
    record_audit(tx, AuditEntry(context.now, context.actor, "db.restore", "database", "database", after=after))
    return given_up, products


def _supersede(tx: ServiceTx, context: OperationContext, status: MessageStatus) -> int:
    outbox, queries = tx.outbox(OutboxKind.PRODUCT), tx.outbox_queries(OutboxKind.PRODUCT)
    given_up = 0
    while found := queries.ids(MessageFilter(status=status), BATCH):
        outbox.move([message.supersede() for message in outbox.get_many(found)], context.now)
        given_up += len(found)
    return given_up


def _resync(tx: ServiceTx, context: OperationContext) -> int:
    """Begin a resync of all products. Those that were going on in the backup are replaced by it."""
    for resync_id in tx.resyncs.running():
        cancel_resync(tx, context, resync_id)
    try:
        return start_resync(tx, context, ResyncChoice()).products
    except NothingToResync:
        return 0
