"""/api/v1/quarantine: changes that look like a fault of the marketplace's pages, or of our reading, and wait."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictInt

from sellerwatch.catalog.quarantine import Case, CaseKind, CaseNotFound, CaseStatus
from sellerwatch.kernel.ids import CaseId, ItemNo
from sellerwatch.kernel.paging import Cursor, decode_cursor, encode_cursor
from sellerwatch.operations.catalog import Released, drop_case, release_case
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, parts_of
from sellerwatch.web.api.cursors import EPOCH, CursorParameter, SellerFilter, known_seller, seller_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import CursorPage, PageSize, RequestModel, ResponseModel, Stamp

router = APIRouter(prefix="/quarantine", tags=["quarantine"])

LIST, RELEASE = "cases", "release"
#: Items that are named; of the others there is the number.
MOST_ITEMS = 20
#: Steps of 100 parts that one call may take.
MOST_STEPS = 50
AN_ID = "0198c0de-0000-7000-8008-000000000001"

CasePath = Annotated[str, Path(alias="caseId", max_length=100, examples=[AN_ID])]


class CaseShown(ResponseModel):
    """`held` parts wait for a decision."""

    case_id: str = Field(examples=[AN_ID])
    seller_id: str = Field(examples=["seller_12345"])
    execution_id: str
    part: str = Field(examples=["DETAIL"])
    kind: CaseKind
    field: str = Field(examples=["prices.selling"])
    status: CaseStatus
    held: int
    sample_item_no: int | None
    sample_before: str | None
    sample_after: str | None
    created_at: Stamp
    updated_at: Stamp
    decided_by: str | None


class CaseDetail(CaseShown):
    items: list[int] = Field(description="The first of the products whose parts are held.")


class ReleaseBody(RequestModel):
    steps: StrictInt = Field(default=10, ge=1, le=MOST_STEPS, description="Of 100 parts each.", examples=[10])


class ReleasedCase(CaseShown):
    """`held` are left. Where `next` is not null there is more to take in: ask again with it as the cursor."""

    taken: int
    events: int
    unreadable: int
    items: list[int] = Field(description="The first that today's parser cannot read either; they stay held.")
    next: str | None


class DroppedCase(CaseShown):
    dropped: int


class UnknownFieldShown(ResponseModel):
    endpoint: str
    field: str
    answers: int
    first_item_no: int | None
    first_seen_at: Stamp
    last_seen_at: Stamp


class DriftShown(ResponseModel):
    content: list[UnknownFieldShown]


@router.get("", responses=refusals(404))
async def list_cases(
    request: Request,
    _: Viewer,
    seller_id: SellerFilter = None,
    status: Annotated[CaseStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPage[CaseShown]:
    """Cases, newest first: whose products are held, and why."""
    wanted, position = seller_of(seller_id), decode_cursor(LIST, cursor)

    def work(tx: ServiceTx) -> CursorPage[CaseShown]:
        known_seller(tx, wanted)
        piece = tx.quarantine.page(seller_id=wanted, status=status, cursor=position, limit=size)
        held = tx.held_parts.count_held([case.case_id for case in piece.content])
        content = [CaseShown(**_case(case, held.get(case.case_id, 0))) for case in piece.content]
        return CursorPage[CaseShown](content=content, next=encode_cursor(LIST, piece.next))

    return await parts_of(request).read(work)


@router.get("/drift")
async def drift_report(request: Request, _: Viewer) -> DriftShown:
    """Fields in the marketplace's answers that the contract does not have."""
    fields = await parts_of(request).read(lambda tx: tx.drift.all())
    return DriftShown(
        content=[
            UnknownFieldShown(
                endpoint=field.endpoint,
                field=field.path,
                answers=field.times,
                first_item_no=field.item_no,
                first_seen_at=field.first_seen_at,
                last_seen_at=field.last_seen_at,
            )
            for field in fields
        ]
    )


@router.get("/{caseId}", responses=refusals(404))
async def get_case(case_id: CasePath, request: Request, _: Viewer) -> CaseDetail:
    """One case: why, a sample before and after, how many parts are held, and of which products."""
    wanted = CaseId.parse(case_id)

    def work(tx: ServiceTx) -> CaseDetail:
        case = tx.quarantine.get(wanted)
        if case is None:
            raise CaseNotFound(case_id=wanted)
        held = tx.held_parts.count_held([wanted]).get(wanted, 0)
        return CaseDetail(**_case(case, held), items=list(tx.held_parts.items_of_case(wanted, MOST_ITEMS)))

    return await parts_of(request).read(work)


@router.post("/{caseId}/release", responses=refusals(404, 409))
async def release(
    case_id: CasePath, request: Request, caller: Admin, body: ReleaseBody | None = None, cursor: CursorParameter = None
) -> ReleasedCase:
    """Take what is held under a case into the catalogue with today's parser, some steps at a time, and tell it."""
    wanted, position, parts = CaseId.parse(case_id), decode_cursor(RELEASE, cursor), parts_of(request)
    after, steps = ItemNo(0 if position is None else position.row), (body or ReleaseBody()).steps
    taken = events = 0
    unreadable: list[int] = []
    while True:

        def work(tx: ServiceTx, desk: Desk, behind: ItemNo = after) -> Released:
            rules = parts.service.crawl.rules
            return release_case(tx, wanted, rules, after=behind, actor=desk.actor, ids=desk.ids, now=desk.now)

        step = await parts.change(caller.actor, work)
        taken, events, steps = taken + step.taken, events + step.events, steps - 1
        unreadable += step.unreadable
        if step.after is None or not steps:
            break
        after = step.after
    return ReleasedCase(
        **_case(step.case, step.left),
        taken=taken,
        events=events,
        unreadable=len(unreadable),
        items=unreadable[:MOST_ITEMS],
        next=None if step.after is None else encode_cursor(RELEASE, Cursor(EPOCH, step.after)),
    )


@router.post("/{caseId}/drop", responses=refusals(404, 409))
async def drop(case_id: CasePath, request: Request, caller: Admin) -> DroppedCase:
    """Forget what is held under a case: the products stay as they are, and the same facts are not held again."""
    wanted = CaseId.parse(case_id)

    def work(tx: ServiceTx, desk: Desk) -> tuple[Case, int]:
        return drop_case(tx, wanted, actor=desk.actor, now=desk.now)

    case, number = await parts_of(request).change(caller.actor, work)
    return DroppedCase(**_case(case, 0), dropped=number)


def _case(case: Case, held: int) -> dict[str, Any]:
    return vars(case) | {"held": held, "sample_item_no": case.sample_item}
