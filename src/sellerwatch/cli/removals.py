"""`sellerwatch removals`: more products gone from a seller's list than a shop loses by itself; a person decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.catalog.product import Product
from sellerwatch.catalog.removal import REMOVAL_LIFE, Removal, RemovalReason, RemovalStatus
from sellerwatch.cli import session
from sellerwatch.cli.executions import must_be_known
from sellerwatch.cli.output import ago, print_facts, print_json, print_table, progress
from sellerwatch.cli.products_output import value
from sellerwatch.cli.session import AsJson, Desk, Limit, say, stamp
from sellerwatch.kernel.ids import RemovalId, SellerId

if TYPE_CHECKING:
    from sellerwatch.operations.catalog import Confirmed
    from sellerwatch.operations.ports import ServiceTx

app = typer.Typer(no_args_is_help=True, help="Look at held removals; confirm or refuse them.")

#: Products that are named; of the others there is the number.
MOST_ITEMS = 20

RemovalArgument = Annotated[str, typer.Argument(metavar="REMOVAL_ID", help="As `removals list` shows it.")]
Missing = Sequence[tuple[Product, str | None]]

REASONS = {
    RemovalReason.MANY: "more than a shop loses by itself",
    RemovalReason.EMPTY_LIST: "the seller's list is empty",
}


@app.command("list")
def list_(
    seller: Annotated[str | None, typer.Option("--seller", help="Only removals of this seller.")] = None,
    status: Annotated[
        RemovalStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List held removals and what became of earlier ones, newest first.

    \b
    sellerwatch removals list --status HELD
    sellerwatch removals list --seller seller_12345 --json
    """
    seller_id = None if seller is None else SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[Removal], datetime]:
        must_be_known(tx, seller_id)
        return tx.removals.newest(seller_id=seller_id, status=status, limit=limit), at.now

    found, now = session.look(work)
    if as_json:
        print_json({"content": [removal_json(removal) for removal in found], "limit": limit})
        return
    filtered = seller_id is not None or status is not None
    print_table(
        "Removals",
        ("removal", "seller", "missing", "of", "why", "status", "since", "decided by"),
        [
            (
                r.removal_id,
                r.seller_id,
                r.missing,
                r.told,
                REASONS[r.reason],
                r.status,
                ago(r.created_at, now),
                r.decided_by,
            )
            for r in found
        ],
        empty="No removal is like that. All of them: sellerwatch removals list"
        if filtered
        else "No removal is held, and none has been.",
    )


@app.command()
def show(removal: RemovalArgument, as_json: AsJson = False) -> None:
    """Show a removal: how many products the list lacked, how many are still missing, and the first of them.

    \b
    sellerwatch removals show 0198c0de-0000-7000-8009-000000000001
    """
    removal_id = RemovalId.parse(removal)
    found, still, first, now = session.look(lambda tx, at: (*_looked_at(tx, removal_id), at.now))
    if as_json:
        print_json(removal_json(found) | {"stillMissing": still, "items": _items_json(first)})
        return
    print_facts(
        [
            ("removal", found.removal_id),
            ("seller", found.seller_id),
            ("run", found.execution_id),
            ("why", REASONS[found.reason]),
            ("status", found.status),
            ("missing then", f"{found.missing} of {found.told}"),
            ("still missing", still),
            ("since", f"{found.created_at:%Y-%m-%d %H:%M:%S} UTC ({ago(found.created_at, now)})"),
            ("decided", found.decided_at),
            ("decided by", found.decided_by),
        ]
    )
    _print_missing(first, still, now)
    if found.status is RemovalStatus.HELD:
        say(f"They are gone, tell it: sellerwatch removals confirm {removal_id}", "dim")
        say(f"They are not gone: sellerwatch removals refuse {removal_id}", "dim")


@app.command()
def confirm(
    removal: RemovalArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be told, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Tell the products of a removal as gone. Those that were seen again since are not touched.

    \b
    sellerwatch removals confirm 0198c0de-0000-7000-8009-000000000001 --dry-run
    sellerwatch removals confirm 0198c0de-0000-7000-8009-000000000001
    """
    removal_id = RemovalId.parse(removal)
    with session.command_session() as command_session:
        found, still, first, now = command_session.look(lambda tx, at: (*_looked_at(tx, removal_id), at.now))
        REMOVAL_LIFE.after(found.status, "confirm", removal_id)
        removed = 0
        if not dry_run:
            with progress("telling", still) as advance:
                left = 1
                while left:
                    step = _confirm(command_session, removal_id)
                    found, left = step.removal, step.left
                    removed += len(step.removed)
                    advance(len(step.removed))
    if as_json:
        counts = {"dryRun": dry_run, "removed": removed, "stillMissing": still - removed}
        print_json(removal_json(found) | counts | ({"items": _items_json(first)} if dry_run else {}))
    elif dry_run:
        _print_missing(first, still, now)
        say(f"{still} product(s) would be told as gone. Nothing was changed.", "green")
    else:
        say(f"{removed} product(s) of {found.seller_id} were told as gone; the removal is {found.status}.", "green")


@app.command()
def refuse(removal: RemovalArgument, as_json: AsJson = False) -> None:
    """Say that the products are not gone: nothing is told. Should the next whole list lack them too, it is asked again.

    \b
    sellerwatch removals refuse 0198c0de-0000-7000-8009-000000000001
    """
    removal_id = RemovalId.parse(removal)

    def work(tx: ServiceTx, at: Desk) -> Removal:
        from sellerwatch.operations.catalog import refuse_removal  # noqa: PLC0415

        return refuse_removal(tx, removal_id, actor=at.actor, now=at.now)

    found = session.change(work)
    if as_json:
        print_json(removal_json(found))
        return
    say(f"The {found.missing} product(s) of {found.seller_id} stay; nothing was told.", "green")
    say("Should the next whole list lack them too, it is asked again.", "dim")


def removal_json(removal: Removal) -> dict[str, Any]:
    return {
        "removalId": removal.removal_id,
        "sellerId": removal.seller_id,
        "executionId": removal.execution_id,
        "reason": removal.reason,
        "status": removal.status,
        "told": removal.told,
        "missing": removal.missing,
        "unseenSince": stamp(removal.unseen_since),
        "createdAt": stamp(removal.created_at),
        "decidedAt": stamp(removal.decided_at),
        "decidedBy": removal.decided_by,
    }


def _looked_at(tx: ServiceTx, removal_id: RemovalId) -> tuple[Removal, int, Missing]:
    from sellerwatch.catalog.queries import look_at_removal  # noqa: PLC0415

    return look_at_removal(tx, removal_id, MOST_ITEMS)


def _confirm(command_session: session.CommandSession, removal_id: RemovalId) -> Confirmed:
    def work(tx: ServiceTx, at: Desk) -> Confirmed:
        from sellerwatch.operations.catalog import confirm_removal  # noqa: PLC0415

        return confirm_removal(tx, removal_id, at.rules, actor=at.actor, ids=at.ids, now=at.now)

    return command_session.change(work)


def _items_json(missing: Missing) -> list[dict[str, Any]]:
    return [
        {"itemNo": product.item_no, "name": name, "lastSeenAt": stamp(product.last_seen_at)}
        for product, name in missing
    ]


def _print_missing(first: Missing, still: int, now: datetime) -> None:
    print_table(
        f"The first {len(first)} of {still}" if still > len(first) else "Still missing",
        ("item", "name", "version", "last seen"),
        [(p.item_no, name and value(name, 60), p.version, ago(p.last_seen_at, now)) for p, name in first],
        empty="None of them is missing any more.",
    )
