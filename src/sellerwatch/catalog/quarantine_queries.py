"""Queries over quarantine cases, and the drift report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.catalog.ports import CatalogTx
from sellerwatch.catalog.product import PartType
from sellerwatch.catalog.quarantine import Case, CaseKind, CaseNotFound, CaseStatus, problem_kind_text
from sellerwatch.kernel.answer_problem import stored_problem_text
from sellerwatch.kernel.ids import CaseId, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import About, CursorPageView, View
from sellerwatch.sellers.queries import require_seller

CASES = "cases"
#: Items that are named; `held` counts all of them.
MOST_ITEMS = 20


@dataclass(frozen=True)
class CaseView(View):
    """A quarantine case. `held` parts wait for a decision."""

    case_id: Annotated[str, About(example="0198c0de-0000-7000-8008-000000000001")]
    seller_id: Annotated[str, About(example="seller_12345")]
    execution_id: str
    part: Annotated[PartType, About(example="DETAIL")]
    kind: CaseKind
    field: Annotated[str, About(example="prices.selling")]
    status: CaseStatus
    held: int
    sample_item_no: int | None
    sample_before: str | None
    sample_after: str | None
    created_at: datetime
    updated_at: datetime
    decided_by: str | None


@dataclass(frozen=True)
class CaseDetailView(CaseView):
    """A quarantine case with the products it is about."""

    items: Annotated[Sequence[int], About("The first of the products whose parts are held.")]


@dataclass(frozen=True)
class UnknownFieldView(View):
    """A field in the marketplace's answers that the contract does not have."""

    endpoint: str
    field: str
    answers: Annotated[int, About("How many answers had it.")]
    first_item_no: int | None
    first_seen_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True)
class DriftReportView(View):
    """The unknown fields in the marketplace's answers."""

    content: Sequence[UnknownFieldView]


def list_cases(
    tx: CatalogTx,
    context: OperationContext,
    seller_id: SellerId | None,
    status: CaseStatus | None,
    cursor: str | None,
    size: int,
) -> CursorPageView[CaseView]:
    """List quarantine cases, newest first."""
    require_seller(tx, seller_id)
    page = tx.quarantine.page(seller_id=seller_id, status=status, cursor=decode_cursor(CASES, cursor), limit=size)
    held = tx.held_parts.count_held([case.case_id for case in page.content])
    return page_view(
        CASES, page, lambda case: CaseView(**case_fields(case, held.get(case.case_id, 0), context.language))
    )


def show_case(tx: CatalogTx, context: OperationContext, case_id: CaseId) -> CaseDetailView:
    """Show a case: why it was opened, a sample before and after, and how many parts of which products it holds."""
    case = find_case(tx, case_id)
    items = tx.held_parts.items_of_case(case_id, MOST_ITEMS)
    return CaseDetailView(**case_fields(case, count_held(tx, case_id), context.language), items=items)


def drift_report(tx: CatalogTx, _: OperationContext) -> DriftReportView:
    """List the fields in the marketplace's answers that the contract does not have."""
    return DriftReportView(
        [
            UnknownFieldView(
                endpoint=field.endpoint,
                field=field.path,
                answers=field.times,
                first_item_no=field.item_no,
                first_seen_at=field.first_seen_at,
                last_seen_at=field.last_seen_at,
            )
            for field in tx.drift.all()
        ]
    )


def find_case(tx: CatalogTx, case_id: CaseId) -> Case:
    """Return a case; refuse an id that no case has."""
    case = tx.quarantine.get(case_id)
    if case is None:
        raise CaseNotFound(case_id=case_id)
    return case


def count_held(tx: CatalogTx, case_id: CaseId) -> int:
    """Count the parts that are held under a case."""
    return tx.held_parts.count_held([case_id]).get(case_id, 0)


def case_fields(case: Case, held: int, language: str) -> dict[str, Any]:
    """Return the fields of a `CaseView`. What is wrong with unreadable answers is said in the reader's language."""
    fields = dict(vars(case))
    if case.kind is CaseKind.UNREADABLE:
        fields["field"] = problem_kind_text(case.field, language)
        fields["sample_after"] = stored_problem_text(case.sample_after or "", language)
    return fields | {"held": held, "sample_item_no": fields.pop("sample_item")}
