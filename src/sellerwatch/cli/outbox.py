"""`sellerwatch outbox`: what the outside is to be told, what it would not take, and what waits behind that."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from sellerwatch.cli import session
from sellerwatch.cli.executions import must_be_known
from sellerwatch.cli.outbox_output import (
    Holders,
    Shown,
    attempt_json,
    chosen_json,
    message_json,
    outbox_json,
    say_chosen,
    show_attempts,
    show_messages,
    show_outbox,
)
from sellerwatch.cli.output import print_facts, print_json
from sellerwatch.cli.session import AsJson, Desk, Limit, say
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import OutboxId, SellerId
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import Chosen, MessageFilter
from sellerwatch.outbox.receipt import Attempt

if TYPE_CHECKING:
    from sellerwatch.kernel.bulk import BulkResult
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.outbox.channel import Channel

app = typer.Typer(
    no_args_is_help=True, help="Look at events on their way out; replay or discard those that failed; pause and resume."
)

_AGO = re.compile(r"([0-9]{1,6}) ?(s|m|min|h|d)", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

MessageArgument = Annotated[str, typer.Argument(metavar="OUTBOX_ID", help="As `outbox list` shows it.")]
MessageArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[OUTBOX_ID...]", help="Failed messages; or choose them by the options.")
]
KindOption = Annotated[OutboxKind, typer.Option("--kind", help="Events of products, or of schedules.")]
SellerOption = Annotated[str | None, typer.Option("--seller", help="Only messages of this seller.")]
TypeOption = Annotated[str | None, typer.Option("--type", help="Only this type, e.g. PRODUCT_UPDATED.")]
SinceOption = Annotated[str | None, typer.Option("--since", help="Made at this time or later, e.g. 2026-11-15 or 2h.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="Made before this time, e.g. 2026-11-15T06:00.")]
AllFailed = Annotated[bool, typer.Option("--all-failed", help="All that failed for good.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say in numbers what would happen.")]


@dataclass(eq=False)
class UnreadableTime(Invalid):
    """Neither a time nor how long ago."""

    given: str


@dataclass(eq=False)
class NothingChosen(Invalid):
    """Neither ids nor a choice: all of them must be said."""


@dataclass(eq=False)
class ChosenTwice(Invalid):
    """Ids and a choice at once."""


class BulkAction(StrEnum):
    """What becomes of messages that failed for good."""

    REPLAYED = "replayed"
    DISCARDED = "discarded"

    def sentence(self, number: int, within: float) -> str:
        if self is BulkAction.DISCARDED:
            return f"{number:,} message(s) given up; they are kept and never sent."
        return f"{number:,} message(s) wait again; a running `sellerwatch serve` sends them within {within:.0f} s."


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show both outboxes in numbers: counts, lag, what is held, and whether anything is sent.

    \b
    sellerwatch outbox status
    sellerwatch outbox status --json | jq '.content[0].lagSeconds'
    """

    def work(tx: ServiceTx, at: Desk) -> tuple[list[Shown], bool]:
        shown = [Shown(tx.channels.get(kind), tx.outbox_view(kind).tally(), at.now) for kind in OutboxKind]
        return shown, at.settings.product_server_url is not None

    outboxes, has_receiver = session.look(work)
    if as_json:
        print_json({"content": [outbox_json(shown) for shown in outboxes], "hasReceiver": has_receiver})
        return
    for shown in outboxes:
        show_outbox(shown)
    if not has_receiver:
        say("No product server is set (SELLERWATCH_PRODUCT_SERVER_URL): events of products wait.", "yellow")


