"""`sellerwatch products`: the catalogue, the history of its products, and the bodies they were read from."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from sellerwatch.catalog import queries
from sellerwatch.catalog.changes import FoundFilter, FoundKind
from sellerwatch.catalog.product import NAMES, PartName, ProductState
from sellerwatch.catalog.queries import PRODUCTS, ProductFilter
from sellerwatch.catalog.resync import ResyncChoice
from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import data_out, out, print_json, print_table, print_view, progress
from sellerwatch.cli.product_export import open_export, target_of
from sellerwatch.cli.product_tables import (
    FAMILY,
    before_and_after,
    one_line,
    print_changes,
    print_history,
    print_product,
)
from sellerwatch.cli.session import AsJson, DryRun, say, seller_of
from sellerwatch.cli.texts import Texts
from sellerwatch.cli.times import parse_time
from sellerwatch.kernel.clock import EPOCH, stamp
from sellerwatch.kernel.ids import ExecutionId, ItemNo
from sellerwatch.kernel.paging import Cursor, decode_cursor, encode_cursor
from sellerwatch.operations.export import export_products
from sellerwatch.operations.refresh import refresh_products
from sellerwatch.operations.reparse import reparse_products
from sellerwatch.operations.resyncs import start_resync

if TYPE_CHECKING:
    from sellerwatch.catalog.ports import StoredBody
    from sellerwatch.operations.reparse import ReparseView

app = CommandApp()

#: The largest row that a cursor may name, in digits.
LONGEST_ROW = 18

ItemArgument = Annotated[str, typer.Argument(metavar="ITEM_NO")]


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


@app.command("list")
def list_(
    seller: str | None = None,
    state: Annotated[ProductState | None, typer.Option("--state", case_sensitive=False)] = None,
    search: str | None = None,
    execution: str | None = None,
    found: Annotated[FoundKind | None, typer.Option("--found", case_sensitive=False)] = None,
    updated_since: str | None = None,
    after: Annotated[str | None, typer.Option("--after", metavar="CURSOR")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 20,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch products list --seller seller_12345
    sellerwatch products list --search 코트
    sellerwatch products list --execution 0198c0de-0000-7000-8002-000000000001 --found new
    sellerwatch products list --state DELETED --after 4711 --limit 100 --json
    sellerwatch products list --updated-since 2h --json
    """
    run = None if execution is None else ExecutionId.parse(execution)
    name = None if search is None else session.text(search)
    with session.command_session() as at:
        since = parse_time(updated_since, at.now)
        chosen = ProductFilter(seller_of(seller), state, name, FoundFilter.of(run, found), since)
        page = at.ask(queries.list_products, chosen, _cursor(after), limit)
        text, now = at.texts(FAMILY), at.now
    end = decode_cursor(PRODUCTS, page.next) if since is None else None
    row = page.next if end is None else end.row
    if as_json:
        print_view(page, limit=limit, nextCursor=row)
        return
    print_table(
        text("products.title"),
        text.columns("item", "name", "seller", "status", "version", "last_seen", "updated"),
        [
            (
                product.item_no,
                product.name and one_line(product.name),
                product.seller_id,
                product.state,
                product.version,
                text.ago(product.last_seen_at, now) or text("never"),
                text.ago(product.updated_at, now),
            )
            for product in page.content
        ],
        empty=text("products.none" if chosen == ProductFilter() and after is None else "products.none_found"),
    )
    if row is not None:
        given = f" --seller {shlex.quote(chosen.seller_id)}" if chosen.seller_id else ""
        given += f" --state {state}" if state else ""
        given += f" --search {shlex.quote(search)}" if search else ""
        given += "" if chosen.found is None else f" --execution {execution} --found {chosen.found.kind}"
        given += f" --updated-since {stamp(since)}" if since else ""
        command = f"sellerwatch products list{given} --limit {limit} --after {row}"
        say(text("more", command=command), "dim")


