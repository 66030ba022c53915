"""`sellerwatch schedules`: when sellers are crawled next."""

from __future__ import annotations

from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_table, print_view
from sellerwatch.cli.sellers import TEXTS, SellerArgument, every_text, say_done, start_text
from sellerwatch.cli.session import AsJson, DryRun, Page, Size, say
from sellerwatch.cli.tables import Columns, print_views
from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.queries import ScheduleView, list_schedules
from sellerwatch.sellers import commands, queries

app = CommandApp()

SCHEDULES: Columns[ScheduleView] = {
    "seller": lambda schedule, _: schedule.seller_id,
    "status": lambda schedule, _: schedule.status,
    "interval": lambda schedule, text: every_text(schedule.interval, text),
    "next": lambda schedule, text: start_text(schedule.next_run_at, text),
    "exactly": lambda schedule, _: schedule.next_run_at,
}


@app.command("list")
def list_(page: Page = 0, size: Size = 20, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch schedules list
    sellerwatch schedules list --page 1 --size 50 --json
    """
    with session.command_session() as at:
        found, text = at.ask(list_schedules, page, size), at.texts(TEXTS)
    if as_json:
        print_view(found)
        return
    nothing = text("schedules.empty")
    if found.total_elements:
        nothing = text("schedules.beyond", page=str(page), n=found.total_elements)
    print_views(text("schedules.title", n=found.total_elements), found.content, SCHEDULES, text, empty=nothing)
    if page + 1 < found.total_pages:
        say(text("schedules.more", page=str(page + 1)), "dim")


@app.command()
def show(seller: SellerArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch schedules show seller_12345
    """
    seller_id = SellerId.parse(seller)
    with session.command_session() as at:
        found, text = at.ask(queries.show_schedule, seller_id), at.texts(TEXTS)
    if as_json:
        print_view(found)
        return
    print_facts(
        [
            (text("fact.seller"), found.seller_id),
            (text("fact.status"), found.status),
            (text("fact.interval"), every_text(found.interval, text)),
            (text("fact.rule"), found.schedule_rule),
            (text("fact.expression"), found.schedule_expression),
            (text("fact.schedule"), found.schedule_id),
            (text("fact.changed"), text.when(found.updated_at)),
        ]
    )
    print_table(
        text("schedules.starts"),
        text.columns("next", "exactly"),
        [(start_text(start, text), start) for start in found.next_starts],
        empty=text("schedules.no_start", seller=seller_id),
    )


@app.command("run-now")
def run_now(seller: SellerArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch schedules run-now seller_12345
    """
    seller_id = SellerId.parse(seller)
    with session.command_session(dry_run=dry_run) as at:
        changed, text = at.run(commands.run_now, seller_id), at.texts(TEXTS)
    if as_json:
        print_view(changed)
        return
    say_done(text, text("run_now.done", seller=seller_id), dry_run)


@app.command()
def retry(seller: SellerArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch schedules retry seller_12345
    """
    seller_id = SellerId.parse(seller)
    with session.command_session(dry_run=dry_run) as at:
        retried, text = at.run(commands.retry_schedule, seller_id), at.texts(TEXTS)
    if as_json:
        print_view(retried)
        return
    say_done(text, text("retry.done", n=retried.messages), dry_run)
