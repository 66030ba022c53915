"""The feed of changes: what changed, newest first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog import change_queries
from sellerwatch.catalog.change_queries import ListedChangeView
from sellerwatch.catalog.changes import ChangeFilter
from sellerwatch.catalog.differences import FIELD_KINDS, ChangeKind
from sellerwatch.kernel.ids import ExecutionId, ItemNo
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, show
from sellerwatch.web.console.tables import Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Characters of a value that a cell shows.
LONGEST = 60
#: Every kind but new and gone, as links from a run name them.
CHANGED = "changed"
#: How far back the list may go; without a choice, to the first change.
PERIODS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}


@router.get("/changes")
async def changes(visit: Viewer) -> Response:
    seller, kind, run = visit.asked("seller"), visit.asked("kind"), visit.asked("execution")
    item, period = visit.asked("item"), visit.asked("period")
    choice = ChangeFilter(
        seller_id=seller_of(seller or None),
        kinds=_kinds(kind),
        item_no=_item(item) if item else None,
        execution_id=ExecutionId.parse(run) if run else None,
        since=visit.now - PERIODS[period] if period in PERIODS else None,
    )
    page = await visit.operations.ask(change_queries.list_changes, choice, visit.cursor, visit.rows)
    table = Table(
        "changes",
        ("col.time", "col.seller", "col.item", "col.name", "col.kind", "col.field", "col.before", "col.after"),
        [_row(change) for change in page.content],
        "changes.none_found" if choice != ChangeFilter() else "changes.empty",
        next=visit.link(cursor=page.next) if page.next else None,
        caption="nav.changes",
    )
    return show(
        visit,
        "list.html",
        title="nav.changes",
        lead="changes.lead",
        table=table,
        live="execution",
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("kind", "col.kind", kind, [(CHANGED, "change.changed"), *((k, f"change.{k}") for k in ChangeKind)]),
            Filter("item", "col.item", item),
            Filter("period", "col.time", period, [(name, f"changes.period.{name}") for name in PERIODS]),
            Filter("execution", "col.run", run),
        ],
    )


def _item(given: str) -> ItemNo:
    return ItemNo.parse(int(given) if given.isascii() and given.isdecimal() else given)


def _kinds(given: str) -> tuple[ChangeKind, ...]:
    if given == CHANGED:
        return FIELD_KINDS
    return (ChangeKind(given),) if given in list(ChangeKind) else ()


def _row(change: ListedChangeView) -> tuple[tables.Cell, ...]:
    return (
        tables.when(change.at),
        tables.text(change.seller_id, seller_page(change.seller_id)),
        tables.code(change.item_no, f"/products/{change.item_no}"),
        tables.text(change.name),
        tables.pill(change.kind, "change"),
        tables.raw(change.field),
        tables.raw(_short(change.before)),
        tables.raw(_short(change.after)),
    )


def _short(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
