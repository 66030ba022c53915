"""`sellerwatch marketplace`: stop and resume requests to the marketplace, and see which endpoints answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sellerwatch.agents.marketplace_status import show_marketplace
from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_view
from sellerwatch.cli.session import AsJson, DryRun, say, seller_of
from sellerwatch.cli.tables import Columns, print_views
from sellerwatch.operations.marketplace import pause_requests, resume_requests

if TYPE_CHECKING:
    from sellerwatch.agents.marketplace_status import EndpointView, MarketplaceStatusView
    from sellerwatch.cli.texts import Texts

app = CommandApp()

TEXTS = "cli_marketplace"

ENDPOINTS: Columns[EndpointView] = {
    "endpoint": lambda endpoint, _: endpoint.endpoint,
    "circuit": lambda endpoint, _: endpoint.state,
    "away_since": lambda endpoint, text: text.ago(endpoint.since),
    "next_probe": lambda endpoint, text: text.ago(endpoint.not_before),
    "cause": lambda endpoint, _: endpoint.reason,
}


@app.command()
def status(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch marketplace status
    sellerwatch marketplace status --json | jq '.circuits[] | select(.state != "CLOSED")'
    """
    with session.command_session() as at:
        found, text = at.ask(show_marketplace), at.texts(TEXTS)
    if as_json:
        print_view(found)
        return
    _say_pauses(found, text)
    if not found.paused and not found.sellers:
        say(text("pause.none"))
    print_views(text("endpoints"), found.circuits, ENDPOINTS, text, empty="")


@app.command()
def pause(seller: str | None = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch marketplace pause
    sellerwatch marketplace pause --seller seller_12345
    """
    seller_id = seller_of(seller)
    with session.command_session(dry_run=dry_run) as at:
        found, text = at.wait(pause_requests(at.operations, seller_id)), at.texts(TEXTS)
    if as_json:
        print_view(found)
    elif dry_run:
        say(text("dry_run"), "dim")
        _say_pauses(found, text)
    else:
        say(text("paused") if seller_id is None else text("paused.seller", seller=seller_id), "green")


@app.command()
def resume(seller: str | None = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch marketplace resume
    sellerwatch marketplace resume --seller seller_12345
    """
    seller_id = seller_of(seller)
    with session.command_session(dry_run=dry_run) as at:
        found, text = at.wait(resume_requests(at.operations, seller_id)), at.texts(TEXTS)
    if as_json:
        print_view(found)
    else:
        say(text("dry_run" if dry_run else "resumed"), "dim" if dry_run else "green")
        _say_pauses(found, text)


def _say_pauses(found: MarketplaceStatusView, text: Texts) -> None:
    if found.paused:
        say(text("pause.all", by=found.paused_by, ago=text.ago(found.paused_at)), "yellow")
    for each in found.sellers:
        ago = text.ago(each.paused_at)
        say(text("pause.seller", seller=each.seller_id, by=each.paused_by, ago=ago), "yellow")
