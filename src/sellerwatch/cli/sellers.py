"""`sellerwatch sellers`: whom we keep in step, and how often."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import session
from sellerwatch.cli.executions import Waiting, cause_of, execution_json, print_executions, waiting_json
from sellerwatch.cli.output import ago, language_setting, print_facts, print_json, print_table
from sellerwatch.cli.schedules import schedule_json
from sellerwatch.cli.session import AsJson, Desk, Page, Size, say, stamp
from sellerwatch.crawling.waiting import causes_of_waiting
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.missed import starts_at
from sellerwatch.sellers.seller import Seller, SellerNotFound, SellerStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sellerwatch.catalog.ports import ProductCounts
    from sellerwatch.crawling.commands import Cancelled
    from sellerwatch.crawling.execution import Execution
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.schedules.schedule import Schedule

app = typer.Typer(no_args_is_help=True, help="Register sellers, look at them, change how often they are crawled.")

LAST_RUNS = 5
_INTERVAL = re.compile(r"([0-9]{1,9}) ?(d|day|days|h|hour|hours)", re.IGNORECASE)

SellerArgument = Annotated[str, typer.Argument(metavar="SELLER_ID", help="The marketplace's own id of the seller.")]
Every = Annotated[str, typer.Option("--every", metavar="INTERVAL", help="1d to 30d, or 1h to 23h.")]


@dataclass(eq=False)
class UnreadableInterval(Invalid):
    """Neither days nor hours."""

    given: str


@app.command()
def add(
    seller: SellerArgument,
    name: Annotated[str, typer.Option("--name", help="What people call the seller.")],
    every: Every = "1d",
    crawl_now: Annotated[bool, typer.Option("--crawl-now", help="Make the first run due at once.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register a seller. Its first run is due one interval later, or at once with --crawl-now.

    \b
    sellerwatch sellers add seller_12345 --name "럭셔리하우스"
    sellerwatch sellers add seller_12345 --name "Luxury House" --every 6h --crawl-now
    """
    seller_id, interval, name = SellerId.parse(seller), _interval(every), session.text(name)

    def work(tx: ServiceTx, at: Desk) -> tuple[Seller, Schedule]:
        from sellerwatch.sellers.commands import register, run_now  # noqa: PLC0415

        made = register(tx, seller_id, name, interval, actor=at.actor, ids=at.ids, now=at.now)
        if crawl_now:
            run_now(tx, seller_id, actor=at.actor, now=at.now)
        return made, _schedule_of(tx, seller_id)

    made, schedule = session.change(work)
    if as_json:
        print_json(seller_json(made) | {"nextRunAt": stamp(starts_at(schedule))})
        return
    say(f"Registered {seller_id} ({made.name}), crawled {made.interval}.", "green")
    if crawl_now:
        say(
            "Its first run is due now: a running `sellerwatch serve` starts it within seconds; "
            f"without one, `sellerwatch crawl {seller_id}` runs it here."
        )
    elif (first := starts_at(schedule)) is not None:
        say(f"Its first run starts at {first:%Y-%m-%d %H:%M:%S} UTC; `sellerwatch crawl {seller_id}` runs it now.")


@app.command("list")
def list_(
    status: Annotated[
        SellerStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    page: Page = 0,
    size: Size = 20,
    as_json: AsJson = False,
) -> None:
    """List sellers, by their id. One with an open run says how far it is, or what it waits for.

    \b
    sellerwatch sellers list
    sellerwatch sellers list --status INACTIVE --json
    """

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[Seller], int, _OpenRuns]:
        found, total = tx.sellers.page(status=status, offset=page * size, limit=size)
        return found, total, _open_runs(tx, found, at)

    sellers, total, open_runs = session.look(work)
    if as_json:
        shown = [seller_json(seller) | open_runs.json(seller.seller_id) for seller in sellers]
        print_json(session.page_of(shown, page, size, total))
        return
    nothing = "No sellers yet. Register one: sellerwatch sellers add SELLER_ID --name NAME"
    if total:
        nothing = f"Page {page} is empty: there are {total} sellers. Begin with: sellerwatch sellers list"
    elif status is not None:
        nothing = f"No seller is {status}. All of them: sellerwatch sellers list"
    print_table(
        f"Sellers ({total})",
        ("seller", "name", "status", "interval", "products", "run", "updated (UTC)"),
        [
            (
                s.seller_id,
                s.name,
                s.status,
                s.interval,
                s.total_product_count,
                open_runs.text(s.seller_id),
                s.updated_at,
            )
            for s in sellers
        ],
        empty=nothing,
    )
    if (page + 1) * size < total and sellers:
        say(f"More: sellerwatch sellers list --page {page + 1}", "dim")


