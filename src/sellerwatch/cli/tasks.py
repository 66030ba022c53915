"""`sellerwatch tasks`: the single requests of runs, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import dead_letters, session
from sellerwatch.cli.executions import found_execution, must_be_known
from sellerwatch.cli.output import ago, language_setting, print_facts, print_json, print_table
from sellerwatch.cli.session import AsJson, Desk, Limit, say, stamp
from sellerwatch.crawling.task import Task, TaskNotFound, TaskStatus
from sellerwatch.kernel.failure_view import failure_view, note_view
from sellerwatch.kernel.ids import ExecutionId, SellerId, TaskId
from sellerwatch.kernel.wording import failure_text, note_text

if TYPE_CHECKING:
    from sellerwatch.kernel.bulk import BulkResult
    from sellerwatch.operations.ports import ServiceTx

app = typer.Typer(no_args_is_help=True, help="Look at single tasks, try again those that failed.")
app.add_typer(dead_letters.app, name="dead-letters")


@app.command("list")
def list_(
    execution: Annotated[str | None, typer.Option("--execution", help="Only tasks of this run.")] = None,
    seller: Annotated[str | None, typer.Option("--seller", help="Only tasks of this seller.")] = None,
    status: Annotated[
        TaskStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List tasks, newest first.

    \b
    sellerwatch tasks list --status FAILED
    sellerwatch tasks list --execution 0198c0de-0000-7000-8002-000000000001 --limit 100 --json
    """
    execution_id = None if execution is None else ExecutionId.parse(execution)
    seller_id = None if seller is None else SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[Task], datetime]:
        must_be_known(tx, seller_id)
        if execution_id is not None:
            found_execution(tx, execution_id)
        tasks = tx.task_queries.newest(execution_id=execution_id, seller_id=seller_id, status=status, limit=limit)
        return tasks, at.now

    tasks, now = session.look(work)
    language = language_setting()
    if as_json:
        print_json({"content": [task_json(task, language) for task in tasks], "limit": limit})
        return
    filtered = execution_id is not None or seller_id is not None or status is not None
    print_table(
        "Tasks",
        ("task", "seller", "type", "item/page", "status", "created", "retries", "error"),
        [
            (
                task.task_id,
                task.seller_id,
                task.task_type,
                _about(task),
                task.status,
                ago(task.created_at, now),
                task.retry_count,
                session.short(_outcome(task, language)),
            )
            for task in tasks
        ],
        empty="No task is like that. All of them: sellerwatch tasks list"
        if filtered
        else "No tasks yet: runs make them. Start one: sellerwatch crawl SELLER_ID",
    )


@app.command()
def show(
    task: Annotated[str, typer.Argument(metavar="TASK_ID", help="As `tasks list` shows it.")], as_json: AsJson = False
) -> None:
    """Show a task with everything that is known of it.

    \b
    sellerwatch tasks show 0198c0de-0000-7000-8001-000000000001
    """
    task_id = TaskId.parse(task)

    def work(tx: ServiceTx, at: Desk) -> Task:
        found = tx.tasks.get(task_id)
        if found is None:
            raise TaskNotFound(task_id=task_id)
        return found

    found = session.look(work)
    shown = task_json(found, language_setting())
    if as_json:
        print_json(shown)
        return
    print_facts(
        [
            ("task", found.task_id),
            ("execution", found.execution_id),
            ("seller", found.seller_id),
            ("type", found.task_type),
            ("purpose", found.purpose),
            ("item/page", _about(found)),
            ("request", found.request_url),
            ("status", found.status),
            ("retries", found.retry_count),
            ("requests made", found.requests_made),
            ("lost leases", found.lost_leases),
            ("blame", found.failure and found.failure.blame),
            ("error", shown["errorMessage"]),
            ("note", shown["note"]),
            ("created (UTC)", found.created_at),
            ("may start (UTC)", found.available_at),
            ("started (UTC)", found.started_at),
            ("completed (UTC)", found.completed_at),
            ("worker", found.worker_id),
        ]
    )
    if found.status is TaskStatus.FAILED:
        say(f"Try it again: sellerwatch tasks retry {task_id}", "dim")


@app.command()
def retry(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK_ID...", help="One or more failed tasks.")],
    as_json: AsJson = False,
) -> None:
    """Do failed tasks after all, with a fresh count of retries. Exit code 3 when some of them could not be reopened.

    \b
    sellerwatch tasks retry 0198c0de-0000-7000-8001-000000000001
    sellerwatch tasks list --status FAILED --json | jq -r .content[].taskId | xargs sellerwatch tasks retry
    """
    task_ids = [TaskId.parse(task) for task in tasks]

    def work(tx: ServiceTx, at: Desk) -> BulkResult:
        from sellerwatch.crawling.commands import retry_tasks  # noqa: PLC0415

        return retry_tasks(tx, task_ids, at.deadline, actor=at.actor, now=at.now)

    handled = session.change(work)
    sentence = (
        f"{len(handled.done)} task(s) are to be done again; a running `sellerwatch serve` takes them up by itself."
    )
    session.report(handled, sentence, as_json=as_json)


def task_json(task: Task, language: str) -> dict[str, Any]:
    return {
        "taskId": task.task_id,
        "executionId": task.execution_id,
        "sellerId": task.seller_id,
        "taskType": task.task_type,
        "purpose": task.purpose,
        "itemNo": task.item_no,
        "pageNo": task.page_no,
        "requestUrl": task.request_url,
        "status": task.status,
        "retryCount": task.retry_count,
        "requestsMade": task.requests_made,
        "lostLeases": task.lost_leases,
        **failure_view(task.failure, language),
        **note_view(task.note, language),
        "createdAt": stamp(task.created_at),
        "availableAt": stamp(task.available_at),
        "publishedAt": stamp(task.published_at),
        "startedAt": stamp(task.started_at),
        "completedAt": stamp(task.completed_at),
        "workerId": task.worker_id,
    }


def _outcome(task: Task, language: str) -> str | None:
    """Why it failed, or what it left out although it completed."""
    if task.failure is not None:
        return failure_text(task.failure, language)
    return None if task.note is None else note_text(task.note, language)


def _about(task: Task) -> str:
    return f"page {task.page_no}" if task.item_no is None else str(task.item_no)
