"""Dead letters: messages that the queue gave up, and a button to do their tasks again."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.crawling.queue import DeadLetters
from sellerwatch.operations import dead_letters as operations
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show
from sellerwatch.web.console.tables import Columns, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "/dead-letters"
LETTERS: Columns[operations.DeadLetterView] = {
    "task": lambda each: tables.code(each.task_id, f"/why/task/{each.task_id}" if each.status else None),
    "seller": lambda each: tables.text(each.seller_id, seller_page(each.seller_id) if each.seller_id else None),
    "status": lambda each: tables.pill(each.status) if each.status else tables.text(None),
    "cause": lambda each: tables.sentence(each.why),
    "tries": lambda each: tables.number(each.receive_count),
}


@router.get(PATH)
async def dead_letters(visit: Viewer) -> Response:
    found = await operations.list_dead_letters(visit.operations, _box(visit), visit.rows)
    return show(
        visit,
        "list.html",
        title="dead.title",
        lead="dead.lead",
        table=Table.of("dead_letters", found.content, LETTERS, "dead.empty", caption="dead.title"),
        live="task",
        buttons=[(f"{PATH}/redrive", "dead.redrive")] if found.content else [],
    )


@router.get(f"{PATH}/redrive")
async def confirm_redrive(visit: Admin) -> Response:
    would = await operations.redrive_dead_letters(visit.operations, _box(visit), None, dry_run=True)
    counts = ("dead.what", {"n": len(would.done), "refused": len(would.refused)})
    return ask_first(visit, "dead.question", "dead.redrive", [counts], PATH, danger=False)


@router.post(f"{PATH}/redrive")
async def redrive(visit: Admin) -> Response:
    done = await operations.redrive_dead_letters(visit.operations, _box(visit), None)
    return go(visit, PATH, "tasks.reopened_some", n=len(done.done), refused=len(done.refused))


def _box(visit: Visit) -> DeadLetters | None:
    return visit.parts.service.crawl.dead_letters
