"""/api/v1/executions: runs, how far they are, and what went wrong in them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sellerwatch.crawling import commands, queries
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.views import (
    AN_EXECUTION_ID,
    CancelledExecutionView,
    ExecutionDetailView,
    ListedExecutionView,
    RetriedExecutionView,
)
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.reports import queries as reports
from sellerwatch.reports.queries import ExecutionProgressView
from sellerwatch.web.api.authorization import AdminSession, ViewerSession
from sellerwatch.web.api.cursors import CursorParameter, DryRun, SellerFilter, seller_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/executions", tags=["executions"], route_class=ViewRoute)

ExecutionPath = Annotated[str, Path(alias="executionId", max_length=100, examples=[AN_EXECUTION_ID])]


@router.get("", responses=refusals(404))
async def list_executions(
    session: ViewerSession,
    seller_id: SellerFilter = None,
    status: Annotated[ExecutionStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[ListedExecutionView]:
    """Runs, newest first."""
    return await session.ask(queries.list_executions, seller_of(seller_id), status, cursor, size)


@router.get("/{executionId}", responses=refusals(404))
async def show_execution(session: ViewerSession, execution_id: ExecutionPath) -> ExecutionDetailView:
    """One run: how far it is, its tasks by type and state, what it found changed, and its errors by cause."""
    return await session.ask(queries.show_execution, ExecutionId.parse(execution_id))


@router.get("/{executionId}/progress", responses=refusals(404))
async def show_execution_progress(session: ViewerSession, execution_id: ExecutionPath) -> ExecutionProgressView:
    """How far a run was, step by step. The steps are deleted some days after the run."""
    return await session.ask(reports.show_execution_progress, ExecutionId.parse(execution_id))


@router.post("/{executionId}/cancel", responses=refusals(404, 409))
async def cancel_execution(
    session: AdminSession, execution_id: ExecutionPath, dry_run: DryRun = False
) -> CancelledExecutionView:
    """End a run. Its waiting tasks are cancelled; those in flight finish, and their answers are still used."""
    wanted = ExecutionId.parse(execution_id)
    return await session.run(commands.cancel_execution, wanted, session.rules, dry_run=dry_run)


@router.post("/{executionId}/retry", responses=refusals(404, 409))
async def retry_execution(
    session: AdminSession, execution_id: ExecutionPath, dry_run: DryRun = False
) -> RetriedExecutionView:
    """Do the failed tasks of a run again. A run that has ended is running again."""
    wanted = ExecutionId.parse(execution_id)
    return await session.run(commands.retry_execution, wanted, session.deadline, dry_run=dry_run)