@app.command("list")
def list_(
    kind: KindOption = OutboxKind.PRODUCT,
    seller: SellerOption = None,
    status: Annotated[
        MessageStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    event_type: TypeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List messages, newest first. One is held while it waits behind one that failed for good.

    \b
    sellerwatch outbox list --status FAILED
    sellerwatch outbox list --type PRODUCT_DELETED --since 2h
    sellerwatch outbox list --kind scheduler --json
    """
    choose = _chooser(status, seller, event_type, since, until)

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[Message], Holders, datetime]:
        choice, view = choose(at.now), tx.outbox_view(kind)
        must_be_known(tx, choice.seller_id)
        found = view.newest(choice, limit)
        return found, view.holders([message.outbox_id for message in found]), at.now

    messages, holders, now = session.look(work)
    if as_json:
        print_json({"content": [message_json(message, holders) for message in messages], "limit": limit})
        return
    nothing = "The outbox is empty: crawls fill it. Start one: sellerwatch crawl SELLER_ID"
    if any((status, seller, event_type, since, until)):
        nothing = "No message is like that. All of them: sellerwatch outbox list"
    show_messages(kind, messages, holders, now, empty=nothing)


@app.command()
def show(message: MessageArgument, as_json: AsJson = False) -> None:
    """Show a message with its payload.

    \b
    sellerwatch outbox show 0198c0de-0000-7000-8005-000000000001
    """
    outbox_id = OutboxId.parse(message)

    def work(tx: ServiceTx, _: Desk) -> tuple[Message, Holders]:
        from sellerwatch.outbox.commands import find_message  # noqa: PLC0415

        kind, found = find_message(tx, outbox_id)
        return found, tx.outbox_view(kind).holders([outbox_id])

    found, holders = session.look(work)
    payload = orjson.loads(found.payload)
    if as_json:
        print_json(message_json(found, holders) | {"payload": payload})
        return
    print_facts(
        [
            ("message", found.outbox_id),
            ("event", found.event_type),
            ("seller", found.seller_id),
            ("item", found.item_no),
            ("version", found.version if found.item_no is not None else None),
            ("execution", found.execution_id),
            ("status", found.status),
            ("failed tries", found.retry_count),
            ("error", found.error_message),
            ("held by", holders.get(outbox_id)),
            ("created (UTC)", found.created_at),
            ("next try (UTC)", found.next_attempt_at),
            ("sent (UTC)", found.sent_at),
            ("payload", orjson.dumps(payload, option=orjson.OPT_INDENT_2).decode()),
        ]
    )
    if found.status is MessageStatus.FAILED:
        say(f"Send it once more: sellerwatch outbox replay {outbox_id}", "dim")


@app.command()
def attempts(message: MessageArgument, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List every try of a message: when, how long, the receiver's answer, and whether it counted.

    \b
    sellerwatch outbox attempts 0198c0de-0000-7000-8005-000000000001
    """
    outbox_id = OutboxId.parse(message)

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[Attempt], datetime]:
        from sellerwatch.outbox.commands import find_message  # noqa: PLC0415

        find_message(tx, outbox_id)
        return tx.attempts.of(outbox_id, limit), at.now

    found, now = session.look(work)
    if as_json:
        print_json({"content": [attempt_json(attempt) for attempt in found], "limit": limit})
        return
    show_attempts(found, now)


@app.command()
def replay(
    messages: MessageArguments = None,
    all_failed: AllFailed = False,
    kind: KindOption = OutboxKind.PRODUCT,
    seller: SellerOption = None,
    event_type: TypeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Send messages that failed for good once more, with the same key and body. Exit code 3 when some could not.

    \b
    sellerwatch outbox replay 0198c0de-0000-7000-8005-000000000001
    sellerwatch outbox replay --all-failed --dry-run
    sellerwatch outbox replay --seller seller_12345 --since 2h
    """
    choose = _chooser(MessageStatus.FAILED, seller, event_type, since, until)
    _check_ways(messages, all_failed, seller, event_type, since, until)
    _move(BulkAction.REPLAYED, messages, kind, choose, dry_run=dry_run, as_json=as_json)


@app.command()
def discard(
    messages: MessageArguments = None,
    all_failed: AllFailed = False,
    kind: KindOption = OutboxKind.PRODUCT,
    seller: SellerOption = None,
    event_type: TypeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give up messages that failed for good; what waits behind them goes on. Exit code 3 when some could not.

    \b
    sellerwatch outbox discard 0198c0de-0000-7000-8005-000000000001
    sellerwatch outbox discard --type PRODUCT_DELETED --until 2026-11-15 --dry-run
    """
    choose = _chooser(MessageStatus.FAILED, seller, event_type, since, until)
    _check_ways(messages, all_failed, seller, event_type, since, until)
    _move(BulkAction.DISCARDED, messages, kind, choose, dry_run=dry_run, asks=not yes, as_json=as_json)


@app.command()
def pause(
    kind: KindOption = OutboxKind.PRODUCT,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for the audit trail.")] = None,
    as_json: AsJson = False,
) -> None:
    """Send nothing more until somebody resumes, over restarts too. What is under way finishes.

    \b
    sellerwatch outbox pause --reason "the product server is being moved"
    """
    why = None if reason is None else session.text(reason)

    def work(tx: ServiceTx, at: Desk) -> Channel:
        from sellerwatch.outbox import commands as outbox_commands  # noqa: PLC0415

        return outbox_commands.pause(tx, kind, why, actor=at.actor, now=at.now)

    _say_channel(session.change(work), "Paused: messages wait. Go on: sellerwatch outbox resume", as_json=as_json)


@app.command()
def resume(kind: KindOption = OutboxKind.PRODUCT, as_json: AsJson = False) -> None:
    """Send again after a pause. A circuit that the receiver's failures opened is tried at once, with one message.

    \b
    sellerwatch outbox resume
    """

    def work(tx: ServiceTx, at: Desk) -> Channel:
        from sellerwatch.outbox import commands as outbox_commands  # noqa: PLC0415

        return outbox_commands.resume(tx, kind, actor=at.actor, now=at.now)

    _say_channel(
        session.change(work), "Resumed: a running `sellerwatch serve` goes on within seconds.", as_json=as_json
    )


def _check_ways(messages: Sequence[str] | None, all_failed: bool, *choice: str | None) -> None:
    """By ids or by a choice: one of the two must be said, so that nobody moves all of them by a slip."""
    chosen = all_failed or any(choice)
    if messages and chosen:
        raise ChosenTwice
    if not messages and not chosen:
        raise NothingChosen


def _chooser(
    status: MessageStatus | None, seller: str | None, event_type: str | None, since: str | None, until: str | None
) -> Callable[[datetime], MessageFilter]:
    """The choice that the options make, once it is known what time it is: `2h` is so long before that."""
    seller_id = None if seller is None else SellerId.parse(seller)
    kind = None if event_type is None else session.text(event_type).upper()

    def choose(now: datetime) -> MessageFilter:
        return MessageFilter(status, seller_id, kind, _time(since, now), _time(until, now))

    return choose


def _time(given: str | None, now: datetime) -> datetime | None:
    if given is None:
        return None
    ago = _AGO.fullmatch(given.strip())
    if ago:
        return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2][0].lower()])
    try:
        read = datetime.fromisoformat(given.strip())
    except ValueError:
        raise UnreadableTime(given=session.text(given)[:100]) from None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def _move(
    deed: BulkAction,
    messages: Sequence[str] | None,
    kind: OutboxKind,
    choose: Callable[[datetime], MessageFilter],
    *,
    dry_run: bool,
    as_json: bool,
    asks: bool = False,
) -> None:
    """Messages by their ids, each handled by itself; or all of a choice."""
    if messages:
        handled, within = session.change(_by_ids(deed, [OutboxId.parse(message) for message in messages]))
        session.report(handled, deed.sentence(len(handled.done), within), as_json=as_json)
        return

    def count(tx: ServiceTx, at: Desk) -> Chosen:
        choice = choose(at.now)
        must_be_known(tx, choice.seller_id)
        return tx.outbox_view(kind).count(choice)

    chosen = session.look(count)
    if dry_run:
        if as_json:
            print_json({"dryRun": True} | chosen_json(chosen))
        else:
            say_chosen(chosen, deed)
        return
    if asks and chosen.messages:
        typer.confirm(f"Give up {chosen.messages:,} message(s) for good?", abort=True, err=True)
    moved, within = _in_pieces(chosen, _by_choice(deed, kind, choose))
    if as_json:
        print_json({deed.value: moved})
    else:
        say(deed.sentence(moved, within), "green")


