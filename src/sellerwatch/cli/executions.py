"""`sellerwatch executions`: runs, how far they are, and what went wrong in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import ago, language_setting, print_facts, print_json, print_table
from sellerwatch.cli.session import AsJson, Desk, Limit, say, stamp
from sellerwatch.crawling.execution import Execution, ExecutionNotFound, ExecutionStatus
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.crawling.recheck import recheck_at
from sellerwatch.crawling.waiting import causes_of_waiting, waiting_view
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.failure_view import failure_counts_view, failure_view
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.kernel.wording import failure_text
from sellerwatch.sellers.seller import SellerNotFound

if TYPE_CHECKING:
    from sellerwatch.crawling.commands import Cancelled
    from sellerwatch.operations.ports import ServiceTx

app = typer.Typer(no_args_is_help=True, help="Look at runs, cancel them, try again what failed in them.")

MOST_ERRORS = 20

#: Why each run that waits does so.
Waiting = Mapping[ExecutionId, Failure]

ExecutionArgument = Annotated[str, typer.Argument(metavar="EXECUTION_ID", help="As `executions list` shows it.")]


@dataclass(frozen=True)
class Shown:
    """A run with everything `show` says of it."""

    run: Execution
    tally: Mapping[tuple[str, str], int]
    failures: Sequence[tuple[Failure, int]]
    notes: Mapping[NoteKind, Mapping[str, int]]
    recheck_at: datetime | None
    waiting: Failure | None
    now: datetime


@app.command("list")
def list_(
    seller: Annotated[str | None, typer.Option("--seller", help="Only runs of this seller.")] = None,
    status: Annotated[
        ExecutionStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    limit: Limit = 10,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first.

    \b
    sellerwatch executions list
    sellerwatch executions list --seller seller_12345 --status FAILED --limit 50
    """
    seller_id = None if seller is None else SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[Execution], Waiting, datetime]:
        must_be_known(tx, seller_id)
        runs = tx.execution_queries.newest(seller_id=seller_id, status=status, limit=limit)
        return runs, causes_of_waiting(tx, runs), at.now

    found, waiting, now = session.look(work)
    language = language_setting()
    if as_json:
        shown = [execution_json(run, language) | waiting_json(waiting.get(run.execution_id), language) for run in found]
        print_json({"content": shown, "limit": limit})
        return
    nothing = f"No runs yet. Start one: sellerwatch crawl {seller_id or 'SELLER_ID'}"
    if status is not None:
        nothing = f"No run is {status}. All of them: sellerwatch executions list"
    print_executions("Runs", found, waiting, now, language, empty=nothing)


@app.command()
def show(execution: ExecutionArgument, as_json: AsJson = False) -> None:
    """Show a run: how far it is, its tasks by type and state, what it found changed, and its errors by cause.

    A run that is paused says why, and what to do.

    \b
    sellerwatch executions show 0198c0de-0000-7000-8002-000000000001
    """
    execution_id = ExecutionId.parse(execution)

    def work(tx: ServiceTx, at: Desk) -> Shown:
        run, notes = found_execution(tx, execution_id), tx.run_notes.of(execution_id)
        return Shown(
            run,
            tx.run_tasks.tally(execution_id),
            tx.run_tasks.failures(execution_id, MOST_ERRORS),
            notes,
            recheck_at(tx, notes) if run.is_open else None,
            causes_of_waiting(tx, [run]).get(execution_id),
            at.now,
        )

    shown = session.look(work)
    run, language = shown.run, language_setting()
    errors = failure_counts_view(shown.failures, language)
    if as_json:
        by_type: dict[str, dict[str, int]] = {}
        for (task_type, state), number in sorted(shown.tally.items()):
            by_type.setdefault(task_type, {})[state] = number
        noted = notes_json(run, shown.notes) | {"recheckAt": stamp(shown.recheck_at)}
        noted |= waiting_json(shown.waiting, language)
        print_json(execution_json(run, language) | {"tasks": by_type, "errors": errors} | noted)
        return
    _print_run(shown, language)
    print_table(
        "Tasks",
        ("type", "status", "number"),
        [(task_type, state, number) for (task_type, state), number in sorted(shown.tally.items())],
        empty="It has no tasks.",
    )
    _print_notes(shown)
    if errors:
        rows = [(one["count"], one["blame"], one["message"]) for one in errors]
        print_table("Errors", ("tasks", "blame", "message"), rows, empty="")
        say(f"Try them again: sellerwatch executions retry {execution_id}", "dim")


