"""`sellerwatch marketplace`: stop and resume requests to the marketplace, and see which endpoints answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import ago, print_json, print_table
from sellerwatch.cli.session import AsJson, Desk, say
from sellerwatch.kernel.ids import SellerId

if TYPE_CHECKING:
    from sellerwatch.agents.marketplace_status import MarketplaceStatus
    from sellerwatch.operations.ports import ServiceTx

app = typer.Typer(no_args_is_help=True, help="Pause and resume requests to the marketplace; see what answers.")

SellerOption = Annotated[str | None, typer.Option("--seller", help="Only requests for this seller.")]

Work = Callable[["ServiceTx", Desk], "MarketplaceStatus"]


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show what is paused and by whom, and each endpoint: its circuit, since when, why, and the next probe.

    \b
    sellerwatch marketplace status
    sellerwatch marketplace status --json | jq '.circuits[] | select(.state != "CLOSED")'
    """

    def work(tx: ServiceTx, at: Desk) -> tuple[MarketplaceStatus, Desk]:
        from sellerwatch.agents.marketplace_status import marketplace_status  # noqa: PLC0415

        return marketplace_status(tx), at

    found, at = session.look(work)
    if as_json:
        print_json(found.as_json(at.settings.language))
    else:
        _show(found, at.settings.language, at.now)


@app.command()
def pause(seller: SellerOption = None, as_json: AsJson = False) -> None:
    """Stop all requests to the marketplace, or those for one seller, until they are resumed; over restarts too.

    Running services stop within a second. Requests under way finish; tasks and starts wait, and lose nothing by it.

    \b
    sellerwatch marketplace pause
    sellerwatch marketplace pause --seller seller_12345
    """
    seller_id = _seller(seller)

    def work(tx: ServiceTx, at: Desk) -> MarketplaceStatus:
        from sellerwatch.operations import marketplace  # noqa: PLC0415

        return marketplace.pause(tx, seller_id, actor=at.actor, now=at.now)

    which = "" if seller_id is None else f" --seller {seller_id}"
    sentence = f"Paused: running services stop within a second. Go on: sellerwatch marketplace resume{which}"
    _change(work, seller_id, sentence, is_pause=True, as_json=as_json)


@app.command()
def resume(seller: SellerOption = None, as_json: AsJson = False) -> None:
    """Let requests leave again after a pause. A pause of all requests and one of a seller are ended separately.

    \b
    sellerwatch marketplace resume
    sellerwatch marketplace resume --seller seller_12345
    """
    seller_id = _seller(seller)

    def work(tx: ServiceTx, at: Desk) -> MarketplaceStatus:
        from sellerwatch.operations import marketplace  # noqa: PLC0415

        return marketplace.resume(tx, seller_id, actor=at.actor, now=at.now)

    _change(work, seller_id, "Resumed: running services go on within a second.", is_pause=False, as_json=as_json)


def _seller(given: str | None) -> SellerId | None:
    return None if given is None else SellerId.parse(session.text(given))


def _change(work: Work, seller_id: SellerId | None, sentence: str, *, is_pause: bool, as_json: bool) -> None:
    from sellerwatch.compose.alerts import send_alerts  # noqa: PLC0415
    from sellerwatch.operations.marketplace import pause_notice  # noqa: PLC0415
    from sellerwatch.oversight.alerts import Alert  # noqa: PLC0415

    found, at = session.change(lambda tx, at: (work(tx, at), at))
    notice = pause_notice(seller_id, at.actor, is_pause=is_pause)
    asyncio.run(send_alerts(at.settings, [Alert(notice.kind, notice.subject, notice.text, at.now)]))
    if as_json:
        print_json(found.as_json(at.settings.language))
        return
    say(sentence, "green")
    if not is_pause:
        _say_pauses(found, at.now)


def _say_pauses(found: MarketplaceStatus, now: datetime) -> None:
    if found.pause is not None:
        say(f"All requests are paused by {found.pause.paused_by}, {ago(found.pause.paused_at, now)}.", "yellow")
    for pause in found.seller_pauses:
        say(f"Requests for {pause.seller_id} are paused by {pause.paused_by}, {ago(pause.paused_at, now)}.", "yellow")


def _show(found: MarketplaceStatus, language: str, now: datetime) -> None:
    _say_pauses(found, now)
    if not found.is_paused and not found.seller_pauses:
        say("Nothing is paused.")
    print_table(
        "Endpoints of the marketplace",
        ("endpoint", "circuit", "since", "next probe", "cause"),
        [
            (
                each.endpoint.value,
                each.state.value,
                None if each.since is None else ago(each.since, now),
                None if each.not_before is None else ago(each.not_before, now),
                each.reason(language),
            )
            for each in found.endpoints
        ],
        empty="",
    )
