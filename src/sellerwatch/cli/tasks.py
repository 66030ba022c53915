"""`sellerwatch tasks`: the single requests of runs, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli import dead_letters, session
from sellerwatch.cli.executions import FAMILY
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_table, print_view
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, say, seller_of
from sellerwatch.cli.tables import Columns, print_page, print_views
from sellerwatch.cli.texts import Texts
from sellerwatch.crawling import queries
from sellerwatch.crawling.commands import retry_tasks
from sellerwatch.crawling.ports import TaskFilter
from sellerwatch.crawling.task import TaskStatus, TaskType
from sellerwatch.kernel.ids import ExecutionId, TaskId
from sellerwatch.operations.tasks import retry_all_chosen

if TYPE_CHECKING:
    from sellerwatch.crawling.views import RetriedTasksView, StatusAgesView, TaskView

app = CommandApp()
app.add_typer(dead_letters.app, name="dead-letters")

TypeOption = Annotated[TaskType | None, typer.Option("--type", case_sensitive=False)]


def _about(task: TaskView, text: Texts) -> str:
    return text("tasks.page_number", n=task.page_no) if task.item_no is None else str(task.item_no)


TASKS: Columns[TaskView] = {
    "task": lambda task, _: task.task_id,
    "seller": lambda task, _: task.seller_id,
    "type": lambda task, _: task.task_type,
    "item_or_page": _about,
    "status": lambda task, _: task.status,
    "created": lambda task, text: text.ago(task.created_at),
    "retries": lambda task, _: task.retry_count,
    "cause": lambda task, _: session.short(task.error_message or task.note),
}


AGES: Columns[StatusAgesView] = {
    "status": lambda ages, _: ages.status,
    "total": lambda ages, _: ages.total,
    "under10Minutes": lambda ages, _: ages.under10_minutes,
    "under1Hour": lambda ages, _: ages.under1_hour,
    "under1Day": lambda ages, _: ages.under1_day,
    "older": lambda ages, _: ages.older,
    "oldest": lambda ages, text: text.ago(ages.oldest_at),
}


@app.command("list")
def list_(
    execution: str | None = None,
    seller: str | None = None,
    status: Annotated[TaskStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    type_: TypeOption = None,
    limit: Limit = 20,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch tasks list --status FAILED
    sellerwatch tasks list --execution 0198c0de-0000-7000-8002-000000000001 --limit 100 --json
    """
    choice = _choice(execution, seller, status, type_)
    with session.command_session() as at:
        page, text = at.ask(queries.list_tasks, choice, cursor, limit), at.texts(FAMILY)
    empty = text("tasks.none" if choice == TaskFilter() else "tasks.none_found")
    print_page(page, TASKS, text, "tasks", empty, limit=limit, as_json=as_json)


@app.command()
def ages(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch tasks ages
    """
    with session.command_session() as at:
        found, text = at.ask(queries.list_task_ages), at.texts(FAMILY)
    if as_json:
        print_view(found)
    else:
        print_views(text("tasks.ages"), found.content, AGES, text, empty=text("tasks.none"))


@app.command()
def show(task: Annotated[str, typer.Argument(metavar="TASK_ID")], as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch tasks show 0198c0de-0000-7000-8001-000000000001
    """
    with session.command_session() as at:
        found, text = at.ask(queries.show_task, TaskId.parse(task)), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    facts = (
        ("task.task", found.task_id),
        ("run.execution", found.execution_id),
        ("run.seller", found.seller_id),
        ("task.type", found.task_type),
        ("task.purpose", found.purpose),
        ("task.about", _about(found, text)),
        ("task.request", found.request_url),
        ("run.status", found.status),
        ("task.retries", found.retry_count),
        ("task.requests", found.requests_made),
        ("task.agent", None if found.agent is None else f"#{found.agent}"),
        ("task.lost_leases", found.lost_leases),
        ("run.blame", found.failure and found.failure.blame),
        ("run.error", found.error_message),
        ("task.note", found.note),
        ("task.created", found.created_at),
        ("task.available", found.available_at),
        ("task.started", found.started_at),
        ("task.completed", found.completed_at),
        ("task.worker", found.worker_id),
    )
    print_facts([(text(key), value) for key, value in facts])
    if found.status is TaskStatus.FAILED:
        say(text("tasks.retry_hint", task=found.task_id), "dim")


@app.command()
def retry(
    tasks: Annotated[list[str] | None, typer.Argument(metavar="[TASK_ID...]")] = None,
    all_failed: Annotated[bool, typer.Option("--all-failed")] = False,
    execution: str | None = None,
    seller: str | None = None,
    type_: TypeOption = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch tasks retry 0198c0de-0000-7000-8001-000000000001
    sellerwatch tasks retry --seller seller_12345 --dry-run
    """
    choice = _choice(execution, seller, TaskStatus.FAILED, type_)
    is_chosen = all_failed or choice != TaskFilter(status=TaskStatus.FAILED)
    if bool(tasks) == is_chosen:
        raise typer.BadParameter(Texts(FAMILY)("tasks.choose"))
    task_ids = [TaskId.parse(task) for task in tasks or ()]
    with session.command_session() as at:
        text = at.texts(FAMILY)
        if task_ids:
            view = at.run(retry_tasks, task_ids, at.operations.deadline, dry_run=dry_run)
        else:
            view = at.wait(retry_all_chosen(at.operations, choice, dry_run=dry_run))
    _print_retried(view, text, as_json=as_json)


def _print_retried(view: RetriedTasksView, text: Texts, *, as_json: bool) -> None:
    sentence = text("tasks.would_retry" if view.dry_run else "tasks.retried", n=view.tasks)
    if as_json or view.done or view.refused:
        session.report_bulk(view, sentence, as_json=as_json)
        return
    if not view.tasks:
        say(text("tasks.nothing_to_retry"))
        return
    print_table(text("tasks.by_seller"), text.columns("seller", "tasks"), view.by_seller.items(), empty="")
    say(sentence, "green")


def _choice(execution: str | None, seller: str | None, status: TaskStatus | None, type_: TaskType | None) -> TaskFilter:
    execution_id = None if execution is None else ExecutionId.parse(execution)
    return TaskFilter(execution_id, seller_of(seller), status, type_)
