"""`sellerwatch removals`: products that disappeared from a seller's list, too many at once; a person decides."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.catalog import removal_queries
from sellerwatch.catalog.removal import RemovalStatus
from sellerwatch.cli import session
from sellerwatch.cli.output import print_facts, print_table, print_view, progress
from sellerwatch.cli.product_tables import FAMILY, one_line
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, say
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.ids import RemovalId, SellerId
from sellerwatch.operations.removals import confirm_removal, refuse_removal

if TYPE_CHECKING:
    from sellerwatch.catalog.removal_queries import RemovalDetailView

app = typer.Typer(no_args_is_help=True, help="Look at held removals; confirm or refuse them.")

RemovalArgument = Annotated[str, typer.Argument(metavar="REMOVAL_ID", help="As `removals list` shows it.")]


@app.command("list")
def list_(
    seller: Annotated[str | None, typer.Option("--seller", help="Only removals of this seller.")] = None,
    status: Annotated[
        RemovalStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """List removals, newest first.

    \b
    sellerwatch removals list --status HELD
    sellerwatch removals list --seller seller_12345 --json
    """
    seller_id = None if seller is None else SellerId.parse(seller)
    with session.command_session() as at:
        page = at.ask(removal_queries.list_removals, seller_id, status, cursor, limit)
        text, now = at.texts(FAMILY), at.now
    if as_json:
        print_view(page, limit=limit)
        return
    is_filtered = any(given is not None for given in (seller_id, status, cursor))
    print_table(
        text("removals.title"),
        text.columns("removal", "seller", "missing", "of", "reason", "status", "held_since", "decided_by"),
        [
            (
                removal.removal_id,
                removal.seller_id,
                removal.missing,
                removal.told,
                text(f"removal.{removal.reason}"),
                removal.status,
                text.ago(removal.created_at, now),
                removal.decided_by,
            )
            for removal in page.content
        ],
        empty=text("removals.none_like" if is_filtered else "removals.none"),
    )
    if page.next is not None:
        say(text("more", command=f"sellerwatch removals list --cursor {page.next}"), "dim")


@app.command()
def show(removal: RemovalArgument, as_json: AsJson = False) -> None:
    """Show a removal: how many products were missing, how many still are, and the first of them.

    \b
    sellerwatch removals show 0198c0de-0000-7000-8009-000000000001
    """
    removal_id = RemovalId.parse(removal)
    with session.command_session() as at:
        found = at.ask(removal_queries.show_removal, removal_id)
        text, now = at.texts(FAMILY), at.now
    if as_json:
        print_view(found)
        return
    print_facts(
        [
            (text("col.removal"), found.removal_id),
            (text("col.seller"), found.seller_id),
            (text("col.run"), found.execution_id),
            (text("col.reason"), text(f"removal.{found.reason}")),
            (text("col.status"), found.status),
            (text("fact.missing_then"), text("removal.of", n=found.missing, total=found.told)),
            (text("removals.missing"), found.still_missing),
            (text("col.held_since"), text.when(found.created_at, now)),
            (text("fact.decided"), text.when(found.decided_at, now)),
            (text("col.decided_by"), found.decided_by),
        ]
    )
    _show_missing(found, now, text)
    if found.status is RemovalStatus.HELD:
        say(text("removals.how_to_confirm", removal=removal_id), "dim")
        say(text("removals.how_to_refuse", removal=removal_id), "dim")


@app.command()
def confirm(removal: RemovalArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Write a PRODUCT_DELETED event for each product of a removal that is still missing.

    Products that were seen again since stay as they are.

    \b
    sellerwatch removals confirm 0198c0de-0000-7000-8009-000000000001 --dry-run
    sellerwatch removals confirm 0198c0de-0000-7000-8009-000000000001
    """
    removal_id = RemovalId.parse(removal)
    with session.command_session() as at:
        text, now = at.texts(FAMILY), at.now
        with progress(text("confirm.progress")) as done:
            found = at.wait(confirm_removal(at.operations, removal_id, dry_run=dry_run, progress=done))
    if as_json:
        print_view(found)
    elif dry_run:
        _show_missing(found, now, text)
        say(text("confirm.dry", n=found.still_missing), "green")
    else:
        say(text("confirm.done", n=found.removed, seller=found.seller_id, status=found.status), "green")


@app.command()
def refuse(removal: RemovalArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Refuse that the products are gone: no event is written. The next complete list that lacks them holds them again.

    \b
    sellerwatch removals refuse 0198c0de-0000-7000-8009-000000000001
    """
    found = session.run(refuse_removal, RemovalId.parse(removal), dry_run=dry_run)
    if as_json:
        print_view(found)
        return
    text = Texts(FAMILY)
    say(text("refuse.dry" if dry_run else "refuse.refused", n=found.missing, seller=found.seller_id), "green")
    if not dry_run:
        say(text("refuse.hint"), "dim")


def _show_missing(removal: RemovalDetailView, now: datetime, text: Texts) -> None:
    named, total = len(removal.items), removal.still_missing
    print_table(
        text("removals.first", n=named, total=total) if total > named else text("removals.missing"),
        text.columns("item", "name", "version", "last_seen"),
        [
            (
                product.item_no,
                product.name and one_line(product.name, 60),
                product.version,
                text.ago(product.last_seen_at, now) or text("never"),
            )
            for product in removal.items
        ],
        empty=text("removals.none_missing"),
    )
