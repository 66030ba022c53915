"""`sellerwatch removals`: products that disappeared from a seller's list, too many at once; a person decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.catalog import removal_queries
from sellerwatch.catalog.removal import RemovalStatus
from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_view, progress
from sellerwatch.cli.product_tables import FAMILY, one_line
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, say, seller_of
from sellerwatch.cli.tables import Columns, print_page, print_views
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.ids import RemovalId
from sellerwatch.operations.removals import confirm_removal, refuse_removal

if TYPE_CHECKING:
    from sellerwatch.catalog.removal_queries import MissingProductView, RemovalDetailView, RemovalView

app = CommandApp()

RemovalArgument = Annotated[str, typer.Argument(metavar="REMOVAL_ID")]

REMOVALS: Columns[RemovalView] = {
    "removal": lambda removal, _: removal.removal_id,
    "seller": lambda removal, _: removal.seller_id,
    "missing": lambda removal, _: removal.missing,
    "of": lambda removal, _: removal.told,
    "reason": lambda removal, text: text(f"removal.{removal.reason}"),
    "status": lambda removal, _: removal.status,
    "held_since": lambda removal, text: text.ago(removal.created_at),
    "decided_by": lambda removal, _: removal.decided_by,
}
MISSING: Columns[MissingProductView] = {
    "item": lambda product, _: product.item_no,
    "name": lambda product, _: product.name and one_line(product.name, 60),
    "version": lambda product, _: product.version,
    "last_seen": lambda product, text: text.ago(product.last_seen_at) or text("never"),
}


@app.command("list")
def list_(
    seller: str | None = None,
    status: Annotated[RemovalStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch removals list --status HELD
    sellerwatch removals list --seller seller_12345 --json
    """
    seller_id = seller_of(seller)
    with session.command_session() as at:
        page, text = at.ask(removal_queries.list_removals, seller_id, status, cursor, limit), at.texts(FAMILY)
    is_filtered = any(given is not None for given in (seller_id, status, cursor))
    empty = text("removals.none_like" if is_filtered else "removals.none")
    print_page(page, REMOVALS, text, "removals", empty, limit=limit, as_json=as_json)


@app.command()
def show(removal: RemovalArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch removals show 0198c0de-0000-7000-8009-000000000001
    """
    removal_id = RemovalId.parse(removal)
    with session.command_session() as at:
        found = at.ask(removal_queries.show_removal, removal_id)
        text = at.texts(FAMILY)
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
            (text("col.held_since"), text.when(found.created_at)),
            (text("fact.decided"), text.when(found.decided_at)),
            (text("col.decided_by"), found.decided_by),
        ]
    )
    _show_missing(found, text)
    if found.status is RemovalStatus.HELD:
        say(text("removals.how_to_confirm", removal=removal_id), "dim")
        say(text("removals.how_to_refuse", removal=removal_id), "dim")


@app.command()
def confirm(removal: RemovalArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch removals confirm 0198c0de-0000-7000-8009-000000000001 --dry-run
    sellerwatch removals confirm 0198c0de-0000-7000-8009-000000000001
    """
    removal_id = RemovalId.parse(removal)
    with session.command_session() as at:
        text = at.texts(FAMILY)
        with progress(text("confirm.progress")) as done:
            found = at.wait(confirm_removal(at.operations, removal_id, dry_run=dry_run, progress=done))
    if as_json:
        print_view(found)
    elif dry_run:
        _show_missing(found, text)
        say(text("confirm.dry", n=found.still_missing), "green")
    else:
        say(text("confirm.done", n=found.removed, seller=found.seller_id, status=found.status), "green")


@app.command()
def refuse(removal: RemovalArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

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


def _show_missing(removal: RemovalDetailView, text: Texts) -> None:
    named, total = len(removal.items), removal.still_missing
    title = text("removals.first", n=named, total=total) if total > named else text("removals.missing")
    print_views(title, removal.items, MISSING, text, empty=text("removals.none_missing"))
