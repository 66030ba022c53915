"""`sellerwatch quarantine`: changes that may be a fault of the marketplace's pages or of the parser, held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.catalog import quarantine_queries
from sellerwatch.catalog.quarantine import CaseKind, CaseStatus
from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_view, progress
from sellerwatch.cli.product_tables import FAMILY, ON_A_LINE, before_and_after, one_line
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, say, seller_of
from sellerwatch.cli.tables import Columns, print_page, print_views
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.ids import CaseId
from sellerwatch.operations.quarantine import drop_case, release_case

if TYPE_CHECKING:
    from sellerwatch.catalog.quarantine_queries import CaseDetailView, CaseView, DriftReportView, UnknownFieldView
    from sellerwatch.operations.quarantine import ReleasedCaseView

app = CommandApp()

CaseArgument = Annotated[str, typer.Argument(metavar="CASE_ID")]


def _why(case: CaseView, text: Texts) -> str:
    if case.kind is CaseKind.UNREADABLE:
        return text("quarantine.unreadable", problem=case.field.partition(" ")[2] or case.field)
    return text("quarantine.share", field=case.field)


CASES: Columns[CaseView] = {
    "case": lambda case, _: case.case_id,
    "seller": lambda case, _: case.seller_id,
    "part": lambda case, _: case.part,
    "why": lambda case, text: one_line(_why(case, text), 60),
    "held": lambda case, _: case.held,
    "status": lambda case, _: case.status,
    "opened": lambda case, text: text.ago(case.created_at),
}
DRIFT: Columns[UnknownFieldView] = {
    "endpoint": lambda field, _: field.endpoint,
    "field": lambda field, _: one_line(field.field, ON_A_LINE),
    "answers": lambda field, _: field.answers,
    "first_item": lambda field, _: field.first_item_no,
    "first_seen": lambda field, text: text.ago(field.first_seen_at),
    "last_seen": lambda field, text: text.ago(field.last_seen_at),
}


@app.command("list")
def list_(
    seller: str | None = None,
    status: Annotated[CaseStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch quarantine list --status OPEN
    sellerwatch quarantine list --seller seller_12345 --json
    """
    seller_id = seller_of(seller)
    with session.command_session() as at:
        page, text = at.ask(quarantine_queries.list_cases, seller_id, status, cursor, limit), at.texts(FAMILY)
    is_filtered = any(given is not None for given in (seller_id, status, cursor))
    empty = text("quarantine.none_like" if is_filtered else "quarantine.none")
    print_page(page, CASES, text, "quarantine", empty, limit=limit, as_json=as_json)


@app.command()
def show(case: CaseArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch quarantine show 0198c0de-0000-7000-8008-000000000001
    """
    case_id = CaseId.parse(case)
    with session.command_session() as at:
        found = at.ask(quarantine_queries.show_case, case_id)
        text = at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    print_facts(
        [
            (text("col.case"), found.case_id),
            (text("col.seller"), found.seller_id),
            (text("col.run"), found.execution_id),
            (text("col.part"), found.part),
            (text("col.why"), one_line(_why(found, text), ON_A_LINE)),
            (text("col.status"), found.status),
            (text("col.opened"), text.when(found.created_at)),
            (text("col.decided_by"), found.decided_by),
            (text("fact.sample_item"), found.sample_item_no),
            (text("fact.sample"), _sample(found, text)),
            (text("fact.parts_held"), found.held),
            (text("fact.items"), _items(found, text)),
        ]
    )
    if found.status is CaseStatus.OPEN:
        say(text("quarantine.how_to_release", case=case_id), "dim")
        say(text("quarantine.how_to_drop", case=case_id), "dim")


@app.command()
def release(case: CaseArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch quarantine release 0198c0de-0000-7000-8008-000000000001 --dry-run
    sellerwatch quarantine release 0198c0de-0000-7000-8008-000000000001
    """
    case_id = CaseId.parse(case)
    with session.command_session() as at:
        text = at.texts(FAMILY)
        with progress(text("release.progress")) as done:
            released = at.wait(release_case(at.operations, case_id, dry_run=dry_run, progress=done))
    if as_json:
        print_view(released)
    else:
        _show_release(released, text)
    if released.unreadable:
        raise typer.Exit(3)


@app.command()
def drop(case: CaseArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch quarantine drop 0198c0de-0000-7000-8008-000000000001 --dry-run
    sellerwatch quarantine drop 0198c0de-0000-7000-8008-000000000001
    """
    dropped = session.run(drop_case, CaseId.parse(case), dry_run=dry_run)
    if as_json:
        print_view(dropped)
        return
    text = Texts(FAMILY)
    if dry_run:
        say(text("drop.dry", n=dropped.held), "green")
        return
    say(text("drop.dropped", n=dropped.dropped), "green")
    say(text("drop.hint"), "dim")


@app.command()
def drift(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch quarantine drift
    """
    with session.command_session() as at:
        at.show(at.ask(quarantine_queries.drift_report), _show_drift, FAMILY, as_json=as_json)


def _show_drift(report: DriftReportView, text: Texts) -> None:
    title, empty = text("quarantine.drift"), text("quarantine.drift_none")
    print_views(title, report.content, DRIFT, text, empty=empty)


def _show_release(released: ReleasedCaseView, text: Texts) -> None:
    if released.dry_run:
        say(text("release.dry", n=released.held - released.unreadable, held=released.held), "green")
    else:
        facts = {"n": released.taken, "events": released.events, "status": released.status}
        say(text("release.taken", **facts), "yellow" if released.unreadable else "green")
    if released.unreadable:
        items = ", ".join(map(str, released.items))
        say(text("release.unreadable", n=released.unreadable, items=items), "red")
        say(text("release.hint"), "dim")


def _sample(case: CaseView, text: Texts) -> Any:
    if case.kind is CaseKind.UNREADABLE:
        return one_line(case.sample_after or "", ON_A_LINE)
    return before_and_after(case.sample_before, case.sample_after, text, ON_A_LINE)


def _items(case: CaseDetailView, text: Texts) -> str | None:
    listed = ", ".join(map(str, case.items))
    more = case.held - len(case.items)
    return f"{listed} {text('and_more', n=more)}" if more > 0 else listed or None
