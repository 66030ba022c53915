"""`sellerwatch why`: the trace of a product, a task, a run or an event."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from sellerwatch.cli import session
from sellerwatch.cli.executions import FAMILY
from sellerwatch.cli.output import print_table, print_view
from sellerwatch.cli.session import AsJson
from sellerwatch.cli.texts import Texts
from sellerwatch.reports.trace import why as trace

if TYPE_CHECKING:
    from sellerwatch.reports.trace import EventTraceView, TaskTraceView, TraceView

#: When a step was made, its name and what is known of it.
Step = tuple[datetime | None, str, str | None]
LONGEST_VALUE = 60


def why(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    version: Annotated[int | None, typer.Option("--version", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch why 900000001
    sellerwatch why 0198c0de-0000-7000-8001-000000000001
    """
    with session.command_session() as at:
        found, text = at.ask(trace, session.text(id_), version), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    steps = [*_start(found, text), *_tasks(found.tasks, text), *_changes(found, text), *_events(found.events, text)]
    print_table(text("why.title"), text.columns("time", "step", "what"), steps, empty="")
    changes = [
        (entry.version, change.field, _short(change.before), _short(change.after))
        for entry in found.changes
        for change in entry.changes
    ]
    if changes:
        print_table(text("why.changes"), text.columns("version", "field", "before", "after"), changes, empty="")


def _start(found: TraceView, text: Texts) -> list[Step]:
    schedule, started, run = found.schedule, found.started, found.execution
    unknown = text("why.unknown")
    due = unknown
    if schedule is not None:
        due = f"{found.seller_id}: {text(f'every.{schedule.interval.unit}', n=schedule.interval.amount)}"
    by = unknown if started is None else f"{text('why.started_by')} {started.actor}"
    if run is not None and run.status == "PENDING":
        by = text("why.not_started")
    shown: str | None = text("why.no_run")
    if run is not None:
        done = text("execution.numbers", done=run.ended_tasks, total=run.total_tasks_created, rate=run.progress_rate)
        shown = _joined(run.execution_id, run.status, done, run.error_message)
    return [
        (None, text("why.schedule"), due),
        (None if started is None else started.at, text("why.started"), by),
        (None if run is None else run.started_at, text("why.run"), shown),
    ]


def _tasks(tasks: Sequence[TaskTraceView], text: Texts) -> list[Step]:
    steps: list[Step] = []
    for each in tasks:
        task, request = each.task, each.request
        what = _joined(task.task_id, task.task_type, task.status, task.request_url, task.error_message or task.note)
        steps.append((task.started_at or task.created_at, text("why.task"), what))
        asked = text("why.not_asked")
        if task.agent is not None:
            answer = None
            if request is not None:
                answer = text("why.answered", status=request.http_status_code or "-", ms=request.duration_ms or 0)
            asked = _joined(text("why.agent", n=task.agent), answer) or ""
        steps.append((None if request is None else request.at, text("why.asked"), asked))
    return steps


def _changes(found: TraceView, text: Texts) -> list[Step]:
    if not found.changes and found.product_state is not None:
        return [(None, text("why.changed"), text("why.no_change"))]
    return [
        (
            each.at,
            text("why.changed"),
            _joined(str(found.item_no), each.event_type, text("product.version", n=each.version)),
        )
        for each in found.changes
    ]


def _events(events: Sequence[EventTraceView], text: Texts) -> list[Step]:
    steps: list[Step] = []
    for event in events:
        what = _joined(event.outbox_id, event.event_type, event.status, event.error_message)
        steps.append((event.created_at, text("why.event"), what))
        if not event.attempts:
            steps.append((None, text("why.attempt"), text("why.not_sent")))
        for attempt in reversed(event.attempts):
            answer = text("why.answered", status=attempt.http_status_code or "-", ms=attempt.duration_ms or 0)
            shown = _joined(
                text("why.try", n=attempt.try_number), attempt.verdict, answer, session.short(attempt.answer)
            )
            steps.append((attempt.at, text("why.attempt"), shown))
    return steps


def _joined(*parts: str | None) -> str | None:
    return " · ".join(str(part) for part in parts if part) or None


def _short(value: object) -> str | None:
    if value is None:
        return None
    return session.short(value if isinstance(value, str) else orjson.dumps(value).decode(), LONGEST_VALUE)
