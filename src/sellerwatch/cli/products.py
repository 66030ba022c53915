"""`sellerwatch products`: the catalogue as it is known, how it came to be so, and what it was read from."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.history import last_change, state_at
from sellerwatch.catalog.product import NAMES, PARTS, BodyNotFound, PartName, Product, ProductState
from sellerwatch.cli import session
from sellerwatch.cli.executions import must_be_known
from sellerwatch.cli.output import ago, out, print_json, print_table, progress
from sellerwatch.cli.products_output import (
    before_and_after,
    change_json,
    entry_json,
    looked_at_json,
    print_changes,
    print_history,
    print_product,
    product_json,
    value,
)
from sellerwatch.cli.session import AsJson, Desk, say, stamp
from sellerwatch.kernel.ids import InvalidItemNo, ItemNo, SellerId

if TYPE_CHECKING:
    from sellerwatch.catalog.ports import HistoryEntry, StoredBody
    from sellerwatch.catalog.queries import Known, LookedAt
    from sellerwatch.cli.product_export import Write
    from sellerwatch.operations.catalog import Rereading
    from sellerwatch.operations.ports import ServiceTx

app = typer.Typer(no_args_is_help=True, help="Look at products, their history and their bodies; export, read again.")

MOST_BODIES = 1000
MOST_PROBLEMS = 20
#: More digits are no item number; fewer would be cut.
LONGEST_NUMBER = 30

ItemArgument = Annotated[str, typer.Argument(metavar="ITEM_NO", help="The marketplace's number of the product.")]
SellerOption = Annotated[str | None, typer.Option("--seller", help="Only products of this seller.")]


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


@app.command("list")
def list_(
    seller: SellerOption = None,
    state: Annotated[
        ProductState | None, typer.Option("--state", case_sensitive=False, help="Only those in this state.")
    ] = None,
    search: Annotated[str | None, typer.Option("--search", help="Only those with this in their name.")] = None,
    after: Annotated[
        int | None, typer.Option("--after", min=0, metavar="CURSOR", help="Go on behind the last page.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most this many, oldest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List products in the order they were found, page by page.

    \b
    sellerwatch products list --seller seller_12345
    sellerwatch products list --search 코트
    sellerwatch products list --state DELETED --after 4711 --limit 100 --json
    """
    seller_id = None if seller is None else SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[tuple[int, Product, str | None]], bool, datetime]:
        from sellerwatch.catalog.queries import told_data  # noqa: PLC0415

        must_be_known(tx, seller_id)
        page = tx.product_queries.newest(seller_id=seller_id, state=state, after=after, limit=limit + 1, search=search)
        named = [(row, product, told_data(tx, product).get("name")) for row, product in page[:limit]]
        return named, len(page) > limit, at.now

    page, is_more, now = session.look(work)
    cursor = page[-1][0] if is_more else None
    if as_json:
        print_json({"content": [product_json(p, name) for _, p, name in page], "limit": limit, "nextCursor": cursor})
        return
    filtered = any(given is not None for given in (seller_id, state, search, after))
    print_table(
        "Products",
        ("item", "name", "seller", "state", "version", "last seen", "changed"),
        [
            (
                p.item_no,
                name and value(name),
                p.seller_id,
                p.state,
                p.version,
                ago(p.last_seen_at, now),
                ago(p.updated_at, now),
            )
            for _, p, name in page
        ],
        empty="No product is like that. All of them: sellerwatch products list"
        if filtered
        else "No products yet: runs find them. Start one: sellerwatch crawl SELLER_ID",
    )
    if cursor is not None:
        given = f" --seller {seller_id}" if seller_id else ""
        given += f" --state {state}" if state else ""
        given += f" --search {shlex.quote(search)}" if search else ""
        say(f"More: sellerwatch products list{given} --limit {limit} --after {cursor}", "dim")


@app.command()
def show(item: ItemArgument, as_json: AsJson = False) -> None:
    """Show a product as it is known now, its last event, and what of it is held. With --json the whole productData.

    \b
    sellerwatch products show 900000001
    sellerwatch products show 900000001 --json | jq .productData.prices
    """
    number = item_number(item)

    def work(tx: ServiceTx, at: Desk) -> tuple[LookedAt, datetime]:
        from sellerwatch.catalog.queries import look_at  # noqa: PLC0415

        return look_at(tx, number, at.rules.marketplace), at.now

    found, now = session.look(work)
    if as_json:
        print_json(looked_at_json(found))
        return
    print_product(found, now)


@app.command()
def history(item: ItemArgument, as_json: AsJson = False) -> None:
    """Show every state a product was found in: when, in which run, and how it differed from the one before.

    \b
    sellerwatch products history 900000001
    """
    product, entries = _history(item)
    if as_json:
        print_json({"itemNo": product.item_no, "content": [entry_json(entry) for entry in entries]})
        return
    print_history(entries, empty=f"Nothing has been told of it yet: it is {product.state}.")