@dataclass(frozen=True)
class _OpenRuns:
    """The run of each seller that has one open, and why it waits if it does."""

    runs: Mapping[SellerId, Execution]
    waiting: Waiting
    now: datetime
    language: str

    def json(self, seller_id: SellerId) -> dict[str, Any]:
        run = self.runs.get(seller_id)
        if run is None:
            return {"openExecution": None}
        shown = {
            "executionId": run.execution_id,
            "status": run.status,
            "progressRate": round(run.progress_rate, 2),
            "nextStartAt": stamp(run.next_start_at),
        }
        return {"openExecution": shown | waiting_json(self.waiting.get(run.execution_id), self.language)}

    def text(self, seller_id: SellerId) -> str | None:
        run = self.runs.get(seller_id)
        if run is None:
            return None
        state = run.status.value if run.waits_to_start else f"{run.status} {run.progress_rate:.0f} %"
        cause = cause_of(run, self.waiting.get(run.execution_id), self.now, self.language)
        return f"{state}: {cause}" if cause else state


def _open_runs(tx: ServiceTx, sellers: Sequence[Seller], at: Desk) -> _OpenRuns:
    found = {seller.seller_id: tx.executions.open_of(seller.seller_id) for seller in sellers}
    runs = {seller_id: run for seller_id, run in found.items() if run is not None}
    return _OpenRuns(runs, causes_of_waiting(tx, runs.values()), at.now, language_setting())


@dataclass(frozen=True)
class _Found:
    seller: Seller
    schedule: Schedule
    runs: list[Execution]
    waiting: Waiting
    products: ProductCounts

    @property
    def progress_rate(self) -> float:
        """Complete products of those the marketplace says there are, in percent."""
        total = self.seller.total_product_count
        return min(100.0 * self.products.complete / total, 100.0) if total else 0.0


@app.command()
def show(seller: SellerArgument, as_json: AsJson = False) -> None:
    """Show a seller: its schedule, its products, how far it is, and its last runs.

    \b
    sellerwatch sellers show seller_12345
    """
    seller_id = SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[_Found, Desk]:
        kept, schedule = _found(tx, seller_id), _schedule_of(tx, seller_id)
        runs = tx.execution_queries.newest(seller_id=seller_id, status=None, limit=LAST_RUNS)
        return _Found(kept, schedule, list(runs), causes_of_waiting(tx, runs), tx.product_queries.counts(seller_id)), at

    found, at = session.look(work)
    if as_json:
        print_json(
            seller_json(found.seller)
            | {
                "schedule": schedule_json(found.schedule),
                "products": {
                    "present": found.products.present,
                    "complete": found.products.complete,
                    "deleted": found.products.deleted,
                },
                "progressRate": round(found.progress_rate, 2),
                "executions": [
                    execution_json(run, at.settings.language)
                    | waiting_json(found.waiting.get(run.execution_id), at.settings.language)
                    for run in found.runs
                ],
            }
        )
        return
    _print_found(found, at)


@app.command()
def interval(seller: SellerArgument, every: Every, as_json: AsJson = False) -> None:
    """Change how often a seller is crawled. The next run counts from now.

    \b
    sellerwatch sellers interval seller_12345 --every 6h
    """
    seller_id, wanted = SellerId.parse(seller), _interval(every)

    def work(tx: ServiceTx, at: Desk) -> tuple[Seller, Schedule]:
        from sellerwatch.sellers.commands import update_interval  # noqa: PLC0415

        changed = update_interval(tx, seller_id, wanted, actor=at.actor, ids=at.ids, now=at.now)
        return changed, _schedule_of(tx, seller_id)

    _say_changed(*session.change(work), f"{seller_id} is crawled {wanted} from now on.", as_json)