def _by_ids(deed: BulkAction, outbox_ids: Sequence[OutboxId]) -> Callable[[ServiceTx, Desk], tuple[BulkResult, float]]:
    def work(tx: ServiceTx, at: Desk) -> tuple[BulkResult, float]:
        from sellerwatch.outbox import commands as outbox_commands  # noqa: PLC0415

        move = outbox_commands.replay if deed is BulkAction.REPLAYED else outbox_commands.discard
        return move(tx, outbox_ids, actor=at.actor, now=at.now), at.settings.outbox_interval_seconds

    return work


def _by_choice(
    deed: BulkAction, kind: OutboxKind, choose: Callable[[datetime], MessageFilter]
) -> Callable[[ServiceTx, Desk], tuple[int, float]]:
    def work(tx: ServiceTx, at: Desk) -> tuple[int, float]:
        from sellerwatch.outbox import commands as outbox_commands  # noqa: PLC0415

        move = outbox_commands.replay_chosen if deed is BulkAction.REPLAYED else outbox_commands.discard_chosen
        return move(tx, kind, choose(at.now), actor=at.actor, now=at.now), at.settings.outbox_interval_seconds

    return work


def _in_pieces(chosen: Chosen, work: Callable[[ServiceTx, Desk], tuple[int, float]]) -> tuple[int, float]:
    """As many transactions as the choice takes, and no more: what fails again meanwhile is not moved twice."""
    total, within = session.change(work)
    moved = total
    while moved and total < chosen.messages:
        moved, within = session.change(work)
        total += moved
    return total, within


def _say_channel(channel: Channel, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"kind": channel.kind, "isPaused": channel.is_paused, "circuit": channel.state})
    else:
        say(sentence, "green")
