"""`sellerwatch schedules`: when sellers are crawled next."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import ago, print_facts, print_json, print_table
from sellerwatch.cli.session import AsJson, Desk, Page, Size, say, stamp
from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.missed import next_starts, starts_at
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import SellerNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sellerwatch.operations.ports import ServiceTx

app = typer.Typer(no_args_is_help=True, help="Look at when sellers are crawled; tell the scheduler once more.")


@app.command("list")
def list_(page: Page = 0, size: Size = 20, as_json: AsJson = False) -> None:
    """List schedules with their next run, by seller.

    \b
    sellerwatch schedules list
    sellerwatch schedules list --page 1 --size 50 --json
    """

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[Schedule], int, datetime]:
        return *tx.schedules.page(offset=page * size, limit=size), at.now

    schedules, total, now = session.look(work)
    if as_json:
        print_json(session.page_of([schedule_json(schedule) for schedule in schedules], page, size, total))
        return
    nothing = "No schedules yet: each seller has one. Register one: sellerwatch sellers add SELLER_ID --name NAME"
    if total:
        nothing = f"Page {page} is empty: there are {total} schedules. Begin with: sellerwatch schedules list"
    print_table(
        f"Schedules ({total})",
        ("seller", "status", "interval", "next run", "exactly (UTC)"),
        [(s.seller_id, s.status, s.interval, _distance(s, now), starts_at(s)) for s in schedules],
        empty=nothing,
    )
    if (page + 1) * size < total and schedules:
        say(f"More: sellerwatch schedules list --page {page + 1}", "dim")


@app.command()
def show(
    seller: Annotated[str, typer.Argument(metavar="SELLER_ID", help="The marketplace's own id of the seller.")],
    as_json: AsJson = False,
) -> None:
    """Show a seller's schedule and its next five times.

    \b
    sellerwatch schedules show seller_12345
    """
    seller_id = SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Schedule, datetime]:
        schedule = tx.schedules.of_seller(seller_id)
        if schedule is None:
            raise SellerNotFound(seller_id=seller_id)
        return schedule, at.now

    schedule, now = session.look(work)
    if as_json:
        print_json(schedule_json(schedule))
        return
    print_facts(
        [
            ("seller", schedule.seller_id),
            ("status", schedule.status),
            ("interval", schedule.interval),
            ("rule", schedule.rule),
            ("expression", schedule.expression),
            ("schedule", schedule.schedule_id),
            ("updated", f"{schedule.updated_at:%Y-%m-%d %H:%M:%S} UTC"),
        ]
    )
    print_table(
        "Next runs",
        ("in", "exactly (UTC)"),
        [(ago(time, now) if time > now else "now", time) for time in next_starts(schedule)],
        empty=f"No run is due: the seller is not crawled. Begin again: sellerwatch sellers activate {seller_id}",
    )


@app.command()
def retry(
    seller: Annotated[str, typer.Argument(metavar="SELLER_ID", help="The marketplace's own id of the seller.")],
    as_json: AsJson = False,
) -> None:
    """Tell the scheduler once more what it would not take; a FAILED schedule is mended when it has.

    \b
    sellerwatch schedules retry seller_12345
    """
    seller_id = SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Schedule, int]:
        from sellerwatch.sellers.commands import retry_schedule  # noqa: PLC0415

        return retry_schedule(tx, seller_id, actor=at.actor, ids=at.ids, now=at.now)

    schedule, messages = session.change(work)
    if as_json:
        print_json({"sellerId": seller_id, "status": schedule.status, "messages": messages})
        return
    say(f"{messages} message(s) wait to be told; a running `sellerwatch serve` does it within a minute.", "green")


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """The fields of the API's ScheduleResponse."""
    return {
        "scheduleId": schedule.schedule_id,
        "sellerId": schedule.seller_id,
        "status": schedule.status,
        "interval": {"amount": schedule.interval.amount, "unit": schedule.interval.unit},
        "scheduleRule": schedule.rule,
        "scheduleExpression": schedule.expression,
        "nextRunAt": stamp(starts_at(schedule)),
        "nextStarts": [stamp(time) for time in next_starts(schedule)],
        "createdAt": stamp(schedule.created_at),
        "updatedAt": stamp(schedule.updated_at),
    }


def _distance(schedule: Schedule, now: datetime) -> str | None:
    start = starts_at(schedule)
    if start is None:
        return None
    return ago(start, now) if start > now else "now"
