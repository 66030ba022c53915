"""The audit trail: who did what, when, and how it was before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import orjson
from fastapi import APIRouter, Path
from starlette.responses import Response

from sellerwatch.oversight import queries
from sellerwatch.oversight.ports import AuditFilter
from sellerwatch.oversight.queries import AuditEntryView
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, show
from sellerwatch.web.console.tables import Filter, Table
from sellerwatch.web.console.texts import TEXTS

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Where the subject of an entry has its page.
PAGES = {
    "seller": "/sellers/",
    "execution": "/executions/",
    "task": "/why/task/",
    "message": "/outbox/",
    "agent": "/agents/",
    "case": "/quarantine/",
    "removal": "/removals/",
}


@router.get("/audit")
async def audit(visit: Viewer) -> Response:
    names = ("actor", "action", "subject_type", "subject_id")
    given = {name: visit.asked(name) for name in names}
    subject_type, subject_id = given["subject_type"] or None, given["subject_id"] or None
    chosen = AuditFilter(subject_type, subject_id, given["actor"] or None, given["action"] or None)
    page = await visit.operations.ask(queries.list_audit, chosen, visit.cursor, visit.rows)
    actions = sorted(key.removeprefix("action.") for key in TEXTS if key.startswith("action."))
    return show(
        visit,
        "list.html",
        title="nav.audit",
        lead="audit.lead",
        table=entries_table(
            page.content,
            visit.link(cursor=page.next) if page.next else None,
            "audit.none_found" if any(given.values()) else "audit.empty",
        ),
        live="*",
        fields=[
            Filter("actor", "col.actor", given["actor"]),
            Filter("action", "col.action", given["action"], [(one, f"action.{one}") for one in actions]),
            Filter("subject_id", "col.subject", given["subject_id"]),
        ],
    )


@router.get("/audit/{entry_id}")
async def entry_page(entry_id: Annotated[int, Path(ge=1, le=2**53)], visit: Viewer) -> Response:
    entry = await visit.operations.ask(queries.show_audit_entry, entry_id)
    return show(visit, "audit_entry.html", entry=entry, subject_page=_page(entry), known=TEXTS)


def entries_table(entries: Sequence[AuditEntryView], next_: str | None, empty: str) -> Table:
    return Table(
        "audit",
        ("col.entry", "col.time", "col.actor", "col.action", "col.subject", "col.before", "col.after", "col.note"),
        [
            (
                tables.code(entry.entry_id, f"/audit/{entry.entry_id}"),
                tables.when(entry.at),
                tables.code(entry.actor),
                tables.said(f"action.{entry.action}")
                if f"action.{entry.action}" in TEXTS
                else tables.code(entry.action),
                tables.code(entry.subject_id, _page(entry)),
                tables.raw(_state(entry.before)),
                tables.raw(_state(entry.after)),
                tables.raw(entry.note),
            )
            for entry in entries
        ],
        empty,
        next=next_,
        caption="nav.audit",
    )


def _page(entry: AuditEntryView) -> str | None:
    page = PAGES.get(entry.subject_type)
    return None if page is None or entry.subject_id == "all" else f"{page}{entry.subject_id}"


def _state(state: object) -> str | None:
    if not isinstance(state, dict) or not state:
        return None
    return ", ".join(f"{name}: {_plain(value)}" for name, value in state.items())


def _plain(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
