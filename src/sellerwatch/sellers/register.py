"""What can be done with a seller. Each is one transaction over seller, schedule, scheduler outbox and audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sellerwatch.kernel.ids import OutboxId, ScheduleId, SellerId
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule, ScheduleEvent
from sellerwatch.schedules.telling import message_of
from sellerwatch.sellers.ports import SellersTx
from sellerwatch.sellers.seller import Seller, SellerExists, SellerNotFound


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
    tx.audit.record(AuditEntry(now, actor, "seller.register", "seller", seller_id, after=_shown(seller)))
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
    tx.audit.record(entry)
    return after


def _shown(seller: Seller) -> dict[str, Any]:
    return {"name": seller.name, "status": seller.status, "interval": seller.interval.expression}
