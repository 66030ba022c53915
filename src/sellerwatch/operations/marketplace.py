"""Pause and resume requests to the marketplace, all of them or those for one seller.

Each is one transaction and one entry of the audit trail. Running processes see it within a second (`pause_state.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sellerwatch.agents.marketplace_status import MarketplaceStatus, marketplace_status
from sellerwatch.agents.ports import Pause
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.sellers.seller import SellerNotFound

NOT_PAUSED: dict[str, Any] = {"isPaused": False}


@dataclass(eq=False)
class MarketplaceAlreadyPaused(Conflict):
    """All requests are paused already."""

    by: str


@dataclass(eq=False)
class MarketplaceNotPaused(Conflict):
    """There is no pause of all requests to end."""


@dataclass(eq=False)
class SellerAlreadyPaused(Conflict):
    """The requests for this seller are paused already."""

    seller_id: str
    by: str


@dataclass(eq=False)
class SellerNotPaused(Conflict):
    """There is no pause of this seller's requests to end. A pause of all requests is another one."""

    seller_id: str


def pause(tx: CrawlTx, seller_id: SellerId | None, *, actor: str, now: datetime) -> MarketplaceStatus:
    """Stop requests to the marketplace until they are resumed, over restarts too. Requests under way finish, nothing is
    lost: tasks and starts wait, and the time does not count for the deadlines of runs."""
    found = _find(tx, seller_id)
    if found is not None or not tx.marketplace.pause(seller_id, actor, now):
        by = "" if found is None else found.paused_by
        if seller_id is None:
            raise MarketplaceAlreadyPaused(by=by)
        raise SellerAlreadyPaused(seller_id=seller_id, by=by)
    _record(tx, "marketplace.pause", seller_id, NOT_PAUSED, _shown(Pause(seller_id, now, actor)), actor, now)
    return marketplace_status(tx)


def resume(tx: CrawlTx, seller_id: SellerId | None, *, actor: str, now: datetime) -> MarketplaceStatus:
    """Let requests leave again. The deadlines of the runs concerned move on by the time they were paused."""
    found = _find(tx, seller_id)
    if found is None or not tx.marketplace.resume(seller_id):
        if seller_id is None:
            raise MarketplaceNotPaused
        raise SellerNotPaused(seller_id=seller_id)
    _extend_deadlines(tx, found, now)
    _record(tx, "marketplace.resume", seller_id, _shown(found), NOT_PAUSED, actor, now)
    return marketplace_status(tx)


def pause_notice(seller_id: SellerId | None, actor: str, *, is_pause: bool) -> Notice:
    """What others should hear of; to be told after the transaction."""
    requests = "to the marketplace" if seller_id is None else f"for the seller {seller_id}"
    verb = "paused" if is_pause else "resumed"
    return Notice(f"marketplace.{verb}", seller_id or "marketplace", f"Requests {requests} were {verb} by {actor}.")


def _find(tx: CrawlTx, seller_id: SellerId | None) -> Pause | None:
    if seller_id is not None and tx.sellers.get(seller_id) is None:
        raise SellerNotFound(seller_id=seller_id)
    return next((found for found in tx.marketplace.pauses() if found.seller_id == seller_id), None)


def _extend_deadlines(tx: CrawlTx, ended: Pause, now: datetime) -> None:
    """Time that another pause or an open circuit covers is left out: it is added when that ends."""
    runs = [run for run in tx.executions.running() if ended.seller_id in (None, run.seller_id)]
    tx.executions.hold([run.execution_id for run in runs])
    outages = [each.away_since for each in tx.marketplace.circuits().values() if each.away_since is not None]
    pauses = tx.marketplace.pauses()
    for run in runs:
        current = tx.executions.get(run.execution_id)
        if current is None or not current.is_open or current.deadline_at is None:
            continue
        others = [each.paused_at for each in pauses if each.seller_id in (None, run.seller_id)]
        waited = min([now, *outages, *others]) - max(ended.paused_at, _began(current))
        if waited > timedelta(0):
            tx.executions.save(replace(current, deadline_at=current.deadline_at + waited))


def _began(run: Execution) -> datetime:
    return run.started_at or run.created_at


def _record(
    tx: CrawlTx,
    action: str,
    seller_id: SellerId | None,
    before: dict[str, Any],
    after: dict[str, Any],
    actor: str,
    now: datetime,
) -> None:
    subject = ("marketplace", "requests") if seller_id is None else ("seller", seller_id)
    tx.audit.record(AuditEntry(now, actor, action, *subject, before, after))


def _shown(pause: Pause) -> dict[str, Any]:
    return {"isPaused": True, "pausedAt": stamp(pause.paused_at), "pausedBy": pause.paused_by}