@app.command()
def activate(seller: SellerArgument, as_json: AsJson = False) -> None:
    """Crawl a seller again. Its next run is due one interval from now.

    \b
    sellerwatch sellers activate seller_12345
    """
    seller_id = SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Seller, Schedule]:
        from sellerwatch.sellers import commands as seller_commands  # noqa: PLC0415

        changed = seller_commands.activate(tx, seller_id, actor=at.actor, ids=at.ids, now=at.now)
        return changed, _schedule_of(tx, seller_id)

    _say_changed(*session.change(work), f"{seller_id} is ACTIVE.", as_json)


@app.command()
def deactivate(seller: SellerArgument, as_json: AsJson = False) -> None:
    """Stop crawling a seller. A run that is going is ended: what waits is cancelled, what is in flight finishes.

    \b
    sellerwatch sellers deactivate seller_12345
    """
    seller_id = SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Seller, Cancelled | None]:
        from sellerwatch.crawling.commands import deactivate_seller  # noqa: PLC0415

        return deactivate_seller(tx, seller_id, at.rules, actor=at.actor, ids=at.ids, now=at.now)

    changed, ended = session.change(work)
    if as_json:
        run = None if ended is None else execution_json(ended.execution, language_setting())
        print_json(seller_json(changed) | {"endedExecution": run})
        return
    say(f"{seller_id} is INACTIVE: it is not crawled any more.", "green")
    if ended is not None:
        say(
            f"Its run {ended.execution.execution_id} was ended: {ended.cancelled} waiting task(s) cancelled, "
            f"{ended.in_flight} in flight finish."
        )


def seller_json(seller: Seller) -> dict[str, Any]:
    """A seller as the REST API answers it."""
    return {
        "sellerId": seller.seller_id,
        "name": seller.name,
        "status": seller.status,
        "crawlingIntervalDays": seller.crawling_interval_days,
        "interval": {"amount": seller.interval.amount, "unit": seller.interval.unit},
        "totalProductCount": seller.total_product_count,
        "createdAt": stamp(seller.created_at),
        "updatedAt": stamp(seller.updated_at),
    }


def _interval(given: str) -> CrawlingInterval:
    matched = _INTERVAL.fullmatch(given.strip())
    if matched is None:
        raise UnreadableInterval(given=session.text(given)[:50])
    amount, unit = int(matched[1]), matched[2].lower()
    return CrawlingInterval.of_days(amount) if unit.startswith("d") else CrawlingInterval.of_hours(amount)


def _found(tx: ServiceTx, seller_id: SellerId) -> Seller:
    seller = tx.sellers.get(seller_id)
    if seller is None:
        raise SellerNotFound(seller_id=seller_id)
    return seller


def _schedule_of(tx: ServiceTx, seller_id: SellerId) -> Schedule:
    schedule = tx.schedules.of_seller(seller_id)
    if schedule is None:
        raise SellerNotFound(seller_id=seller_id)
    return schedule


def _say_changed(seller: Seller, schedule: Schedule, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(seller_json(seller) | {"nextRunAt": stamp(starts_at(schedule))})
        return
    say(sentence, "green")
    if (start := starts_at(schedule)) is not None:
        say(f"Its next run starts at {start:%Y-%m-%d %H:%M:%S} UTC.")


def _print_found(found: _Found, at: Desk) -> None:
    seller, schedule, products = found.seller, found.schedule, found.products
    next_run = "none: it is not crawled"
    if (start := starts_at(schedule)) is not None:
        next_run = f"{ago(start, at.now)} ({start:%Y-%m-%d %H:%M:%S} UTC)" if start > at.now else "now"
    listed = f"{products.present} ({products.complete} complete), {products.deleted} deleted"
    print_facts(
        [
            ("seller", seller.seller_id),
            ("name", seller.name),
            ("status", seller.status),
            ("interval", seller.interval),
            ("schedule", schedule.status),
            ("next run", next_run),
            ("on the marketplace", seller.total_product_count),
            ("products", listed),
            ("progress", session.bar(found.progress_rate)),
            ("registered", f"{seller.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ]
    )
    print_executions(
        "Last runs",
        found.runs,
        found.waiting,
        at.now,
        at.settings.language,
        empty=f"Not crawled yet. Run it now: sellerwatch crawl {seller.seller_id}",
    )
