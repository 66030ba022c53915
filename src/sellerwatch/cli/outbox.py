"""`sellerwatch outbox`: what the outside is to be told, what it would not take, and what waits behind that."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from sellerwatch.cli import desk
from sellerwatch.cli.desk import AsJson, Desk, Limit, say, stamp
from sellerwatch.cli.executions import must_be_known
from sellerwatch.cli.output import ago, print_facts, print_json, print_table
from sellerwatch.kernel.ids import OutboxId, ScheduleId, SellerId
from sellerwatch.outbox.message import Message, MessageStatus

if TYPE_CHECKING:
    from sellerwatch.crawling.operate import Handled
    from sellerwatch.crawling.ports import CrawlTx

app = typer.Typer(no_args_is_help=True, help="Look at events on their way out; replay or discard those that failed.")

Holders = dict[OutboxId, OutboxId]
MessageArguments = Annotated[list[str], typer.Argument(metavar="OUTBOX_ID...", help="One or more failed messages.")]


class Kind(StrEnum):
    """Which of the two outboxes."""

    PRODUCT = "product"
    SCHEDULER = "scheduler"


@app.command("list")
def list_(
    kind: Annotated[Kind, typer.Option("--kind", help="Events of products, or of schedules.")] = Kind.PRODUCT,
    seller: Annotated[str | None, typer.Option("--seller", help="Only messages of this seller.")] = None,
    status: Annotated[
        MessageStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List messages, newest first. One is held while it waits behind one that failed for good.

    \b
    sellerwatch outbox list --status FAILED
    sellerwatch outbox list --kind scheduler --json
    """
    seller_id = None if seller is None else SellerId.parse(seller)

    def work(tx: CrawlTx, at: Desk) -> tuple[Sequence[Message], Holders, Desk]:
        must_be_known(tx, seller_id)
        outbox = tx.product_outbox if kind is Kind.PRODUCT else tx.scheduler_outbox
        found = outbox.newest(seller_id=seller_id, status=status, limit=limit)
        return found, outbox.holders([message.outbox_id for message in found]), at

    messages, holders, at = desk.look(work)
    if as_json:
        print_json({"content": [message_json(message, holders) for message in messages], "limit": limit})
        return
    filtered = seller_id is not None or status is not None
    print_table(
        f"Outbox of {kind}s" if kind is Kind.PRODUCT else "Outbox of the scheduler",
        ("message", "event", "seller", "item", "status", "created", "tries", "next try", "error"),
        [
            (
                message.outbox_id,
                message.event_type,
                message.seller_id,
                message.item_no,
                message.status,
                ago(message.created_at, at.now),
                message.retry_count,
                "held" if message.outbox_id in holders else _next_try(message, at),
                desk.short(message.error_message, 40),
            )
            for message in messages
        ],
        empty="No message is like that. All of them: sellerwatch outbox list"
        if filtered
        else "The outbox is empty: crawls fill it. Start one: sellerwatch crawl SELLER_ID",
    )
    if holders:
        say("Held: one before it failed for good; replay or discard that one. `outbox show` says which it is.", "dim")


@app.command()
def show(
    message: Annotated[str, typer.Argument(metavar="OUTBOX_ID", help="As `outbox list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show a message with its payload.

    \b
    sellerwatch outbox show 0198c0de-0000-7000-8005-000000000001
    """
    outbox_id = OutboxId.parse(message)

    def work(tx: CrawlTx, at: Desk) -> tuple[Message, Holders]:
        from sellerwatch.crawling.operate import find_message  # noqa: PLC0415

        outbox, found = find_message(tx, outbox_id)
        return found, outbox.holders([outbox_id])

    found, holders = desk.look(work)
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
def replay(messages: MessageArguments, as_json: AsJson = False) -> None:
    """Send messages that failed for good once more, with the same key and body. Exit code 3 when some could not.

    \b
    sellerwatch outbox replay 0198c0de-0000-7000-8005-000000000001
    sellerwatch outbox list --status FAILED --json | jq -r .content[].outboxId | xargs sellerwatch outbox replay
    """
    outbox_ids = [OutboxId.parse(message) for message in messages]

    def work(tx: CrawlTx, at: Desk) -> tuple[Handled, Desk]:
        from sellerwatch.crawling import operate  # noqa: PLC0415

        return operate.replay(tx, outbox_ids, actor=at.actor, now=at.now), at

    handled, at = desk.change(work)
    within = f"{at.settings.outbox_interval_seconds:.0f} s"
    sentence = f"{len(handled.done)} message(s) wait again; a running `sellerwatch serve` sends them within {within}."
    desk.report(handled, sentence, as_json=as_json)


@app.command()
def discard(messages: MessageArguments, as_json: AsJson = False) -> None:
    """Give up messages that failed for good; what waits behind them goes on. Exit code 3 when some could not.

    \b
    sellerwatch outbox discard 0198c0de-0000-7000-8005-000000000001
    """
    outbox_ids = [OutboxId.parse(message) for message in messages]

    def work(tx: CrawlTx, at: Desk) -> Handled:
        from sellerwatch.crawling import operate  # noqa: PLC0415

        return operate.discard(tx, outbox_ids, actor=at.actor, now=at.now)

    handled = desk.change(work)
    desk.report(handled, f"{len(handled.done)} message(s) given up; they are kept and never sent.", as_json=as_json)


def message_json(message: Message, holders: Holders) -> dict[str, Any]:
    subject = "scheduleId" if isinstance(message.subject_id, ScheduleId) else "productId"
    return {
        "outboxId": message.outbox_id,
        subject: message.subject_id,
        "sellerId": message.seller_id,
        "itemNo": message.item_no,
        "executionId": message.execution_id,
        "eventType": message.event_type,
        "version": message.version,
        "status": message.status,
        "retryCount": message.retry_count,
        "errorMessage": message.error_message,
        "heldBy": holders.get(message.outbox_id),
        "createdAt": stamp(message.created_at),
        "nextAttemptAt": stamp(message.next_attempt_at),
        "sentAt": stamp(message.sent_at),
    }


def _next_try(message: Message, at: Desk) -> str | None:
    if message.next_attempt_at is None:
        return None
    return ago(message.next_attempt_at, at.now) if message.next_attempt_at > at.now else "now"
