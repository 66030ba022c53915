"""The audit trail: who did what, when, and how it was before and after."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Path
from starlette.responses import Response

from sellerwatch.oversight import queries
from sellerwatch.oversight.ports import AuditFilter
from sellerwatch.oversight.queries import AuditEntryView
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, show, show_list
from sellerwatch.web.console.tables import Columns, Filter
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


def _page(entry: AuditEntryView) -> str | None:
    page = PAGES.get(entry.subject_type)
    return None if page is None or entry.subject_id == "all" else f"{page}{entry.subject_id}"


def _state(state: object) -> str | None:
    if not isinstance(state, dict) or not state:
        return None
    return ", ".join(f"{name}: {_plain(value)}" for name, value in state.items())


def _plain(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _action(entry: AuditEntryView) -> tables.Cell:
    key = f"action.{entry.action}"
    return tables.said(key) if key in TEXTS else tables.code(entry.action)


ENTRIES: Columns[AuditEntryView] = {
    "entry": lambda entry: tables.code(entry.entry_id, f"/audit/{entry.entry_id}"),
    "time": lambda entry: tables.when(entry.at),
    "actor": lambda entry: tables.code(entry.actor),
    "action": _action,
    "subject": lambda entry: tables.code(entry.subject_id, _page(entry)),
    "before": lambda entry: tables.raw(_state(entry.before)),
    "after": lambda entry: tables.raw(_state(entry.after)),
    "note": lambda entry: tables.raw(entry.note),
}


@router.get("/audit")
async def audit(visit: Viewer) -> Response:
    given = {name: visit.asked(name) for name in ("actor", "action", "subject_type", "subject_id")}
    actor, action, subject_type, subject_id = (value or None for value in given.values())
    chosen = AuditFilter(subject_type, subject_id, actor, action)
    page = await visit.operations.ask(queries.list_audit, chosen, visit.cursor, visit.rows)
    actions = sorted(key.removeprefix("action.") for key in TEXTS if key.startswith("action."))
    return show_list(
        visit,
        "audit",
        page.content,
        ENTRIES,
        fields=[
            Filter("actor", "col.actor", given["actor"]),
            Filter("action", "col.action", given["action"], [(one, f"action.{one}") for one in actions]),
            Filter("subject_id", "col.subject", given["subject_id"]),
        ],
        is_filtered=any(given.values()),
        next_=visit.page_after(page),
        live="*",
    )


@router.get("/audit/{entry_id}")
async def entry_page(entry_id: Annotated[int, Path(ge=1, le=2**53)], visit: Viewer) -> Response:
    entry = await visit.operations.ask(queries.show_audit_entry, entry_id)
    return show(visit, "audit_entry.html", entry=entry, subject_page=_page(entry), known=TEXTS)