@app.command()
def cancel(
    execution: ExecutionArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """End a run. What waits is cancelled; what is in flight finishes and is still taken in.

    \b
    sellerwatch executions cancel 0198c0de-0000-7000-8002-000000000001 --yes
    """
    execution_id = ExecutionId.parse(execution)
    if not yes:
        run = session.look(lambda tx, _: found_execution(tx, execution_id))
        if run.is_open:
            question = f"The run of {run.seller_id} is {run.progress_rate:.0f} % done. End it?"
            typer.confirm(question, abort=True, err=True)

    def work(tx: ServiceTx, at: Desk) -> Cancelled:
        from sellerwatch.crawling import commands  # noqa: PLC0415

        return commands.cancel(tx, execution_id, at.rules, actor=at.actor, ids=at.ids, now=at.now)

    ended = session.change(work)
    if as_json:
        counts = {"cancelledTasks": ended.cancelled, "tasksInFlight": ended.in_flight}
        print_json(execution_json(ended.execution, language_setting()) | counts)
        return
    say(f"The run was ended: {ended.cancelled} waiting task(s) cancelled, {ended.in_flight} in flight finish.", "green")


@app.command()
def retry(execution: ExecutionArgument, as_json: AsJson = False) -> None:
    """Do the failed tasks of a run after all. A finished run is running again.

    \b
    sellerwatch executions retry 0198c0de-0000-7000-8002-000000000001
    """
    execution_id = ExecutionId.parse(execution)

    def work(tx: ServiceTx, at: Desk) -> tuple[Execution, int]:
        from sellerwatch.crawling import commands  # noqa: PLC0415

        return commands.retry_execution(tx, execution_id, at.deadline, actor=at.actor, now=at.now)

    run, number = session.change(work)
    if as_json:
        print_json(execution_json(run, language_setting()) | {"reopenedTasks": number})
        return
    say(f"{number} failed task(s) are to be done again; the run is {run.status}.", "green")
    say("A running `sellerwatch serve` takes them up by itself.")


def execution_json(run: Execution, language: str) -> dict[str, Any]:
    return {
        "executionId": run.execution_id,
        "scheduleId": run.schedule_id,
        "sellerId": run.seller_id,
        "status": run.status,
        "totalTasksCreated": run.total_tasks_created,
        "completedTasks": run.completed_tasks,
        "failedTasks": run.failed_tasks,
        "listTotal": run.list_total,
        "progressRate": round(run.progress_rate, 2),
        "successRate": round(run.success_rate, 2),
        "createdAt": stamp(run.created_at),
        "startedAt": stamp(run.started_at),
        "completedAt": stamp(run.completed_at),
        "deadlineAt": stamp(run.deadline_at),
        "startTries": run.start_tries,
        "nextStartAt": stamp(run.next_start_at),
        **failure_view(run.failure, language),
    }


def notes_json(run: Execution, notes: Mapping[NoteKind, Mapping[str, int]]) -> dict[str, Any]:
    """What was noted of a run while it went. One that is over waits for nothing."""
    return {
        "paused": next(iter(notes[NoteKind.PAUSED]), None) if run.is_open else None,
        "judged": dict(sorted(notes[NoteKind.JUDGED].items())),
        "changedFields": [
            {"part": part, "field": name, "products": number} for part, name, number in _changed_fields(notes)
        ],
        "unreadable": [{"problem": name, "count": number} for name, number in _most(notes[NoteKind.UNREADABLE])],
        "foreignItems": len(notes[NoteKind.FOREIGN]),
    }


def waiting_json(cause: Failure | None, language: str) -> dict[str, Any]:
    """Why an open run makes no progress, as the REST API answers it."""
    return {"waiting": waiting_view(cause, language)}


def print_executions(
    title: str, runs: Sequence[Execution], waiting: Waiting, now: datetime, language: str, *, empty: str
) -> None:
    print_table(
        title,
        ("execution", "seller", "status", "started", "progress", "done", "failed", "tasks", "cause"),
        [
            (
                run.execution_id,
                run.seller_id,
                run.status,
                ago(run.created_at, now),
                f"{run.progress_rate:.0f} %",
                run.completed_tasks,
                run.failed_tasks,
                run.total_tasks_created,
                cause_of(run, waiting.get(run.execution_id), now, language),
            )
            for run in runs
        ],
        empty=empty,
    )


def cause_of(run: Execution, waiting: Failure | None, now: datetime, language: str) -> str | None:
    """Why a run failed, or waits; for one that waits to start, when it is tried next."""
    failure = waiting or run.failure
    sentence = None if failure is None else failure_text(failure, language)
    if run.next_start_at is None:
        return session.short(sentence)
    return f"{session.short(sentence) or ''} (tries: {run.start_tries}, next {ago(run.next_start_at, now)})".lstrip()


def found_execution(tx: ServiceTx, execution_id: ExecutionId) -> Execution:
    run = tx.executions.get(execution_id)
    if run is None:
        raise ExecutionNotFound(execution_id=execution_id)
    return run


def must_be_known(tx: ServiceTx, seller_id: SellerId | None) -> None:
    """A filter by a seller that does not exist is a slip of the pen, not an empty list."""
    if seller_id is not None and tx.sellers.get(seller_id) is None:
        raise SellerNotFound(seller_id=seller_id)


def _print_run(shown: Shown, language: str) -> None:
    run, now, notes = shown.run, shown.now, shown.notes
    took = None
    if run.started_at is not None:
        took = f"{((run.completed_at or now) - run.started_at).total_seconds():.0f} s"
    judged = ", ".join(f"{part} {number}" for part, number in sorted(notes[NoteKind.JUDGED].items()))
    print_facts(
        [
            ("execution", run.execution_id),
            ("seller", run.seller_id),
            ("status", run.status),
            ("progress", f"{session.bar(run.progress_rate)} ({run.ended} of {run.total_tasks_created})"),
            ("success rate", f"{run.success_rate:.1f} %"),
            ("products listed", run.list_total),
            ("items of others", len(notes[NoteKind.FOREIGN]) or None),
            ("parts judged", judged or None),
            ("created", f"{run.created_at:%Y-%m-%d %H:%M:%S} UTC ({ago(run.created_at, now)})"),
            ("completed", run.completed_at),
            ("took", took),
            ("deadline", run.deadline_at),
            *_start_facts(run, now),
            *([] if shown.waiting in (None, run.failure) else [("waits for", failure_text(shown.waiting, language))]),
            ("blame", run.failure and run.failure.blame),
            ("error", None if run.failure is None else failure_text(run.failure, language)),
        ]
    )


def _start_facts(run: Execution, now: datetime) -> list[tuple[str, str | int]]:
    """How often a run that has not started was tried, and when it is tried next."""
    facts: list[tuple[str, str | int]] = [("start tries", run.start_tries)] if run.start_tries else []
    if run.next_start_at is not None:
        facts.append(("next try", f"{run.next_start_at:%Y-%m-%d %H:%M:%S} UTC ({ago(run.next_start_at, now)})"))
    return facts


def _print_notes(shown: Shown) -> None:
    run, notes = shown.run, shown.notes
    changed, unreadable = _changed_fields(notes), _most(notes[NoteKind.UNREADABLE])
    if changed:
        print_table("Changed fields", ("part", "field", "products"), changed, empty="")
    if unreadable:
        print_table("Could not be read", ("answers", "problem"), [(n, name) for name, n in unreadable], empty="")
    for reason in notes[NoteKind.PAUSED] if run.is_open else ():
        say(f"It is paused: {reason}", "yellow")
        if shown.recheck_at is not None:
            when = f"{shown.recheck_at:%Y-%m-%d %H:%M:%S} UTC ({ago(shown.recheck_at, shown.now)})"
            say(
                f"A few of the answers are read again at {when}; once they are readable it goes on by itself.", "yellow"
            )
        say(f"To decide the case now: sellerwatch quarantine list --seller {run.seller_id}", "yellow")


def _changed_fields(notes: Mapping[NoteKind, Mapping[str, int]]) -> list[tuple[str, str, int]]:
    """Most frequent first; noted as `PART field`."""
    split = ((name.partition(" "), number) for name, number in _most(notes[NoteKind.CHANGED]))
    return [(part, field, number) for (part, _, field), number in split]


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))
