"""`sellerwatch outbox`: events on their way, attempts to deliver them, replay, discard, pause and resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli import outbox_output, session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_view
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, command_session, pages_up_to, report_bulk, say
from sellerwatch.cli.tables import print_views
from sellerwatch.cli.texts import Texts
from sellerwatch.cli.times import parse_time
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import ItemNo, OutboxId, SellerId
from sellerwatch.operations import outbox as operations
from sellerwatch.operations.ping import ping_receiver
from sellerwatch.operations.resends import start_resend
from sellerwatch.outbox import commands, queries
from sellerwatch.outbox.commands import MessageAction
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.outbox.queries import ChannelView
from sellerwatch.outbox.resend import ResendChoice

if TYPE_CHECKING:
    from sellerwatch.cli.database_session import CommandSession
    from sellerwatch.outbox.ping import PingView

app = CommandApp()

#: The family of texts of these commands.
FAMILY = "cli_outbox"

MessageArgument = Annotated[str, typer.Argument(metavar="OUTBOX_ID")]
MessageArguments = Annotated[list[str] | None, typer.Argument(metavar="[OUTBOX_ID...]")]
TypeOption = Annotated[str | None, typer.Option("--type")]
AllFailed = Annotated[bool, typer.Option("--all-failed")]


@dataclass(eq=False)
class NothingChosen(Invalid):
    """Neither ids nor a filter: moving all messages must be asked for."""


@dataclass(eq=False)
class NothingChosenToResend(Invalid):
    """Neither ids nor a choice: sending all delivered events again must be asked for."""


@dataclass(eq=False)
class ChosenTwice(Invalid):
    """Ids and a filter at once."""


@dataclass(frozen=True)
class FilterOptions:
    """The options that choose messages, as they were typed."""

    seller: str | None
    event_type: str | None
    since: str | None
    until: str | None

    @property
    def is_given(self) -> bool:
        return any((self.seller, self.event_type, self.since, self.until))

    def filter(self, status: MessageStatus | None, now: datetime) -> MessageFilter:
        """Return the filter. `2h` means two hours before now."""
        seller_id = None if self.seller is None else SellerId.parse(self.seller)
        event_type = None if self.event_type is None else session.text(self.event_type).upper()
        return MessageFilter(status, seller_id, event_type, parse_time(self.since, now), parse_time(self.until, now))


@app.command()
def status(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch outbox status
    sellerwatch outbox status --json | jq '.content[0].lagSeconds'
    """
    with command_session() as at:
        view = at.ask(queries.outbox_status, at.settings.product_server_url is not None)
        text = at.texts(FAMILY)
    if as_json:
        print_view(view)
        return
    for outbox in view.content:
        outbox_output.show_outbox(outbox, text)
    if not view.has_receiver:
        say(text("status.no_receiver"), "yellow")


