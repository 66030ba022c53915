"""Quarantine: changes that may be a fault of the marketplace's pages or of the parser, for a person to decide."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog import quarantine_queries
from sellerwatch.catalog.quarantine import CaseStatus
from sellerwatch.catalog.quarantine_queries import CaseView, DriftReportView
from sellerwatch.kernel.ids import CaseId
from sellerwatch.operations.catalog_changes import MOST_STEPS
from sellerwatch.operations.quarantine import drop_case, release_case
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/quarantine")
async def cases(visit: Viewer) -> Response:
    seller, status = visit.asked("seller"), visit.asked("status")
    wanted = CaseStatus(status) if status in list(CaseStatus) else None
    seller_id = seller_of(seller or None)
    page = await visit.operations.ask(quarantine_queries.list_cases, seller_id, wanted, visit.cursor, visit.rows)
    report = await visit.operations.ask(quarantine_queries.drift_report)
    table = Table(
        "cases",
        (
            "col.case",
            "col.seller",
            "col.part",
            "col.field",
            "col.kind",
            "col.status",
            "col.held",
            "col.before",
            "col.after",
            "col.made",
        ),
        [_row(case) for case in page.content],
        "quarantine.none_found" if seller or status else "quarantine.empty",
        next=visit.link(cursor=page.next) if page.next else None,
        caption="nav.quarantine",
    )
    return show(
        visit,
        "quarantine.html",
        title="nav.quarantine",
        lead="quarantine.lead",
        table=table,
        drift=_drift(report),
        live="case quarantine execution",
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("status", "col.status", status, [(s, f"case.{s}") for s in CaseStatus]),
        ],
    )


def _row(case: CaseView) -> tuple[tables.Cell, ...]:
    return (
        tables.code(case.case_id, f"/quarantine/{case.case_id}"),
        tables.text(case.seller_id, seller_page(case.seller_id)),
        tables.pill(case.part, "part"),
        tables.code(case.field),
        tables.said(f"case.{case.kind}"),
        tables.pill(case.status, "case"),
        tables.number(case.held),
        tables.raw(case.sample_before),
        tables.raw(case.sample_after),
        tables.when(case.created_at),
    )


def _drift(report: DriftReportView) -> Table:
    return Table(
        "drift",
        ("col.part", "col.field", "col.answers", "col.time"),
        [
            (
                tables.code(field.endpoint),
                tables.code(field.field),
                tables.number(field.answers),
                tables.when(field.last_seen_at),
            )
            for field in report.content
        ],
        "quarantine.no_drift",
        caption="quarantine.drift",
    )


@router.get("/quarantine/{case_id}")
async def case_page(case_id: str, visit: Viewer) -> Response:
    case = await visit.operations.ask(quarantine_queries.show_case, CaseId.parse(case_id))
    return show(visit, "case.html", case=case)


@router.get("/quarantine/{case_id}/release")
async def confirm_release(case_id: str, visit: Admin) -> Response:
    return await _confirm(visit, CaseId.parse(case_id), "release")


@router.post("/quarantine/{case_id}/release")
async def release(case_id: str, visit: Admin) -> Response:
    """Release as much as one request may; the button is still there for what is left."""
    case = await release_case(visit.operations, CaseId.parse(case_id), steps=MOST_STEPS)
    page = f"/quarantine/{case.case_id}"
    return go(visit, page, "release.done", n=case.taken, unread=case.unreadable, left=case.held)


@router.get("/quarantine/{case_id}/drop")
async def confirm_drop(case_id: str, visit: Admin) -> Response:
    return await _confirm(visit, CaseId.parse(case_id), "drop")


@router.post("/quarantine/{case_id}/drop")
async def drop(case_id: str, visit: Admin) -> Response:
    case = await visit.operations.run(drop_case, CaseId.parse(case_id))
    return go(visit, f"/quarantine/{case.case_id}", "drop.done", n=case.dropped)


async def _confirm(visit: Visit, case_id: CaseId, verb: str) -> Response:
    case = await visit.operations.ask(quarantine_queries.show_case, case_id)
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            f"{verb}.title",
            f"/quarantine/{case_id}/{verb}",
            f"{verb}.button",
            [(f"{verb}.what", {"n": case.held}), (f"{verb}.then", {})],
            f"/quarantine/{case_id}",
            facts={"seller": case.seller_id},
        ),
    )