@app.command()
def show(item: ItemArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch products show 900000001
    sellerwatch products show 900000001 --json | jq .productData.prices
    """
    number = ItemNo.parse_text(item)
    with session.command_session() as at:
        product = at.ask(queries.show_product, number, at.operations.rules.marketplace)
        at.show(product, print_product, FAMILY, as_json=as_json)


@app.command()
def history(item: ItemArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch products history 900000001
    """
    found = session.ask(queries.product_history, ItemNo.parse_text(item))
    if as_json:
        print_view(found)
        return
    text = Texts(FAMILY)
    print_history(found.content, text, empty=text("products.no_events", state=found.state))


@app.command()
def diff(
    item: ItemArgument,
    from_version: Annotated[int | None, typer.Option("--from", min=0, metavar="VERSION")] = None,
    to_version: Annotated[int | None, typer.Option("--to", min=1, metavar="VERSION")] = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch products diff 900000001
    sellerwatch products diff 900000001 --from 1 --to 4
    """
    found = session.ask(queries.product_diff, ItemNo.parse_text(item), from_version, to_version)
    if as_json:
        print_view(found)
        return
    text = Texts(FAMILY)
    if found.to_version == 0:
        say(text("products.no_events", state=found.state), "dim")
        return
    versions = {"from": found.from_version, "to": found.to_version}
    say(text("products.diff", item=str(found.item_no), **versions, n=len(found.changes)))
    print_changes(found.changes, text)


@app.command()
def raw(
    item: ItemArgument,
    part: PartName | None = None,
    number: Annotated[int, typer.Option("--version-number", min=1, metavar="N")] = 1,
    every: Annotated[bool, typer.Option("--all")] = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch products raw 900000001 --part detail
    sellerwatch products raw 900000001 --part options --version-number 2 > options.json
    """
    item_no, parts, wanted = ItemNo.parse_text(item), [*PartName] if part is None else [part], None if every else number
    is_one = part is not None and not every
    if as_json and not is_one:
        print_view(session.ask(queries.product_bodies, item_no, parts, wanted))
        return
    bodies = session.ask(queries.raw_bodies, item_no, parts, wanted)
    if as_json or not out.is_terminal:
        data_out.write(bodies[0].body if is_one else b"".join(body.body + b"\n" for body in bodies))
    else:
        _show_bodies(bodies, Texts(FAMILY))


@app.command()
def export(
    format_: Annotated[Format, typer.Option("--format", case_sensitive=False)],
    seller: str | None = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE")] = "-",
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch products export --format csv -o products.csv
    sellerwatch products export --format jsonl --seller seller_12345 | gzip > products.jsonl.gz
    sellerwatch products export --format parquet -o products.parquet --json
    """
    seller_id, target = seller_of(seller), target_of(output, format_, as_json=as_json)
    with session.command_session() as at:
        text = at.texts(FAMILY)
        at.ask(queries.count_complete, seller_id)
        with open_export(format_, target) as write, progress(text("export.progress")) as done:
            number = at.wait(export_products(at.operations, seller_id, write, done))
    if as_json:
        print_json({"products": number, "format": format_, "file": str(target)})
    elif target is not None:
        say(text("export.done", n=number, file=str(target)), "green")


@app.command()
def reparse(seller: str | None = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch products reparse --dry-run
    sellerwatch products reparse --seller seller_12345
    """
    with session.command_session() as at:
        text = at.texts(FAMILY)
        with progress(text("reparse.progress")) as done:
            found = at.wait(reparse_products(at.operations, seller_of(seller), dry_run=dry_run, progress=done))
    if as_json:
        print_view(found)
    else:
        _show_differences(found, text)
    if found.unreadable:
        raise typer.Exit(3)


@app.command()
def resync(
    seller: str | None = None, since: str | None = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Examples:

    sellerwatch products resync --dry-run
    sellerwatch products resync --seller seller_12345
    sellerwatch products resync --since 2026-11-15
    """
    with session.command_session() as at:
        choice = ResyncChoice(seller_of(seller), parse_time(since, at.now))
        found, text = at.run(start_resync, choice, dry_run=dry_run), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    say(text("resync.dry" if dry_run else "resync.done", n=found.products, deleted=found.deleted), "green")
    if found.left_out:
        say(text("resync.left_out", n=found.left_out))
    if found.held:
        say(text("resync.held", n=found.held), "yellow")
    if found.resync_id is not None:
        say(text("resync.follow", resync=found.resync_id), "dim")


@app.command()
def refresh(
    items: Annotated[list[str], typer.Argument(metavar="ITEM_NO...")], dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Examples:

    sellerwatch products refresh 900000001 900000002
    sellerwatch products refresh 900000001 --dry-run
    """
    item_nos = [ItemNo.parse_text(item) for item in items]
    with session.command_session() as at:
        rules, deadline = at.operations.rules, at.operations.deadline
        found = at.run(refresh_products, item_nos, rules, deadline, dry_run=dry_run)
        text = at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    key = "refresh.dry" if dry_run else "refresh.done"
    say(text(key, n=found.products, tasks=found.tasks), "yellow" if dry_run else "green")
    for run in found.runs:
        if run.execution_id is not None:
            say(text("refresh.follow", execution=run.execution_id), "dim")


def _cursor(given: str | None) -> str | None:
    """Return the cursor that was typed: the row of `nextCursor`, or the text of `next`."""
    if given is not None and given.isascii() and given.isdigit() and len(given) <= LONGEST_ROW:
        return encode_cursor(PRODUCTS, Cursor(EPOCH, int(given)))
    return given


def _show_bodies(bodies: Sequence[StoredBody], text: Texts) -> None:
    for body in bodies:
        at = f"{body.created_at:%Y-%m-%d %H:%M:%S}"
        say(text("products.stored", part=NAMES[body.part], at=at), "bold")
        try:
            say(orjson.dumps(orjson.loads(body.body), option=orjson.OPT_INDENT_2).decode())
        except orjson.JSONDecodeError:
            say(body.body.decode("utf-8", "replace"))


def _show_differences(found: ReparseView, text: Texts) -> None:
    if found.fields:
        print_table(
            text("reparse.title"),
            text.columns("field", "products", "example", "change"),
            [
                (each.field, each.products, sample.item_no, before_and_after(sample.before, sample.after, text))
                for each in found.fields
                for sample in [each.sample]
            ],
            empty="",
        )
    for problem in found.problems:
        say(text("reparse.problem", item=str(problem.item_no), problem=problem.message), "red")
    counts = {"differing": found.differing, "unreadable": found.unreadable, "events": found.events}
    say(text("reparse.dry" if found.dry_run else "reparse.done", n=found.read, **counts), "green")