@app.command("list")
def list_(
    kind: OutboxKind = OutboxKind.PRODUCT,
    seller: str | None = None,
    status: Annotated[MessageStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    event_type: TypeOption = None,
    since: str | None = None,
    until: str | None = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch outbox list --status FAILED
    sellerwatch outbox list --type PRODUCT_DELETED --since 2h
    sellerwatch outbox list --kind scheduler --json
    """
    options = FilterOptions(seller, event_type, since, until)
    with command_session() as at:
        chosen, text = options.filter(status, at.now), at.texts(FAMILY)
        page = pages_up_to(limit, cursor, lambda c, size: at.ask(operations.list_messages, kind, chosen, c, size))
    if as_json:
        print_view(page, limit=limit)
    else:
        outbox_output.show_messages(kind, page, text, filtered=options.is_given or status is not None)


@app.command()
def show(message: MessageArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch outbox show 0198c0de-0000-7000-8005-000000000001
    """
    view = session.ask(queries.show_message, OutboxId.parse(message))
    if as_json:
        print_view(view)
    else:
        outbox_output.show_message(view, Texts(FAMILY))


@app.command()
def attempts(message: MessageArgument, limit: Limit = 20, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch outbox attempts 0198c0de-0000-7000-8005-000000000001
    """
    with command_session() as at:
        view, text = at.ask(queries.list_attempts, OutboxId.parse(message), limit), at.texts(FAMILY)
    if as_json:
        print_view(view, limit=limit)
        return
    print_views(text("attempts.title"), view.content, outbox_output.ATTEMPTS, text, empty=text("attempts.empty"))


@app.command("delivery-times")
def delivery_times(kind: OutboxKind = OutboxKind.PRODUCT, limit: Limit = 20, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch outbox delivery-times
    sellerwatch outbox delivery-times --limit 1000 --json | jq '[.content[].seconds] | max'
    """
    view = session.ask(queries.delivery_times, kind, limit)
    if as_json:
        print_view(view, limit=limit)
        return
    text = Texts(FAMILY)
    print_views(text("times.title"), view.content, outbox_output.DELIVERY_TIMES, text, empty=text("times.none"))


@app.command()
def replay(
    messages: MessageArguments = None,
    all_failed: AllFailed = False,
    kind: OutboxKind = OutboxKind.PRODUCT,
    seller: str | None = None,
    event_type: TypeOption = None,
    since: str | None = None,
    until: str | None = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch outbox replay 0198c0de-0000-7000-8005-000000000001
    sellerwatch outbox replay --all-failed --dry-run
    sellerwatch outbox replay --seller seller_12345 --since 2h
    """
    options = FilterOptions(seller, event_type, since, until)
    _move(MessageAction.REPLAY, messages, all_failed, kind, options, dry_run=dry_run, as_json=as_json)


@app.command()
def discard(
    messages: MessageArguments = None,
    all_failed: AllFailed = False,
    kind: OutboxKind = OutboxKind.PRODUCT,
    seller: str | None = None,
    event_type: TypeOption = None,
    since: str | None = None,
    until: str | None = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch outbox discard 0198c0de-0000-7000-8005-000000000001
    sellerwatch outbox discard --type PRODUCT_DELETED --until 2026-11-15 --dry-run
    """
    options = FilterOptions(seller, event_type, since, until)
    _move(MessageAction.DISCARD, messages, all_failed, kind, options, dry_run=dry_run, as_json=as_json, asks=not yes)


@app.command()
def pause(
    kind: OutboxKind = OutboxKind.PRODUCT,
    reason: str | None = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch outbox pause --reason "the product server is being moved"
    """
    why = None if reason is None else session.text(reason)
    _report_channel(session.run(commands.pause, kind, why, dry_run), "pause", dry_run=dry_run, as_json=as_json)


@app.command()
def resume(kind: OutboxKind = OutboxKind.PRODUCT, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch outbox resume
    """
    _report_channel(session.run(commands.resume, kind, dry_run), "resume", dry_run=dry_run, as_json=as_json)


@app.command()
def resend(
    messages: MessageArguments = None,
    all_delivered: Annotated[bool, typer.Option("--all-delivered")] = False,
    seller: str | None = None,
    event_type: TypeOption = None,
    item: Annotated[str | None, typer.Option("--item")] = None,
    since: str | None = None,
    until: str | None = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch outbox resend 0198c0de-0000-7000-8005-000000000001
    sellerwatch outbox resend --seller seller_12345 --since 2h --dry-run
    """
    options = FilterOptions(seller, event_type, since, until)
    is_chosen = all_delivered or options.is_given or item is not None
    if messages and is_chosen:
        raise ChosenTwice
    if not messages and not is_chosen:
        raise NothingChosenToResend
    outbox_ids = tuple(OutboxId.parse(message) for message in dict.fromkeys(messages or ()))
    item_no = None if item is None else ItemNo.parse_text(session.text(item))
    with command_session() as at:
        found = options.filter(None, at.now)
        choice = ResendChoice(outbox_ids, found.seller_id, found.event_type, item_no, found.since, found.until)
        started, text = at.run(start_resend, choice, dry_run=dry_run), at.texts(FAMILY)
    if as_json:
        print_view(started)
    else:
        outbox_output.say_resend(started, text)


@app.command()
def ping(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch outbox ping
    """
    with command_session() as at:
        view, text = at.wait(_ping(at)), at.texts(FAMILY)
    if as_json:
        print_view(view)
    else:
        outbox_output.show_ping(view, text)
    raise typer.Exit(0 if view.is_accepted else 1)


async def _ping(at: CommandSession) -> PingView:
    # Here, because it imports the settings: `outbox --help` does without them.
    from sellerwatch.compose.receiver import open_receiver  # noqa: PLC0415 - see above

    async with open_receiver(at.settings) as receiver:
        return await ping_receiver(replace(at.operations, receiver=receiver))


def _move(
    action: MessageAction,
    messages: Sequence[str] | None,
    all_failed: bool,
    kind: OutboxKind,
    options: FilterOptions,
    *,
    dry_run: bool,
    as_json: bool,
    asks: bool = False,
) -> None:
    if messages and (all_failed or options.is_given):
        raise ChosenTwice
    if messages:
        _move_messages(action, [OutboxId.parse(message) for message in messages], dry_run=dry_run, as_json=as_json)
    elif all_failed or options.is_given:
        _move_chosen(action, kind, options, dry_run=dry_run, as_json=as_json, asks=asks)
    else:
        raise NothingChosen


def _move_messages(action: MessageAction, outbox_ids: Sequence[OutboxId], *, dry_run: bool, as_json: bool) -> None:
    with command_session() as at:
        text = at.texts(FAMILY)
        result = at.run(commands.move_messages, action, outbox_ids, dry_run)
        within = f"{at.settings.outbox_interval_seconds:.0f}"
    key = "ids_dry_run" if dry_run else "done"
    report_bulk(result, text(f"{action}.{key}", n=result.messages, within=within), as_json=as_json)


def _move_chosen(
    action: MessageAction, kind: OutboxKind, options: FilterOptions, *, dry_run: bool, as_json: bool, asks: bool
) -> None:
    with command_session() as at:
        text = at.texts(FAMILY)
        chosen = options.filter(MessageStatus.FAILED, at.now)
        counts = at.ask(operations.move_chosen, action, kind, chosen, dry_run=True)
        if dry_run:
            if as_json:
                print_view(counts)
            else:
                outbox_output.say_dry_run(counts, action, text)
            return
        if asks and counts.messages:
            typer.confirm(text("discard.confirm", n=counts.messages), abort=True, err=True)
        result = at.wait(operations.move_all_chosen(at.operations, action, kind, chosen))
        within = f"{at.settings.outbox_interval_seconds:.0f}"
    if as_json:
        print_view(result, **{f"{action}ed": result.messages})
    else:
        say(text(f"{action}.done", n=result.messages, within=within), "green")


def _report_channel(channel: ChannelView, verb: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        # `outbox pause --json` has always printed the state of the circuit here; `outbox status` has all of it.
        print_view(channel, circuit=channel.circuit.state)
    else:
        say(Texts(FAMILY)(f"{verb}.{'dry_run' if dry_run else 'done'}"), "yellow" if dry_run else "green")