@app.command()
def diff(
    item: ItemArgument,
    from_version: Annotated[
        int | None, typer.Option("--from", min=0, metavar="VERSION", help="0: before anything was known.")
    ] = None,
    to_version: Annotated[
        int | None, typer.Option("--to", min=1, metavar="VERSION", help="Otherwise as it is now.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two versions of a product, field by field; by default its last change.

    With --to alone from the version before that one, with --from alone up to now.

    \b
    sellerwatch products diff 900000001
    sellerwatch products diff 900000001 --from 1 --to 4
    """
    product, entries = _history(item)
    start, end, changes = _difference(product, entries, from_version, to_version)
    if as_json:
        shown = [change_json(change) for change in changes]
        print_json({"itemNo": product.item_no, "fromVersion": start, "toVersion": end, "changes": shown})
        return
    if not entries:
        say(f"Nothing has been told of it yet: it is {product.state}.", "dim")
        return
    say(f"Item {product.item_no}, version {start} to {end}: {len(changes)} field(s) differ.")
    print_changes(changes)


@app.command()
def raw(
    item: ItemArgument,
    part: Annotated[PartName | None, typer.Option("--part", help="One part; otherwise all three.")] = None,
    number: Annotated[
        int, typer.Option("--version-number", min=1, metavar="N", help="1 is the newest body, 2 the one before it ...")
    ] = 1,
    every: Annotated[bool, typer.Option("--all", help="Every body that is kept, newest first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the stored bodies a product was read from: readable on a terminal, into a pipe byte for byte as they came.

    With --part that is the one body; several come in one JSON object with --json, else each on its own line.

    \b
    sellerwatch products raw 900000001 --part detail
    sellerwatch products raw 900000001 --part options --version-number 2 > options.json
    """
    item_no = item_number(item)
    parts = list(PARTS) if part is None else [part]

    def work(tx: ServiceTx, at: Desk) -> dict[PartName, Sequence[StoredBody]]:
        from sellerwatch.catalog.queries import found_product  # noqa: PLC0415

        product_id = found_product(tx, item_no).product_id
        most = MOST_BODIES if every else number
        return {name: tx.bodies.bodies_of(product_id, PARTS[name], most) for name in parts}

    found = session.look(work)
    chosen = [body for name in parts for body in (found[name] if every else found[name][number - 1 :])]
    if not chosen:
        kept = sum(len(bodies) for bodies in found.values())
        raise BodyNotFound(item_no=item_no, part=part or "any part", kept=kept)
    _print_bodies(item_no, chosen, alone=part is not None and not every, as_json=as_json)


@app.command()
def export(
    format_: Annotated[Format, typer.Option("--format", case_sensitive=False, help="csv, jsonl or parquet.")],
    seller: SellerOption = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")] = "-",
    as_json: AsJson = False,
) -> None:
    """Write every complete product to a file, or to standard output. A file is there whole or not at all.

    In CSV a text that a spreadsheet would run (it begins with = + - or @) gets an apostrophe in front.

    \b
    sellerwatch products export --format csv -o products.csv
    sellerwatch products export --format jsonl --seller seller_12345 | gzip > products.jsonl.gz
    sellerwatch products export --format parquet -o products.parquet --json
    """
    from sellerwatch.cli.product_export import open_export, target_of  # noqa: PLC0415

    seller_id = None if seller is None else SellerId.parse(seller)
    target = target_of(output, format_, as_json=as_json)
    with session.command_session() as command_session:
        total = command_session.look(lambda tx, _: _countable(tx, seller_id))
        with open_export(format_, target) as write, progress("exporting", total) as done:
            number = _export(command_session, seller_id, write, done)
    if as_json:
        print_json({"products": number, "format": format_, "file": str(target)})
    elif target is not None:
        say(f"{number} product(s) written to {target}.", "green")


@app.command()
def reparse(
    seller: SellerOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would differ, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read every stored body again with today's parser, and tell what differs from what was told.

    Exit code 3 when some bodies cannot be read: those products stay as they are.

    \b
    sellerwatch products reparse --dry-run
    sellerwatch products reparse --seller seller_12345
    """
    seller_id = None if seller is None else SellerId.parse(seller)
    found = Found()
    with session.command_session() as command_session:
        total = command_session.look(lambda tx, _: _countable(tx, seller_id))
        with progress("reading", total) as done:
            after: int | None = 0
            while after is not None:
                step = _reparse(command_session, seller_id, after, dry_run=dry_run)
                found.add(step)
                done(step.read)
                after = step.after
    if as_json:
        print_json(found.as_json(dry_run=dry_run))
    else:
        _print_found(found, dry_run=dry_run)
    if found.unreadable:
        raise typer.Exit(3)


@dataclass
class Found:
    """What reading again has found so far: counts, and few enough samples that a large catalogue fits."""

    read: int = 0
    differing: int = 0
    events: int = 0
    unreadable: int = 0
    by_field: Counter[str] = field(default_factory=Counter)
    samples: dict[str, tuple[ItemNo, Change]] = field(default_factory=dict)
    problems: list[tuple[ItemNo, str]] = field(default_factory=list)

    def add(self, step: Rereading) -> None:
        self.read += step.read
        self.events += step.events
        for product in step.differing:
            if product.problem is not None:
                self.unreadable += 1
                if len(self.problems) < MOST_PROBLEMS:
                    self.problems.append((product.item_no, product.problem))
                continue
            self.differing += 1
            self.by_field.update({change.general_field for change in product.changes})
            for change in product.changes:
                self.samples.setdefault(change.general_field, (product.item_no, change))

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        return {
            "dryRun": dry_run,
            "read": self.read,
            "differing": self.differing,
            "events": self.events,
            "unreadable": self.unreadable,
            "fields": [
                {"field": name, "products": number, "sample": self._sample(name)}
                for name, number in self.by_field.most_common()
            ],
            "problems": [{"itemNo": item, "message": problem} for item, problem in self.problems],
        }

    def _sample(self, name: str) -> dict[str, Any]:
        item, change = self.samples[name]
        return {"itemNo": item} | change_json(change)


def item_number(text: str) -> ItemNo:
    """As it is typed."""
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise InvalidItemNo(given=text[:50])
    return ItemNo.parse(int(text))


def _countable(tx: ServiceTx, seller_id: SellerId | None) -> int:
    must_be_known(tx, seller_id)
    return tx.product_queries.count(seller_id, ProductState.COMPLETE)


def _history(item: str) -> tuple[Product, Sequence[HistoryEntry]]:
    number = item_number(item)

    def work(tx: ServiceTx, at: Desk) -> tuple[Product, Sequence[HistoryEntry]]:
        from sellerwatch.catalog.queries import found_product  # noqa: PLC0415

        product = found_product(tx, number)
        return product, tx.history.of_product(product.product_id)

    return session.look(work)


def _difference(
    product: Product, entries: Sequence[HistoryEntry], start: int | None, end: int | None
) -> tuple[int, int, Sequence[Change]]:
    if start is None and end is None:
        return last_change(entries)
    if start is None and end is not None:
        start = end - 1
    last, after = state_at(entries, product.item_no, end)
    first, before = state_at(entries, product.item_no, start)
    return first, last, differences(before, after)


def _print_bodies(item_no: ItemNo, bodies: Sequence[StoredBody], *, alone: bool, as_json: bool) -> None:
    raw_out = sys.stdout.buffer
    if alone and (as_json or not out.is_terminal):
        raw_out.write(bodies[0].body)
    elif as_json:
        content = [
            {"part": NAMES[b.part], "hash": b.digest, "storedAt": stamp(b.created_at), "body": orjson.Fragment(b.body)}
            for b in bodies
        ]
        print_json({"itemNo": item_no, "content": content})
    elif not out.is_terminal:
        raw_out.writelines(piece for body in bodies for piece in (body.body, b"\n"))
    else:
        for body in bodies:
            say(f"{NAMES[body.part]}, stored {body.created_at:%Y-%m-%d %H:%M:%S} UTC", "bold")
            say(_readable(body.body))
    raw_out.flush()


def _readable(body: bytes) -> str:
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")


def _export(
    command_session: session.CommandSession, seller_id: SellerId | None, write: Write, done: Callable[[int], None]
) -> int:
    """Page by page, each a look of its own: memory does not grow with the catalogue, and no writer waits for us."""
    from sellerwatch.catalog.queries import known  # noqa: PLC0415
    from sellerwatch.cli.product_export import PAGE  # noqa: PLC0415

    after, number = 0, 0
    while True:

        def page_behind(tx: ServiceTx, at: Desk, behind: int = after) -> tuple[int | None, list[Known]]:
            page = tx.product_queries.newest(seller_id=seller_id, state=ProductState.COMPLETE, after=behind, limit=PAGE)
            found = known(tx, [product for _, product in page], at.rules.marketplace)
            return (page[-1][0] if page else None), found

        last, found = command_session.look(page_behind)
        if last is None:
            return number
        write(found)
        done(len(found))
        after, number = last, number + len(found)


def _reparse(
    command_session: session.CommandSession, seller_id: SellerId | None, after: int, *, dry_run: bool
) -> Rereading:
    def work(tx: ServiceTx, at: Desk) -> Rereading:
        from sellerwatch.operations import catalog  # noqa: PLC0415

        return catalog.reparse(
            tx, at.rules, seller_id=seller_id, after=after, dry_run=dry_run, actor=at.actor, ids=at.ids, now=at.now
        )

    return command_session.look(work) if dry_run else command_session.change(work)


def _print_found(found: Found, *, dry_run: bool) -> None:
    if found.by_field:
        print_table(
            "What differs from what was told",
            ("field", "products", "for example", "before → after"),
            [
                (name, number, found.samples[name][0], before_and_after(change.before, change.after))
                for name, number in found.by_field.most_common()
                for change in [found.samples[name][1]]
            ],
            empty="",
        )
    for item, problem in found.problems:
        say(f"Item {item} cannot be read: {problem}", "red")
    said = f"{found.read} product(s) read again: {found.differing} differ"
    said += f", {found.unreadable} cannot be read" if found.unreadable else ""
    if dry_run:
        say(f"{said}. Nothing was changed; without --dry-run what differs is told.", "green")
    else:
        say(f"{said}; {found.events} event(s) written.", "green")
