"""Quarantine: what looks like a fault of the marketplace's pages waits here, with a sample, for a person to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog.ports import UnknownField
from sellerwatch.catalog.quarantine import Case, CaseNotFound, CaseStatus
from sellerwatch.kernel.ids import CaseId, ItemNo
from sellerwatch.kernel.paging import decode_cursor, encode_cursor
from sellerwatch.operations.catalog import Released, drop_case, release_case
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.context import Desk
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.api.quarantine import LIST, MOST_ITEMS, MOST_STEPS
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/quarantine")
async def cases(visit: Viewer) -> Response:
    seller, status = visit.asked("seller"), visit.asked("status")
    wanted = CaseStatus(status) if status in list(CaseStatus) else None
    position, seller_id = decode_cursor(LIST, visit.place("cursor")), seller_of(seller or None)

    def work(tx: ServiceTx) -> tuple[Sequence[Case], str | None, Mapping[CaseId, int], Sequence[UnknownField]]:
        piece = tx.quarantine.page(seller_id=seller_id, status=wanted, cursor=position, limit=visit.rows)
        held = tx.held_parts.count_held([case.case_id for case in piece.content])
        return piece.content, encode_cursor(LIST, piece.next), held, tx.drift.all()

    found, cursor, held, unknown = await visit.read(work)
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
        [
            (
                tables.code(case.case_id, f"/quarantine/{case.case_id}"),
                tables.text(case.seller_id, seller_page(case.seller_id)),
                tables.pill(case.part, "part"),
                tables.code(case.field),
                tables.said(f"case.{case.kind}"),
                tables.pill(case.status, "case"),
                tables.number(held.get(case.case_id, 0)),
                tables.raw(case.sample_before),
                tables.raw(case.sample_after),
                tables.when(case.created_at),
            )
            for case in found
        ],
        "quarantine.none_found" if seller or status else "quarantine.empty",
        next=visit.link(cursor=cursor) if cursor else None,
        caption="nav.quarantine",
    )
    drift = Table(
        "drift",
        ("col.part", "col.field", "col.answers", "col.time"),
        [
            (tables.code(one.endpoint), tables.code(one.path), tables.number(one.times), tables.when(one.last_seen_at))
            for one in unknown
        ],
        "quarantine.no_drift",
        caption="quarantine.drift",
    )
    return show(
        visit,
        "quarantine.html",
        title="nav.quarantine",
        lead="quarantine.lead",
        table=table,
        drift=drift,
        live="case quarantine execution",
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("status", "col.status", status, [(s, f"case.{s}") for s in CaseStatus]),
        ],
    )


@dataclass(frozen=True)
class Seen:
    case: Case
    held: int
    items: Sequence[ItemNo]


def _look(tx: ServiceTx, case_id: CaseId) -> Seen:
    case = tx.quarantine.get(case_id)
    if case is None:
        raise CaseNotFound(case_id=case_id)
    held = tx.held_parts.count_held([case_id]).get(case_id, 0)
    return Seen(case, held, tx.held_parts.items_of_case(case_id, MOST_ITEMS))


@router.get("/quarantine/{case_id}")
async def case_page(case_id: str, visit: Viewer) -> Response:
    wanted = CaseId.parse(case_id)
    seen = await visit.read(lambda tx: _look(tx, wanted))
    return show(visit, "case.html", seen=seen, case=seen.case)


@router.get("/quarantine/{case_id}/release")
async def confirm_release(case_id: str, visit: Admin) -> Response:
    return await _confirm(visit, CaseId.parse(case_id), "release")


@router.post("/quarantine/{case_id}/release")
async def release(case_id: str, visit: Admin) -> Response:
    """Step by step, as the API does it; what is left is left to the next press of the button."""
    wanted, rules = CaseId.parse(case_id), visit.parts.service.crawl.rules
    after, taken, unread = ItemNo(0), 0, 0
    for _ in range(MOST_STEPS):

        def work(tx: ServiceTx, desk: Desk, behind: ItemNo = after) -> Released:
            return release_case(tx, wanted, rules, after=behind, actor=desk.actor, ids=desk.ids, now=desk.now)

        step = await visit.change(work)
        taken, unread = taken + step.taken, unread + len(step.unreadable)
        if step.after is None:
            break
        after = step.after
    return go(visit, f"/quarantine/{wanted}", "release.done", n=taken, unread=unread, left=step.left)


@router.get("/quarantine/{case_id}/drop")
async def confirm_drop(case_id: str, visit: Admin) -> Response:
    return await _confirm(visit, CaseId.parse(case_id), "drop")


@router.post("/quarantine/{case_id}/drop")
async def drop(case_id: str, visit: Admin) -> Response:
    wanted = CaseId.parse(case_id)

    def work(tx: ServiceTx, desk: Desk) -> int:
        return drop_case(tx, wanted, actor=desk.actor, now=desk.now)[1]

    return go(visit, f"/quarantine/{wanted}", "drop.done", n=await visit.change(work))


async def _confirm(visit: Visit, case_id: CaseId, verb: str) -> Response:
    seen = await visit.read(lambda tx: _look(tx, case_id))
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            f"{verb}.title",
            f"/quarantine/{case_id}/{verb}",
            f"{verb}.button",
            [(f"{verb}.what", {"n": seen.held}), (f"{verb}.then", {})],
            f"/quarantine/{case_id}",
            facts={"seller": seen.case.seller_id},
        ),
    )
