"""Operations on the outbox that also need the sellers, or several transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.operations.session import OperationSession
from sellerwatch.outbox import commands, queries
from sellerwatch.outbox.commands import MessageAction, MovedMessagesView
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.outbox.queries import MessageView
from sellerwatch.sellers.queries import require_seller


def list_messages(
    tx: ServiceTx, context: OperationContext, kind: OutboxKind, chosen: MessageFilter, cursor: str | None, size: int
) -> CursorPageView[MessageView]:
    """List messages, newest first. A filter by a seller that does not exist is refused."""
    require_seller(tx, chosen.seller_id)
    return queries.list_messages(tx, context, kind, chosen, cursor, size)


def move_chosen(
    tx: ServiceTx,
    context: OperationContext,
    action: MessageAction,
    kind: OutboxKind,
    chosen: MessageFilter,
    dry_run: bool = False,
) -> MovedMessagesView:
    """Replay or discard the failed messages of a filter, at most 10,000 in one transaction."""
    require_seller(tx, chosen.seller_id)
    return commands.move_chosen(tx, context, action, kind, chosen, dry_run)


async def move_all_chosen(
    session: OperationSession,
    action: MessageAction,
    kind: OutboxKind,
    chosen: MessageFilter,
    progress: Callable[[int], None] = lambda moved: None,
) -> MovedMessagesView:
    """Replay or discard all failed messages of a filter, in as many transactions as that takes.

    It stops after the number that the filter had at the beginning: messages that fail again meanwhile are not moved
    twice."""
    first = await session.ask(move_chosen, action, kind, chosen, dry_run=True)
    result, total = replace(first, dry_run=False, messages=0), 0
    while total < first.messages:
        result = await session.run(move_chosen, action, kind, chosen)
        if not result.messages:
            break
        total += result.messages
        progress(result.messages)
    return replace(result, messages=total)
