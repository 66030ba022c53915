"""`sellerwatch sellers`: register sellers, show them, and change how often they are crawled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from sellerwatch.cli import executions, session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_refusal, print_view
from sellerwatch.cli.session import AsJson, DryRun, Page, Size, say
from sellerwatch.cli.tables import Columns, print_views
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations import sellers as operations
from sellerwatch.operations.seller_import import import_sellers
from sellerwatch.operations.seller_removal import remove_seller
from sellerwatch.operations.sellers import ListedSellerView, SellerDetailView
from sellerwatch.reports.freshness import FreshnessState
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.queries import IntervalView
from sellerwatch.sellers import commands
from sellerwatch.sellers.commands import ChangedSellerView
from sellerwatch.sellers.import_rows import UnreadableFile, read_rows
from sellerwatch.sellers.seller import SellerStatus

app = CommandApp()

TEXTS = "cli_sellers"

SellerArgument = Annotated[str, typer.Argument(metavar="SELLER_ID")]
Every = Annotated[str, typer.Option("--every", metavar="INTERVAL")]


def every_text(every: IntervalView, text: Texts) -> str:
    """Return `every 6 hours`."""
    return text(f"every.{every.unit}", n=every.amount)


def start_text(start: datetime | None, text: Texts) -> str | None:
    """Return how far away a start is; one whose time has come is now."""
    return None if start is None else text.ago(max(start, text.now))


def _run_text(seller: ListedSellerView, text: Texts) -> str | None:
    """Return the state of the open run and what it waits for."""
    run, run_text = seller.open_execution, Texts(executions.FAMILY, text.language, text.now)
    if run is None:
        return None
    state = run.status if run.next_start_at is not None else f"{run.status} {run.progress_rate:.0f} %"
    cause = executions.cause_text(run, run_text)
    return f"{state}: {cause}" if cause else state


SELLERS: Columns[ListedSellerView] = {
    "seller": lambda seller, _: seller.seller_id,
    "name": lambda seller, _: seller.name,
    "status": lambda seller, _: seller.status,
    "freshness": lambda seller, text: text(f"fresh.{seller.freshness.state}"),
    "in_time": lambda seller, _: seller.freshness.percent_in_time,
    "interval": lambda seller, text: every_text(seller.interval, text),
    "next": lambda seller, text: start_text(seller.next_run_at, text),
    "products": lambda seller, _: seller.total_product_count,
    "run": _run_text,
}


@app.command()
def add(
    seller: SellerArgument,
    name: Annotated[str, typer.Option("--name")],
    every: Every = "1d",
    crawl_now: Annotated[bool, typer.Option("--crawl-now")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch sellers add seller_12345 --name "럭셔리하우스"
    sellerwatch sellers add seller_12345 --name "Luxury House" --every 6h --crawl-now
    """
    seller_id, interval, name = SellerId.parse(seller), _interval(every), session.text(name)
    with session.command_session(dry_run=dry_run, make=True) as at:
        made = at.run(commands.register_seller, seller_id, name, interval, crawl_now=crawl_now)
        now, text = at.now, at.texts(TEXTS)
    if as_json:
        print_view(made)
        return
    say_done(text, text("added", seller=seller_id, name=made.name, every=every_text(made.interval, text)), dry_run)
    if crawl_now:
        say(text("added.due", seller=seller_id))
    elif made.next_run_at is not None:
        say(text("added.first", when=text.when(made.next_run_at, now), seller=seller_id))


