"""`sellerwatch resends`: delivered events, sent again; `outbox resend` asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_view
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, bar, say, short
from sellerwatch.cli.tables import Columns, print_page
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.ids import ResendId
from sellerwatch.operations.resends import cancel_resend
from sellerwatch.outbox import resend_queries
from sellerwatch.outbox.resend import ResendAnswer, ResendStatus

if TYPE_CHECKING:
    from sellerwatch.outbox.resend_queries import ResendAnswerView, ResendView

app = CommandApp()

FAMILY = "cli_outbox"
ResendArgument = Annotated[str, typer.Argument(metavar="RESEND_ID")]

RESENDS: Columns[ResendView] = {
    "resend": lambda resend, _: resend.resend_id,
    "status": lambda resend, _: resend.status,
    "answered": lambda resend, _: f"{resend.total - resend.left} / {resend.total}",
    "accepted": lambda resend, _: resend.accepted,
    "requested_by": lambda resend, _: resend.requested_by,
    "made": lambda resend, text: text.ago(resend.created_at),
    "ended": lambda resend, text: text.ago(resend.ended_at),
}
ANSWERS: Columns[ResendAnswerView] = {
    "event": lambda event, _: event.outbox_id,
    "answer": lambda event, _: event.answer,
    "http": lambda event, _: event.http_status_code,
    "took_ms": lambda event, _: event.duration_ms,
    "time": lambda event, text: text.ago(event.tried_at),
    "answer_text": lambda event, _: short(event.text, 40),
}


@app.command("list")
def list_(
    status: Annotated[ResendStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch resends list
    sellerwatch resends list --status RUNNING --json
    """
    with session.command_session() as at:
        page, text = at.ask(resend_queries.list_resends, status, cursor, limit), at.texts(FAMILY)
    empty = text("resends.none_like" if status or cursor else "resends.none")
    print_page(page, RESENDS, text, "resends", empty, limit=limit, as_json=as_json)


@app.command()
def show(resend: ResendArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch resends show 0198c0de-0000-7000-800b-000000000001
    """
    resend_id = ResendId.parse(resend)
    with session.command_session() as at:
        found, text = at.ask(resend_queries.show_resend, resend_id), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    print_facts(
        [
            (text("col.resend"), found.resend_id),
            (text("col.status"), found.status),
            (text("resends.progress"), bar(found.progress_rate)),
            (text("col.accepted"), f"{found.accepted} / {found.total}"),
            (text("resends.refused"), found.refused),
            (text("resends.failed"), found.failed),
            (text("resends.left"), found.left),
            (text("resends.problem"), found.problem),
            (text("resends.not_before"), text.when(found.not_before)),
            (text("col.requested_by"), found.requested_by),
            (text("col.made"), text.when(found.created_at)),
            (text("col.ended"), text.when(found.ended_at)),
            (text("resends.cancelled_by"), found.ended_by),
        ]
    )
    if found.status is ResendStatus.FAILED:
        say(text("resends.gave_up"), "yellow")
    if found.status is ResendStatus.RUNNING:
        say(text("resends.how_to_cancel", resend=resend_id), "dim")


@app.command()
def answers(
    resend: ResendArgument,
    answer: Annotated[ResendAnswer | None, typer.Option("--answer", case_sensitive=False)] = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch resends answers 0198c0de-0000-7000-800b-000000000001 --answer REFUSED
    """
    resend_id = ResendId.parse(resend)
    with session.command_session() as at:
        page = at.ask(resend_queries.list_resend_answers, resend_id, answer, cursor, limit)
        text = at.texts(FAMILY)
    print_page(page, ANSWERS, text, "answers", text("resends.no_answers"), limit=limit, as_json=as_json)


@app.command()
def cancel(resend: ResendArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch resends cancel 0198c0de-0000-7000-800b-000000000001
    """
    found = session.run(cancel_resend, ResendId.parse(resend), dry_run=dry_run)
    if as_json:
        print_view(found)
        return
    key = "resends.cancel_dry" if dry_run else "resends.cancelled"
    say(Texts(FAMILY)(key, n=found.total - found.left, of=found.total), "green")
