"""/api/v1/quarantine: changes that may be a fault of the marketplace's pages or of the parser, held for a decision."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictInt

from sellerwatch.catalog import quarantine_queries
from sellerwatch.catalog.quarantine import CaseStatus
from sellerwatch.catalog.quarantine_queries import CaseDetailView, CaseView, DriftReportView
from sellerwatch.kernel.ids import CaseId
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.operations import quarantine
from sellerwatch.operations.catalog_changes import MOST_STEPS
from sellerwatch.operations.quarantine import DroppedCaseView, ReleasedCaseView
from sellerwatch.web.api.authorization import AdminSession, ViewerSession
from sellerwatch.web.api.cursors import CursorParameter, DryRun, SellerFilter, seller_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize, RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/quarantine", tags=["quarantine"], route_class=ViewRoute)

CasePath = Annotated[str, Path(alias="caseId", max_length=100, examples=["0198c0de-0000-7000-8008-000000000001"])]


class ReleaseBody(RequestModel):
    steps: StrictInt = Field(default=10, ge=1, le=MOST_STEPS, description="Of 100 parts each.", examples=[10])


@router.get("", responses=refusals(404))
async def list_cases(
    session: ViewerSession,
    seller_id: SellerFilter = None,
    status: Annotated[CaseStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[CaseView]:
    """List quarantine cases, newest first."""
    return await session.ask(quarantine_queries.list_cases, seller_of(seller_id), status, cursor, size)


@router.get("/drift")
async def show_drift(session: ViewerSession) -> DriftReportView:
    """List the fields in the marketplace's answers that the contract does not have."""
    return await session.ask(quarantine_queries.drift_report)


@router.get("/{caseId}", responses=refusals(404))
async def show_case(case_id: CasePath, session: ViewerSession) -> CaseDetailView:
    """Show a case: why it was opened, a sample before and after, and how many parts of which products it holds."""
    return await session.ask(quarantine_queries.show_case, CaseId.parse(case_id))


@router.post("/{caseId}/release", responses=refusals(404, 409))
async def release_case(
    case_id: CasePath,
    session: AdminSession,
    body: ReleaseBody | None = None,
    cursor: CursorParameter = None,
    dry_run: DryRun = False,
) -> ReleasedCaseView:
    """Read the held parts of a case with the parser of this version and put them into the catalogue."""
    steps = (body or ReleaseBody()).steps
    return await quarantine.release_case(session, CaseId.parse(case_id), cursor=cursor, steps=steps, dry_run=dry_run)


@router.post("/{caseId}/drop", responses=refusals(404, 409))
async def drop_case(case_id: CasePath, session: AdminSession, dry_run: DryRun = False) -> DroppedCaseView:
    """Delete the held parts of a case: the products stay as they are, and the same facts are not held again."""
    return await session.run(quarantine.drop_case, CaseId.parse(case_id), dry_run=dry_run)