@app.command("list")
def list_(
    status: Annotated[SellerStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    search: str | None = None,
    freshness: Annotated[FreshnessState | None, typer.Option("--freshness", case_sensitive=False)] = None,
    page: Page = 0,
    size: Size = 20,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch sellers list
    sellerwatch sellers list --status INACTIVE --json
    sellerwatch sellers list --freshness late
    """
    part = None if search is None else session.text(search)
    with session.command_session() as at:
        found = at.ask(operations.list_sellers, status, page, size, part, freshness)
        text = at.texts(TEXTS)
    if as_json:
        print_view(found)
        return
    nothing = text("list.empty")
    if found.total_elements:
        nothing = text("list.beyond", page=str(page), n=found.total_elements)
    elif status or part or freshness:
        nothing = text("list.none_found")
    print_views(text("list.title", n=found.total_elements), found.content, SELLERS, text, empty=nothing)
    if page + 1 < found.total_pages:
        say(text("list.more", page=str(page + 1)), "dim")


@app.command()
def show(seller: SellerArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch sellers show seller_12345
    """
    seller_id = SellerId.parse(seller)
    with session.command_session() as at:
        found = at.ask(operations.show_seller, seller_id)
        now, text, run_text = at.now, at.texts(TEXTS), at.texts(executions.FAMILY)
    if as_json:
        print_view(found)
        return
    print_facts((text(f"fact.{name}"), value) for name, value in _facts(found, now, text))
    empty = text("show.never_crawled", seller=seller_id)
    print_views(text("show.runs"), found.executions, executions.RUNS, run_text, empty=empty)


@app.command()
def interval(seller: SellerArgument, every: Every, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch sellers interval seller_12345 --every 6h
    """
    seller_id, wanted = SellerId.parse(seller), _interval(every)
    with session.command_session(dry_run=dry_run) as at:
        changed, text = at.run(commands.change_interval, seller_id, wanted), at.texts(TEXTS)
    sentence = text("interval.done", seller=seller_id, every=every_text(changed.interval, text))
    _report(changed, sentence, text, as_json=as_json)


@app.command()
def activate(seller: SellerArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch sellers activate seller_12345
    """
    seller_id = SellerId.parse(seller)
    with session.command_session(dry_run=dry_run) as at:
        changed, text = at.run(commands.activate_seller, seller_id), at.texts(TEXTS)
    _report(changed, text("activate.done", seller=seller_id), text, as_json=as_json)


@app.command()
def deactivate(seller: SellerArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch sellers deactivate seller_12345 --dry-run
    sellerwatch sellers deactivate seller_12345
    """
    seller_id = SellerId.parse(seller)
    with session.command_session(dry_run=dry_run) as at:
        changed = at.run(operations.deactivate_seller, seller_id, at.operations.rules)
        text = at.texts(TEXTS)
    _report(changed, text("deactivate.done", seller=seller_id), text, as_json=as_json)
    run = changed.ended_execution
    if run is not None and not as_json:
        ended = {"execution": run.execution_id, "n": run.cancelled_tasks, "flying": run.tasks_in_flight}
        say(text("deactivate.run", **ended))


@app.command()
def remove(
    seller: SellerArgument,
    tell_receiver: Annotated[bool, typer.Option("--tell-receiver")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch sellers remove seller_12345 --dry-run
    sellerwatch sellers remove seller_12345 --tell-receiver
    """
    seller_id = SellerId.parse(seller)
    with session.command_session(dry_run=dry_run) as at:
        removed = at.wait(remove_seller(at.operations, seller_id, tell_receiver=tell_receiver))
        text = at.texts(TEXTS)
    if as_json:
        print_view(removed)
        return
    say_done(text, text("remove.done", seller=seller_id, n=removed.removed), dry_run)
    say(text("remove.told" if tell_receiver else "remove.not_told", n=removed.events))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE")], dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Examples:

    sellerwatch sellers import sellers.csv --dry-run
    sellerwatch sellers import sellers.jsonl
    """
    rows = read_rows(_text_of(file), is_csv=file.suffix.lower() == ".csv")
    with session.command_session(dry_run=dry_run, make=True) as at:
        found, text = at.wait(import_sellers(at.operations, rows)), at.texts(TEXTS)
    if as_json:
        print_view(found)
    else:
        say_done(text, text("import.done", n=len(found.added), known=len(found.known)), dry_run)
        for row in found.refused:
            print_refusal(text("import.refused", line=row.line, message=row.message))
    if found.refused:
        raise typer.Exit(3 if found.added or found.known else 1)


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8"
        raise UnreadableFile(path=str(file), problem=problem) from None


def _facts(seller: SellerDetailView, now: datetime, text: Texts) -> Sequence[tuple[str, object]]:
    products, pause, next_run = seller.products, seller.pause, text("show.no_next")
    if seller.next_run_at is not None:
        next_run = text.when(max(seller.next_run_at, now), now) or next_run
    paused = (
        None if pause is None else text("show.paused_by", who=pause.paused_by, when=text.when(pause.paused_at, now))
    )
    facts: list[tuple[str, object]] = [
        ("seller", seller.seller_id),
        ("name", seller.name),
        ("status", seller.status),
        ("freshness", text(f"fresh.{seller.freshness.state}")),
        ("in_time", seller.freshness.percent_in_time),
        ("read", text.when(seller.freshness.fresh_as_of, now)),
        ("interval", every_text(seller.interval, text)),
        ("schedule", seller.schedule.status),
        ("next", next_run),
        ("listed", seller.total_product_count),
        (
            "products",
            text("show.counts", n=products.present, complete=products.complete, deleted=products.deleted),
        ),
        ("progress", session.bar(seller.progress_rate)),
        ("registered", text.when(seller.created_at, now)),
    ]
    waiting = [
        ("paused", text("show.everything_paused") if seller.is_everything_paused else paused),
        ("cases", text("show.cases", n=seller.open_cases, seller=seller.seller_id) if seller.open_cases else None),
        ("removal", seller.held_removal_id),
    ]
    return [*facts, *((name, value) for name, value in waiting if value is not None)]


def _report(changed: ChangedSellerView, sentence: str, text: Texts, *, as_json: bool) -> None:
    if as_json:
        print_view(changed)
        return
    say_done(text, sentence, changed.dry_run)
    if changed.next_run_at is not None:
        say(text("next_run", when=text.when(changed.next_run_at)))


def say_done(text: Texts, sentence: str, dry_run: bool) -> None:
    """Say what was done, or would be."""
    if dry_run:
        say(text("dry_run"), "dim")
    say(sentence, "green")


def _interval(given: str) -> CrawlingInterval:
    return CrawlingInterval.of_text(session.text(given))
