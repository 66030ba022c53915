"""`sellerwatch resyncs`: the present state of products, sent again; `products resync` asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.catalog import resync_queries
from sellerwatch.catalog.resync import ResyncStatus
from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_view
from sellerwatch.cli.product_tables import FAMILY
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, bar, say, seller_of
from sellerwatch.cli.tables import Columns, print_page
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.ids import ResyncId
from sellerwatch.operations.resyncs import cancel_resync

if TYPE_CHECKING:
    from sellerwatch.catalog.resync_queries import ResyncView

app = CommandApp()

ResyncArgument = Annotated[str, typer.Argument(metavar="RESYNC_ID")]

RESYNCS: Columns[ResyncView] = {
    "resync": lambda resync, _: resync.resync_id,
    "seller": lambda resync, text: resync.seller_id or text("resyncs.all"),
    "status": lambda resync, _: resync.status,
    "snapshots": lambda resync, _: f"{resync.written} / {resync.total}",
    "requested_by": lambda resync, _: resync.requested_by,
    "requested": lambda resync, text: text.ago(resync.created_at),
    "ended": lambda resync, text: text.ago(resync.ended_at),
}


@app.command("list")
def list_(
    seller: str | None = None,
    status: Annotated[ResyncStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch resyncs list
    sellerwatch resyncs list --status RUNNING --json
    """
    seller_id = seller_of(seller)
    with session.command_session() as at:
        page, text = at.ask(resync_queries.list_resyncs, seller_id, status, cursor, limit), at.texts(FAMILY)
    is_filtered = any(given is not None for given in (seller_id, status, cursor))
    empty = text("resyncs.none_like" if is_filtered else "resyncs.none")
    print_page(page, RESYNCS, text, "resyncs", empty, limit=limit, as_json=as_json)


@app.command()
def show(resync: ResyncArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch resyncs show 0198c0de-0000-7000-8009-000000000001
    """
    resync_id = ResyncId.parse(resync)
    with session.command_session() as at:
        found, text = at.ask(resync_queries.show_resync, resync_id), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    print_facts(
        [
            (text("col.resync"), found.resync_id),
            (text("col.seller"), found.seller_id or text("resyncs.all")),
            (text("fact.since"), text.when(found.since)),
            (text("col.status"), found.status),
            (text("col.snapshots"), f"{found.written} / {found.total}"),
            (text("fact.progress"), bar(found.progress_rate)),
            (text("fact.snapshots_waiting"), found.waiting),
            (text("col.requested_by"), found.requested_by),
            (text("col.requested"), text.when(found.created_at)),
            (text("col.ended"), text.when(found.ended_at)),
            (text("fact.cancelled_by"), found.ended_by),
        ]
    )
    if found.status is ResyncStatus.RUNNING:
        say(text("resyncs.how_to_cancel", resync=resync_id), "dim")


@app.command()
def cancel(resync: ResyncArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch resyncs cancel 0198c0de-0000-7000-8009-000000000001
    """
    found = session.run(cancel_resync, ResyncId.parse(resync), dry_run=dry_run)
    if as_json:
        print_view(found)
        return
    say(
        Texts(FAMILY)("resyncs.cancel_dry" if dry_run else "resyncs.cancelled", n=found.written, of=found.total),
        "green",
    )
