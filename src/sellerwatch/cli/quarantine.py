"""`sellerwatch quarantine`: changes that may be a fault of the marketplace's pages or of the parser, held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.catalog import quarantine_queries
from sellerwatch.catalog.quarantine import CaseKind, CaseStatus
from sellerwatch.cli import session
from sellerwatch.cli.output import print_facts, print_table, print_view, progress
from sellerwatch.cli.product_tables import FAMILY, ON_A_LINE, before_and_after, one_line
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, say
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.ids import CaseId, SellerId
from sellerwatch.operations.quarantine import drop_case, release_case

if TYPE_CHECKING:
    from sellerwatch.catalog.quarantine_queries import CaseDetailView, CaseView
    from sellerwatch.operations.quarantine import ReleasedCaseView

app = typer.Typer(no_args_is_help=True, help="Look at held changes; release them into the catalogue, or drop them.")

CaseArgument = Annotated[str, typer.Argument(metavar="CASE_ID", help="As `quarantine list` shows it.")]


@app.command("list")
def list_(
    seller: Annotated[str | None, typer.Option("--seller", help="Only cases of this seller.")] = None,
    status: Annotated[
        CaseStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """List cases, newest first: whose products are held, and why.

    \b
    sellerwatch quarantine list --status OPEN
    sellerwatch quarantine list --seller seller_12345 --json
    """
    seller_id = None if seller is None else SellerId.parse(seller)
    with session.command_session() as at:
        page = at.ask(quarantine_queries.list_cases, seller_id, status, cursor, limit)
        text, now = at.texts(FAMILY), at.now
    if as_json:
        print_view(page, limit=limit)
        return
    is_filtered = any(given is not None for given in (seller_id, status, cursor))
    print_table(
        text("quarantine.title"),
        text.columns("case", "seller", "part", "why", "held", "status", "opened"),
        [
            (
                case.case_id,
                case.seller_id,
                case.part,
                one_line(_why(case, text), 60),
                case.held,
                case.status,
                text.ago(case.created_at, now),
            )
            for case in page.content
        ],
        empty=text("quarantine.none_like" if is_filtered else "quarantine.none"),
    )
    if page.next is not None:
        say(text("more", command=f"sellerwatch quarantine list --cursor {page.next}"), "dim")


@app.command()
def show(case: CaseArgument, as_json: AsJson = False) -> None:
    """Show a case: why, a sample before and after, how many parts are held, and of which products.

    \b
    sellerwatch quarantine show 0198c0de-0000-7000-8008-000000000001
    """
    case_id = CaseId.parse(case)
    with session.command_session() as at:
        found = at.ask(quarantine_queries.show_case, case_id)
        text, now = at.texts(FAMILY), at.now
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
            (text("col.opened"), text.when(found.created_at, now)),
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
    """Read what is held under a case with the parser of this version, and put it into the catalogue.

    Exit code 3 when some cannot be read by it either: those stay held, and the case open.

    \b
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
    """Forget what is held under a case: the products stay as they are, and the same facts are not held again.

    \b
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
    """Print the drift report: fields in the marketplace's answers that the contract does not have.

    \b
    sellerwatch quarantine drift
    """
    with session.command_session() as at:
        report = at.ask(quarantine_queries.drift_report)
        text, now = at.texts(FAMILY), at.now
    if as_json:
        print_view(report)
        return
    print_table(
        text("quarantine.drift"),
        text.columns("endpoint", "field", "answers", "first_item", "first_seen", "last_seen"),
        [
            (
                field.endpoint,
                one_line(field.field, ON_A_LINE),
                field.answers,
                field.first_item_no,
                text.ago(field.first_seen_at, now),
                text.ago(field.last_seen_at, now),
            )
            for field in report.content
        ],
        empty=text("quarantine.drift_none"),
    )


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


def _why(case: CaseView, text: Texts) -> str:
    if case.kind is CaseKind.UNREADABLE:
        return text("quarantine.unreadable", problem=case.field.partition(" ")[2] or case.field)
    return text("quarantine.share", field=case.field)


def _sample(case: CaseView, text: Texts) -> Any:
    if case.kind is CaseKind.UNREADABLE:
        return one_line(case.sample_after or "", ON_A_LINE)
    return before_and_after(case.sample_before, case.sample_after, text, ON_A_LINE)


def _items(case: CaseDetailView, text: Texts) -> str | None:
    listed = ", ".join(map(str, case.items))
    more = case.held - len(case.items)
    return f"{listed} {text('and_more', n=more)}" if more > 0 else listed or None
