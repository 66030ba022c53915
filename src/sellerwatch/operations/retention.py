"""Delete rows that nothing needs any more, in bounded steps, and say beforehand what would go.

Rows are looked for by a reader and deleted by their numbers in short transactions, so that no crawl waits for it. Tasks
go only once their day is kept: the metrics of a day are made from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated
from zoneinfo import ZoneInfo

from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.store import Store
from sellerwatch.kernel.views import About, View
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.operations.session import OperationSession
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.oversight.retention import BYTES_PER_ROW, KeptRows, RetentionRules
from sellerwatch.reports.day_metrics import DAY, span

#: Rows that one transaction deletes at most.
BATCH = 500
#: Transactions in which one run deletes rows of a kind, at most: what is left goes in the next.
MOST_BATCHES = 200


@dataclass(frozen=True)
class RetainedView(View):
    """Rows of a table that are too old to be kept."""

    table: Annotated[str, About(example="crawler_tasks")]
    kept_days: Annotated[float, About("How long rows are kept.", 30)]
    before: Annotated[datetime | None, About("Rows from before this go. Null: none can go yet.")]
    rows: Annotated[int, About("Rows that go.", 1200)]
    bytes: Annotated[int, About("About the room they take, with their index entries.", 900_000)]


@dataclass(frozen=True)
class RetentionView(View):
    """What is too old to be kept. `bytes` is the room that is used again; the file of SQLite does not shrink."""

    content: Sequence[RetainedView]
    rows: int
    bytes: int
    dry_run: bool


def oldest_kept(tx: ServiceTx, kind: KeptRows, rules: RetentionRules, zone: ZoneInfo, now: datetime) -> datetime | None:
    """Return the time before which rows go; None where none may go yet."""
    before = now - rules.kept(kind)
    if kind is not KeptRows.TASKS:
        return before
    last = tx.kept_days.last()
    return None if last is None else min(before, span(last + DAY, zone)[0])


def list_retention(tx: ServiceTx, context: OperationContext, rules: RetentionRules, zone: ZoneInfo) -> RetentionView:
    """List what is too old to be kept, by table, and about how much room it takes."""
    content = []
    for kind in KeptRows:
        before = oldest_kept(tx, kind, rules, zone, context.now)
        rows = 0 if before is None else tx.old_rows.count(kind, before)
        days = rules.kept(kind) / timedelta(days=1)
        content.append(RetainedView(str(kind), days, before, rows, rows * BYTES_PER_ROW[kind]))
    total = sum(each.rows for each in content), sum(each.bytes for each in content)
    return RetentionView(content, *total, dry_run=True)


async def apply_retention(session: OperationSession, rules: RetentionRules, zone: ZoneInfo) -> RetentionView:
    """Delete what is too old to be kept, and list what went; in a dry run, what would go."""
    found = await session.ask(list_retention, rules, zone)
    if session.dry_run:
        return found
    now, gone = session.clock.now(), dict[str, int]()
    for kind in KeptRows:
        gone[kind] = await forget_rows(session.store, kind, rules, zone, now, most=None)
    content = [
        replace(each, rows=gone[each.table], bytes=gone[each.table] * BYTES_PER_ROW[KeptRows(each.table)])
        for each in found.content
    ]
    total = sum(each.rows for each in content), sum(each.bytes for each in content)
    if total[0]:
        await session.run(_note, {each.table: each.rows for each in content if each.rows})
    return RetentionView(content, *total, dry_run=False)


def _note(tx: ServiceTx, context: OperationContext, rows: dict[str, int]) -> None:
    record_audit(tx, AuditEntry(context.now, context.actor, "db.retention", "database", "rows", before=rows))


async def forget_rows(
    store: Store[ServiceTx],
    kind: KeptRows,
    rules: RetentionRules,
    zone: ZoneInfo,
    now: datetime,
    most: int | None = MOST_BATCHES,
) -> int:
    """Delete old rows of a kind, some at a time; return how many."""
    gone = batches = 0
    while most is None or batches < most:
        rows = await store.read(partial(_find, kind=kind, rules=rules, zone=zone, now=now))
        if rows:
            gone += await store.transact(partial(_delete, kind=kind, rows=rows))
        if len(rows) < BATCH:
            break
        batches += 1
    return gone


def _find(tx: ServiceTx, kind: KeptRows, rules: RetentionRules, zone: ZoneInfo, now: datetime) -> Sequence[int]:
    before = oldest_kept(tx, kind, rules, zone, now)
    return [] if before is None else tx.old_rows.find(kind, before, BATCH)


def _delete(tx: ServiceTx, kind: KeptRows, rows: Sequence[int]) -> int:
    return tx.old_rows.delete(kind, rows)
