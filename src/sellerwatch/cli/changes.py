"""`sellerwatch changes`: what changed."""

from __future__ import annotations

from typing import Annotated

import typer

from sellerwatch.catalog import change_queries
from sellerwatch.catalog.changes import ChangeFilter
from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_table, print_view
from sellerwatch.cli.product_tables import FAMILY, before_and_after, one_line
from sellerwatch.cli.session import AsJson, CursorOption, Limit, say
from sellerwatch.cli.tables import continued
from sellerwatch.cli.times import parse_time
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId

app = CommandApp()


@app.callback()
def changes() -> None:
    """A group of one command: others may join it."""


@app.command("list")
def list_(
    seller: str | None = None,
    kind: Annotated[
        list[ChangeKind] | None,
        typer.Option("--kind", case_sensitive=False),
    ] = None,
    item: Annotated[int | None, typer.Option("--item", min=1)] = None,
    execution: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch changes list --since 24h
    sellerwatch changes list --seller seller_12345 --kind price --kind sold_out --json
    """
    with session.command_session() as at:
        choice = ChangeFilter(
            seller_id=None if seller is None else SellerId.parse(seller),
            kinds=tuple(kind or ()),
            item_no=None if item is None else ItemNo.parse(item),
            execution_id=None if execution is None else ExecutionId.parse(execution),
            since=parse_time(since, at.now),
            until=parse_time(until, at.now),
        )
        page = at.ask(change_queries.list_changes, choice, cursor, limit)
        text, now = at.texts(FAMILY), at.now
    if as_json:
        print_view(page, limit=limit)
        return
    print_table(
        text("changes.title"),
        text.columns("time", "seller", "item", "name", "kind", "field", "change"),
        [
            (
                text.when(each.at, now),
                each.seller_id,
                each.item_no,
                one_line(each.name or "-", 30),
                text(f"change.{each.kind}"),
                each.field or "-",
                "-" if each.field is None else before_and_after(each.before, each.after, text),
            )
            for each in page.content
        ],
        empty=text("changes.none"),
    )
    if page.next is not None:
        say(text("more", command=continued(page.next)), "dim")
