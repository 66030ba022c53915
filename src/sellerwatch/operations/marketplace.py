"""Pause and resume requests to the marketplace, all of them or those for one seller.

Each is one transaction and one entry of the audit trail. Running processes see it within a second (`pause_state.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from sellerwatch.agents.marketplace_status import MarketplaceStatusView, show_marketplace
from sellerwatch.agents.ports import Pause
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.save_execution import save_execution
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About
from sellerwatch.operations.session import OperationSession
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.sellers.seller import SellerNotFound

NOT_PAUSED: dict[str, Any] = {"isPaused": False}


@dataclass(eq=False)
class MarketplaceAlreadyPaused(Conflict):
    """All requests are paused already."""

    by: str


@dataclass(eq=False)
class MarketplaceNotPaused(Conflict):
    """All requests are to be resumed, and they are not paused."""


@dataclass(eq=False)
class SellerAlreadyPaused(Conflict):
    """The requests for this seller are paused already."""

    seller_id: str
    by: str


@dataclass(eq=False)
class SellerNotPaused(Conflict):
    """The requests for this seller are to be resumed, and they are not paused. A pause of all requests is another."""

    seller_id: str


@dataclass(frozen=True)
class ChangedPauseView(MarketplaceStatusView):
    """The status of the marketplace after a pause or its end."""

    executions: Annotated[int, About("The open runs that the pause stops, or that go on after it.", 3)]
    dry_run: Annotated[bool, About("Nothing was changed: the status is shown as it would be.")]


async def pause_requests(session: OperationSession, seller_id: SellerId | None) -> ChangedPauseView:
    """Pause, and let a service in this process obey before it returns; the others obey within a second."""
    status = await session.run(pause, seller_id)
    if not session.dry_run:
        await session.pauses_changed()
    return status


async def resume_requests(session: OperationSession, seller_id: SellerId | None) -> ChangedPauseView:
    """Resume, and let a service in this process go on before it returns; the others do within a second."""
    status = await session.run(resume, seller_id)
    if not session.dry_run:
        await session.pauses_changed()
    return status


def pause(tx: CrawlTx, context: OperationContext, seller_id: SellerId | None) -> ChangedPauseView:
    """Stop requests to the marketplace until they are resumed, over restarts too. Requests under way finish, nothing is
    lost: tasks and starts wait, and the time does not count for the deadlines of runs."""
    found, actor, now = _find(tx, seller_id), context.actor, context.now
    if found is not None or not tx.marketplace.pause(seller_id, actor, now):
        by = "" if found is None else found.paused_by
        if seller_id is None:
            raise MarketplaceAlreadyPaused(by=by)
        raise SellerAlreadyPaused(seller_id=seller_id, by=by)
    _record(tx, context, "marketplace.pause", seller_id, NOT_PAUSED, _audited(Pause(seller_id, now, actor)))
    context.notices.append(pause_notice(seller_id, actor, is_pause=True))
    return _changed(tx, context, seller_id)


def resume(tx: CrawlTx, context: OperationContext, seller_id: SellerId | None) -> ChangedPauseView:
    """Let requests leave again. The deadlines of the runs concerned move on by the time they were paused."""
    found = _find(tx, seller_id)
    if found is None or not tx.marketplace.resume(seller_id):
        if seller_id is None:
            raise MarketplaceNotPaused
        raise SellerNotPaused(seller_id=seller_id)
    _extend_deadlines(tx, found, context.now)
    _record(tx, context, "marketplace.resume", seller_id, _audited(found), NOT_PAUSED)
    context.notices.append(pause_notice(seller_id, context.actor, is_pause=False))
    return _changed(tx, context, seller_id)


def pause_notice(seller_id: SellerId | None, actor: str, *, is_pause: bool) -> Notice:
    """Return what operators are alerted to."""
    verb, facts = "paused" if is_pause else "resumed", {"seller": seller_id or "", "actor": actor}
    variant = "seller" if seller_id else ""
    return Notice(f"marketplace.{verb}", seller_id or "marketplace", facts, variant)


def _changed(tx: CrawlTx, context: OperationContext, seller_id: SellerId | None) -> ChangedPauseView:
    executions = sum(seller_id in (None, run.seller_id) for run in tx.executions.running())
    status = vars(show_marketplace(tx, context))
    return ChangedPauseView(**status, executions=executions, dry_run=context.dry_run)


def _find(tx: CrawlTx, seller_id: SellerId | None) -> Pause | None:
    _must_exist(tx, seller_id)
    return next((found for found in tx.marketplace.pauses() if found.seller_id == seller_id), None)


def _must_exist(tx: CrawlTx, seller_id: SellerId | None) -> None:
    if seller_id is not None and tx.sellers.get(seller_id) is None:
        raise SellerNotFound(seller_id=seller_id)


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
            save_execution(tx, current, replace(current, deadline_at=current.deadline_at + waited))


def _began(run: Execution) -> datetime:
    return run.started_at or run.created_at


def _record(
    tx: CrawlTx,
    context: OperationContext,
    action: str,
    seller_id: SellerId | None,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    subject = ("marketplace", "requests") if seller_id is None else ("seller", seller_id)
    record_audit(tx, AuditEntry(context.now, context.actor, action, *subject, before, after))


def _audited(pause: Pause) -> dict[str, Any]:
    """Return what the audit trail has of a pause."""
    return {"isPaused": True, "pausedAt": stamp(pause.paused_at), "pausedBy": pause.paused_by}
