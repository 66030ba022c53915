"""Quarantine: changes that may be a fault of the marketplace's pages or of the parser, for a person to decide."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog import quarantine_queries
from sellerwatch.catalog.quarantine import CaseStatus
from sellerwatch.catalog.quarantine_queries import CaseView, UnknownFieldView
from sellerwatch.kernel.ids import CaseId
from sellerwatch.operations.catalog_changes import MOST_STEPS
from sellerwatch.operations.quarantine import drop_case, release_case
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.tables import Columns, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


CASES: Columns[CaseView] = {
    "case": lambda case: tables.code(case.case_id, f"/quarantine/{case.case_id}"),
    "seller": lambda case: tables.text(case.seller_id, seller_page(case.seller_id)),
    "part": lambda case: tables.pill(case.part, "part"),
    "field": lambda case: tables.code(case.field),
    "kind": lambda case: tables.said(f"case.{case.kind}"),
    "status": lambda case: tables.pill(case.status, "case"),
    "held": lambda case: tables.number(case.held),
    "before": lambda case: tables.raw(case.sample_before),
    "after": lambda case: tables.raw(case.sample_after),
    "made": lambda case: tables.when(case.created_at),
}
DRIFT: Columns[UnknownFieldView] = {
    "part": lambda field: tables.code(field.endpoint),
    "field": lambda field: tables.code(field.field),
    "answers": lambda field: tables.number(field.answers),
    "time": lambda field: tables.when(field.last_seen_at),
}


@router.get("/quarantine")
async def cases(visit: Viewer) -> Response:
    seller, status, ask = visit.asked("seller"), visit.asked("status"), visit.operations.ask
    seller_id, wanted = seller_of(seller or None), one_of(CaseStatus, status)
    page = await ask(quarantine_queries.list_cases, seller_id, wanted, visit.cursor, visit.rows)
    report = await ask(quarantine_queries.drift_report)
    return show_list(
        visit,
        "quarantine",
        page.content,
        CASES,
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("status", "col.status", status, [(s, f"case.{s}") for s in CaseStatus]),
        ],
        next_=visit.page_after(page),
        live="case quarantine execution",
        table="cases",
        template="quarantine.html",
        drift=Table.of("drift", report.content, DRIFT, "quarantine.no_drift", caption="quarantine.drift"),
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
    sentences = [(f"{verb}.what", {"n": case.held}), (f"{verb}.then", {})]
    return ask_first(
        visit, f"{verb}.title", f"{verb}.button", sentences, f"/quarantine/{case_id}", seller=case.seller_id
    )
