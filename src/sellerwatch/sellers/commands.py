"""What can be done with a seller. Each is one transaction over seller, schedule, scheduler outbox and audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import OutboxId, ScheduleId, SellerId
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.oversight.record_audit import record_audit
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.missed import spread
from sellerwatch.schedules.schedule import Schedule, ScheduleEvent, ScheduleEventType, ScheduleStatus
from sellerwatch.schedules.scheduler_messages import message_of
from sellerwatch.sellers.ports import SellersTx
from sellerwatch.sellers.seller import Seller, SellerExists, SellerNotFound


@dataclass(eq=False)
class NothingToTell(Conflict):
    """The scheduler knows of this seller what there is to know, or is on its way to know it."""

    seller_id: str


def register(
    tx: SellersTx,
    seller_id: SellerId,
    name: str,
    interval: CrawlingInterval | None,
    *,
    actor: str,
    ids: Iterator[str],
    now: datetime,
) -> Seller:
    """A new seller with its schedule. The first run is due one interval later."""
    if tx.sellers.get(seller_id) is not None:
        raise SellerExists(seller_id=seller_id)
    seller = Seller.register(seller_id, name, interval, now)
    schedule, event = Schedule.create(ScheduleId(next(ids)), seller_id, seller.interval, now)
    tx.sellers.add(seller)
    tx.schedules.add(schedule)
    tx.scheduler_outbox.add(message_of(event, OutboxId(next(ids)), now))
    record_audit(tx, AuditEntry(now, actor, "seller.register", "seller", seller_id, after=_shown(seller)))
    return seller


def update_interval(
    tx: SellersTx, seller_id: SellerId, interval: CrawlingInterval, *, actor: str, ids: Iterator[str], now: datetime
) -> Seller:
    seller, schedule = _found(tx, seller_id)
    changed = seller.update_interval(interval, now)
    moved, event = schedule.update_interval(interval, now)
    return _keep(tx, "seller.update_interval", seller, changed, moved, event, actor, ids, now)


def activate(tx: SellersTx, seller_id: SellerId, *, actor: str, ids: Iterator[str], now: datetime) -> Seller:
    seller, schedule = _found(tx, seller_id)
    changed = seller.activate(now)
    moved, event = schedule.activate(now)
    return _keep(tx, "seller.activate", seller, changed, moved, event, actor, ids, now)


def deactivate(tx: SellersTx, seller_id: SellerId, *, actor: str, ids: Iterator[str], now: datetime) -> Seller:
    """Not crawled any more. Ending a run that is going is the caller's (`crawling.put_back`), in one transaction."""
    seller, schedule = _found(tx, seller_id)
    changed = seller.deactivate(now)
    moved, event = schedule.deactivate(now)
    return _keep(tx, "seller.deactivate", seller, changed, moved, event, actor, ids, now)


def _found(tx: SellersTx, seller_id: SellerId) -> tuple[Seller, Schedule]:
    seller, schedule = tx.sellers.get(seller_id), tx.schedules.of_seller(seller_id)
    if seller is None or schedule is None:
        raise SellerNotFound(seller_id=seller_id)
    return seller, schedule


def _keep(
    tx: SellersTx,
    action: str,
    before: Seller,
    after: Seller,
    schedule: Schedule,
    event: ScheduleEvent,
    actor: str,
    ids: Iterator[str],
    now: datetime,
) -> Seller:
    tx.sellers.save(after)
    tx.schedules.save(schedule)
    tx.scheduler_outbox.add(message_of(event, OutboxId(next(ids)), now))
    entry = AuditEntry(now, actor, action, "seller", after.seller_id, before=_shown(before), after=_shown(after))
    record_audit(tx, entry)
    return after


def _shown(seller: Seller) -> dict[str, Any]:
    return {"name": seller.name, "status": seller.status, "interval": seller.interval.expression}


def run_now(tx: SellersTx, seller_id: SellerId, *, actor: str, now: datetime) -> Schedule:
    """Make the seller's next run due at once: the scheduler starts it at its next turn, and the rhythm goes on from
    here. Set back by the seller's own spread, which would otherwise let it wait for minutes.
    """
    seller, schedule = tx.sellers.get(seller_id), tx.schedules.of_seller(seller_id)
    if seller is None or schedule is None:
        raise SellerNotFound(seller_id=seller_id)
    seller.must_be_active()
    moved = schedule.ran(now - spread(schedule), now)
    tx.schedules.save(moved)
    shown = {"nextRunAt": schedule.next_run_at}, {"nextRunAt": moved.next_run_at}
    record_audit(tx, AuditEntry(now, actor, "schedule.run_now", "seller", seller_id, *shown))
    return moved


def retry_schedule(
    tx: SellersTx, seller_id: SellerId, *, actor: str, ids: Iterator[str], now: datetime
) -> tuple[Schedule, int]:
    """Tell the scheduler once more what it would not take, in order; says how many messages that are. Where they were
    discarded, a new one tells it how the schedule stands. FAILED ends when the scheduler has taken it."""
    schedule = tx.schedules.of_seller(seller_id)
    if schedule is None:
        raise SellerNotFound(seller_id=seller_id)
    failed = tx.outbox_queries(OutboxKind.SCHEDULER).failed_of(schedule.schedule_id)
    if failed:
        messages = tx.scheduler_outbox.get_many(failed)
        tx.scheduler_outbox.move([message.replay(now) for message in messages], now)
        tx.scheduler_outbox.release_held([schedule.schedule_id], now)
    elif schedule.status is ScheduleStatus.FAILED and not _is_being_told(tx, schedule):
        is_off = schedule.next_run_at is None
        event = ScheduleEvent(ScheduleEventType.DEACTIVATED if is_off else ScheduleEventType.REGISTERED, schedule)
        tx.scheduler_outbox.add(message_of(event, OutboxId(next(ids)), now))
    else:
        raise NothingToTell(seller_id=seller_id)
    note = f"{len(failed)} message(s) replayed" if failed else "told anew"
    record_audit(tx, AuditEntry(now, actor, "schedule.retry", "seller", seller_id, note=note))
    return schedule, max(1, len(failed))


def _is_being_told(tx: SellersTx, schedule: Schedule) -> bool:
    newest = tx.scheduler_outbox.latest_of(schedule.schedule_id, 1)
    return any(message.status in (MessageStatus.WAITING, MessageStatus.SENDING) for message in newest)
