"""What people and callers can do with sellers and their schedules. Each command is one transaction over the seller, its
schedule, the scheduler outbox and the audit trail. Deactivating also ends a run: `operations/sellers.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import OutboxId, ScheduleId, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import spread
from sellerwatch.schedules.queries import ScheduleView
from sellerwatch.schedules.schedule import Schedule, ScheduleEvent, ScheduleEventType, ScheduleStatus
from sellerwatch.schedules.scheduler_messages import message_of
from sellerwatch.sellers.ports import SellersTx
from sellerwatch.sellers.queries import SellerView, find_seller
from sellerwatch.sellers.seller import Seller, SellerExists


@dataclass(eq=False)
class NothingToTell(Conflict):
    """The scheduler has every message about this seller, or a message is on its way to it."""

    seller_id: str


@dataclass(frozen=True)
class ChangedSellerView(SellerView):
    """A seller after a change. With `dryRun` nothing was changed: it is shown as it would be."""

    dry_run: bool


@dataclass(frozen=True)
class ChangedScheduleView(ScheduleView):
    """A schedule after a change. With `dryRun` nothing was changed: it is shown as it would be."""

    dry_run: bool


@dataclass(frozen=True)
class RetriedScheduleView(ChangedScheduleView):
    messages: Annotated[int, About("Messages that wait to be sent to the scheduler.")]


def register_seller(
    tx: SellersTx,
    context: OperationContext,
    seller_id: SellerId,
    name: str,
    interval: CrawlingInterval | None,
    *,
    crawl_now: bool = False,
) -> ChangedSellerView:
    """Register a seller with its schedule. Its first run is due one interval later, or at once with `crawl_now`."""
    if tx.sellers.get(seller_id) is not None:
        raise SellerExists(seller_id=seller_id)
    seller = Seller.register(seller_id, name, interval, context.now)
    schedule, event = Schedule.create(ScheduleId(next(context.ids)), seller_id, seller.interval, context.now)
    tx.sellers.add(seller)
    tx.schedules.add(schedule)
    _tell_scheduler(tx, context, event)
    _record(tx, context, "seller.register", seller_id, None, _audited(seller))
    if crawl_now:
        schedule = _make_due(tx, context, schedule)
    return ChangedSellerView.of(seller, schedule, dry_run=context.dry_run)


def change_interval(
    tx: SellersTx, context: OperationContext, seller_id: SellerId, interval: CrawlingInterval
) -> ChangedSellerView:
    """Change how often an ACTIVE seller is crawled. The next run is one interval from now."""
    seller, schedule = find_seller(tx, seller_id)
    changed = seller.update_interval(interval, context.now)
    moved, event = schedule.update_interval(interval, context.now)
    _save(tx, context, "seller.update_interval", seller, changed, event)
    return ChangedSellerView.of(changed, moved, dry_run=context.dry_run)


def activate_seller(tx: SellersTx, context: OperationContext, seller_id: SellerId) -> ChangedSellerView:
    """Crawl a seller again. Its next run is one interval from now."""
    seller, schedule = find_seller(tx, seller_id)
    changed = seller.activate(context.now)
    moved, event = schedule.activate(context.now)
    _save(tx, context, "seller.activate", seller, changed, event)
    return ChangedSellerView.of(changed, moved, dry_run=context.dry_run)


def stop_crawling(tx: SellersTx, seller_id: SellerId, context: OperationContext) -> tuple[Seller, Schedule]:
    """Deactivate a seller and its schedule; the part of `deactivate_seller` that is about no run."""
    seller, schedule = find_seller(tx, seller_id)
    changed = seller.deactivate(context.now)
    moved, event = schedule.deactivate(context.now)
    _save(tx, context, "seller.deactivate", seller, changed, event)
    return changed, moved


def archive_seller(tx: SellersTx, seller_id: SellerId, context: OperationContext, note: str) -> tuple[Seller, Schedule]:
    """Archive a seller; the part of `remove_seller` that is about no run and no product."""
    seller, schedule = find_seller(tx, seller_id)
    changed = seller.archive(context.now)
    if seller.is_active:
        schedule, event = schedule.deactivate(context.now)
        tx.schedules.save(schedule)
        _tell_scheduler(tx, context, event)
    tx.sellers.save(changed)
    _record(tx, context, "seller.remove", seller_id, _audited(seller), _audited(changed), note)
    return changed, schedule


def run_now(tx: SellersTx, context: OperationContext, seller_id: SellerId) -> ChangedScheduleView:
    """Make the next run of an ACTIVE seller due at once; the runs after it count from now."""
    seller, schedule = find_seller(tx, seller_id)
    seller.must_be_active()
    return ChangedScheduleView.of(_make_due(tx, context, schedule), dry_run=context.dry_run)


def retry_schedule(tx: SellersTx, context: OperationContext, seller_id: SellerId) -> RetriedScheduleView:
    """Send the scheduler once more, in order, the messages that it did not take. Where they were discarded, a new one
    says how the schedule is. FAILED ends when the scheduler has taken them."""
    _, schedule = find_seller(tx, seller_id)
    failed = tx.outbox_queries(OutboxKind.SCHEDULER).failed_of(schedule.schedule_id)
    if failed:
        messages = tx.scheduler_outbox.get_many(failed)
        tx.scheduler_outbox.move([message.replay(context.now) for message in messages], context.now)
        tx.scheduler_outbox.release_held([schedule.schedule_id], context.now)
    elif schedule.status is ScheduleStatus.FAILED and not _is_being_told(tx, schedule):
        is_off = schedule.next_run_at is None
        event_type = ScheduleEventType.DEACTIVATED if is_off else ScheduleEventType.REGISTERED
        _tell_scheduler(tx, context, ScheduleEvent(event_type, schedule))
    else:
        raise NothingToTell(seller_id=seller_id)
    note = f"{len(failed)} message(s) replayed" if failed else "sent again"
    _record(tx, context, "schedule.retry", seller_id, note=note)
    return RetriedScheduleView.of(schedule, dry_run=context.dry_run, messages=max(1, len(failed)))


def _make_due(tx: SellersTx, context: OperationContext, schedule: Schedule) -> Schedule:
    """Set the next run back by the seller's own spread, which would otherwise delay it by minutes."""
    moved = schedule.ran(context.now - spread(schedule), context.now)
    tx.schedules.save(moved)
    before, after = {"nextRunAt": schedule.next_run_at}, {"nextRunAt": moved.next_run_at}
    _record(tx, context, "schedule.run_now", schedule.seller_id, before, after)
    return moved


def _is_being_told(tx: SellersTx, schedule: Schedule) -> bool:
    newest = tx.scheduler_outbox.latest_of(schedule.schedule_id, 1)
    return any(message.status in (MessageStatus.WAITING, MessageStatus.SENDING) for message in newest)


def _save(
    tx: SellersTx, context: OperationContext, action: str, before: Seller, after: Seller, event: ScheduleEvent
) -> None:
    tx.sellers.save(after)
    tx.schedules.save(event.schedule)
    _tell_scheduler(tx, context, event)
    _record(tx, context, action, after.seller_id, _audited(before), _audited(after))


def _tell_scheduler(tx: SellersTx, context: OperationContext, event: ScheduleEvent) -> None:
    tx.scheduler_outbox.add(message_of(event, OutboxId(next(context.ids)), context.now))


def _record(
    tx: SellersTx,
    context: OperationContext,
    action: str,
    seller_id: SellerId,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    note: str | None = None,
) -> None:
    record_audit(tx, AuditEntry(context.now, context.actor, action, "seller", seller_id, before, after, note=note))


def _audited(seller: Seller) -> dict[str, Any]:
    """Return what the audit trail has of a seller before and after a change."""
    return {"name": seller.name, "status": seller.status, "interval": seller.expression}
