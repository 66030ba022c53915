"""`sellerwatch executions`: how far runs are, what went wrong, ending them and trying again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import MINUTE, StoppedClock, a_complete_product, a_task

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.ports import RawPart
from sellerwatch.catalog.product import PartType
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.task import TaskStatus, TaskType
from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.marketplaces.mustit.parse import read_list
from sellerwatch.simulator.rendering import Renderer
from sellerwatch.simulator.simulator import Simulator

from .cli_world import NOW, SELLER, CliWorld, execution_id, task_id, task_number
from .conftest import refused

#: What only `show` says of a run.
DETAILS = ("tasks", "errors", "paused", "judged", "changedFields", "unreadable", "foreignItems", "recheckAt")


@pytest.fixture
def office(office: CliWorld) -> CliWorld:
    office.register()
    return office


def test_with_no_runs_the_list_says_how_to_start_one(office: CliWorld) -> None:
    assert "sellerwatch crawl SELLER_ID" in office.said("executions", "list")
    assert f"sellerwatch crawl {SELLER}" in office.said("executions", "list", "--seller", SELLER)
    assert office.json("executions", "list") == {"content": [], "next": None, "limit": 10}


def test_runs_are_listed_newest_first_and_narrowed_by_seller_and_state(office: CliWorld) -> None:
    office.register(SellerId("other"))
    office.run_of(number=1, done=2)
    office.run_of(number=2, waiting=2)
    office.run_of(SellerId("other"), number=3, done=1)

    def listed(*options: str) -> list[str]:
        return [run["executionId"] for run in office.json("executions", "list", *options)["content"]]

    assert listed() == [execution_id(3), execution_id(2), execution_id(1)]
    assert listed("--seller", SELLER) == [execution_id(2), execution_id(1)]
    assert listed("--status", "running") == [execution_id(2)]
    assert listed("--limit", "1") == [execution_id(3)]
    assert "All of them: sellerwatch executions list" in office.said("executions", "list", "--status", "FAILED")


def test_runs_of_an_unknown_seller_are_one_sentence_not_an_empty_list(office: CliWorld) -> None:
    assert "no seller nobody" in refused(office("executions", "list", "--seller", "nobody"), 1)


def test_show_counts_tasks_by_type_and_state_and_errors_by_cause(office: CliWorld) -> None:
    office.run_of(done=4, failed=3, waiting=2, going=1)

    def another_error(tx: Transaction) -> None:
        task = tx.tasks.get(task_id(task_number() + 4))
        assert task is not None
        unreadable = Failure.of(FailureCode.UNREADABLE, NOW, endpoint="detail", problem="EMPTY")
        tx.tasks.save([replace(task, failure=unreadable)], NOW)

    office.do(another_error)
    shown = office.json("executions", "show", execution_id())
    assert (shown["status"], shown["progressRate"], shown["successRate"]) == ("RUNNING", 70.0, 57.14)
    assert shown["tasks"] == {"PRODUCT_DETAIL": {"COMPLETED": 4, "FAILED": 3, "IN_PROGRESS": 1, "WAITING": 2}}
    assert shown["errors"] == [
        {
            "code": "SERVER_ERROR",
            "blame": "MARKETPLACE",
            "message": "The marketplace answered 503: an error on its side.",
            "count": 2,
        },
        {
            "code": "UNREADABLE",
            "blame": "PARSER",
            "message": "The detail answer cannot be read: not JSON (it is empty).",
            "count": 1,
        },
    ]
    said = office.said("executions", "show", execution_id())
    for part in (
        "70.0 % (7 of 10)",
        "57.1 %",
        "answered 503",
        "PARSER",
        f"sellerwatch executions retry {execution_id()}",
    ):
        assert part in said


def test_a_run_that_waits_to_start_says_why_how_often_it_was_tried_and_when_it_is_tried_next(office: CliWorld) -> None:
    wait = Failure.of(FailureCode.UNREACHABLE, NOW, detail="connection refused")

    def waiting(tx: Transaction) -> None:
        schedule = tx.schedules.of_seller(SELLER)
        assert schedule is not None
        run = Execution.create(execution_id(), schedule.schedule_id, SELLER, NOW)
        tx.executions.add(run.wait_to_start(wait, NOW).wait_to_start(wait, NOW + MINUTE))

    office.do(waiting)
    shown = office.json("executions", "show", execution_id())
    assert (shown["status"], shown["startTries"], shown["nextStartAt"]) == ("PENDING", 2, stamp(NOW + MINUTE))
    assert shown["errorMessage"] == "The marketplace cannot be reached (connection refused)."
    assert shown["failure"] == {
        "code": "UNREACHABLE",
        "blame": "MARKETPLACE",
        "facts": {"detail": "connection refused"},
        "at": stamp(NOW),
    }
    assert office.json("executions", "list")["content"] == [
        {name: shown[name] for name in shown if name not in DETAILS} | {"products": None}
    ]
    schedule = office.json("schedules", "show", SELLER)
    assert schedule["nextRunAt"] == schedule["nextStarts"][0] == stamp(NOW + MINUTE)
    said = office.said("executions", "show", execution_id())
    for part in ("start tries", "2026-11-15 06:05:05 UTC", "MARKETPLACE", "connection refused"):
        assert part in said
    assert "(tries: 2, next" in office.said("executions", "list").replace("\n", " ")
    korean = office("executions", "show", execution_id(), LANGUAGE="ko")
    assert "마켓플레이스에 연결할 수 없습니다(connection refused)." in korean.stdout


@pytest.mark.parametrize("command", ["show", "cancel", "retry"])
def test_an_unknown_run_is_one_sentence_and_no_uuid_is_bad_usage(office: CliWorld, command: str) -> None:
    assert refused(office("executions", command, execution_id(9)), 1) == f"There is no execution {execution_id(9)}."
    assert "UUID" in refused(office("executions", command, "run-1"), 2)


def test_cancelling_ends_the_run_and_is_on_the_trail(office: CliWorld) -> None:
    office.run_of(done=1, waiting=2, going=1)
    answer = office.json("executions", "cancel", execution_id(), "--yes")
    assert (answer["status"], answer["cancelledTasks"], answer["tasksInFlight"]) == ("FAILED", 2, 1)
    assert (answer["errorMessage"], answer["failure"]["code"]) == ("Cancelled.", "CANCELLED")
    assert (answer["failure"]["blame"], answer["startTries"], answer["nextStartAt"]) == ("PERSON", 0, None)
    (entry,) = office.trail()
    assert (entry.action, entry.subject_type, entry.subject_id) == ("execution.cancel", "execution", execution_id())
    counts = {"totalTasksCreated": 4, "completedTasks": 1}
    assert entry.before == {"status": "RUNNING", "failedTasks": 0, "failure": None, **counts}
    assert entry.after == {"status": "FAILED", "failedTasks": 2, "failure": "CANCELLED", **counts}
    assert office.see(lambda tx: tx.executions.open_of(SELLER)) is None


def test_cancelling_asks_first_and_no_answer_is_no(office: CliWorld) -> None:
    office.run_of(done=1, waiting=1)
    before = office.everything()
    done = office("executions", "cancel", execution_id(), "--json")
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert "50 % done" in done.stderr
    assert office.everything() == before


def test_a_run_that_is_over_cannot_be_cancelled_and_nothing_changes(office: CliWorld) -> None:
    office.run_of(done=1)
    before = office.everything()
    assert "already COMPLETED" in refused(office("executions", "cancel", execution_id()), 1)
    assert office.everything() == before


def test_a_product_whose_last_task_is_cancelled_is_announced_as_far_as_it_is_known(office: CliWorld) -> None:
    office.run_of(waiting=1)
    world = Simulator(seed="0", sellers=1, products=1).world
    (item_no,) = world.listing(next(iter(world.sellers)))
    made = world.product(item_no)
    assert made is not None
    renderer = Renderer()
    bodies = {
        PartType.MINISHOP: read_list(renderer.list_page(1, [made]), 500).entries[0].raw,
        PartType.DETAIL: renderer.detail(made),
        PartType.OPTION: renderer.options(made),
    }
    product = a_complete_product(item_no=ItemNo(item_no), version=0, is_changed=True)
    option = a_task(7, TaskType.PRODUCT_OPTION, item_no=ItemNo(item_no), execution_id=execution_id())

    def crawled(tx: Transaction) -> None:
        tx.products.add([product])
        tx.bodies.keep_raw([RawPart(product.product_id, part, "", body, NOW) for part, body in bodies.items()])
        tx.tasks.add([option])
        run = tx.executions.get(execution_id())
        assert run is not None
        tx.executions.save(run.record(NOW, added=1))

    office.do(crawled)
    office.said("executions", "cancel", execution_id(), "--yes")
    (event,) = office.json("outbox", "list")["content"]
    assert (event["eventType"], event["itemNo"], event["version"]) == ("PRODUCT_CREATED", item_no, 1)


def test_retrying_reopens_every_failed_task_with_a_new_deadline_and_is_on_the_trail(office: CliWorld) -> None:
    office.run_of(done=2, failed=3)
    answer = office.json("executions", "retry", execution_id())
    assert (answer["status"], answer["reopenedTasks"], answer["failedTasks"]) == ("RUNNING", 3, 0)
    assert answer["deadlineAt"] is not None
    assert sorted(office.tasks().values()) == [TaskStatus.COMPLETED] * 2 + [TaskStatus.RETRY] * 3
    (entry,) = office.trail()
    assert (entry.action, entry.note) == ("execution.retry", "3 failed task(s) reopened")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["status"], entry.before["failedTasks"]) == ("COMPLETED", 3)
    assert (entry.after["status"], entry.after["failedTasks"]) == ("RUNNING", 0)
    ready = office.see(lambda tx: tx.task_claims.ready(execution_id(), StoppedClock(NOW.replace(year=9999)).now(), 10))
    assert len(ready) == 3


def test_a_run_without_failed_tasks_has_nothing_to_retry(office: CliWorld) -> None:
    office.run_of(done=2)
    before = office.everything()
    assert "nothing to retry" in refused(office("executions", "retry", execution_id()), 1)
    assert office.everything() == before


def test_a_cancelled_run_can_be_taken_up_again(office: CliWorld) -> None:
    office.run_of(done=1, waiting=2)
    office.said("executions", "cancel", execution_id(), "--yes")
    assert "2 failed tasks are retried" in office.said("executions", "retry", execution_id())
    run = office.see(lambda tx: tx.executions.open_of(SELLER))
    assert run is not None
    assert (run.status, run.failed_tasks, run.failure) == (ExecutionStatus.RUNNING, 0, None)


@pytest.mark.parametrize(("command", "counted"), [("cancel", "cancelledTasks"), ("retry", "reopenedTasks")])
def test_a_dry_run_says_in_numbers_what_would_happen_and_changes_nothing(
    office: CliWorld, command: str, counted: str
) -> None:
    office.run_of(done=1, failed=2, waiting=2)
    before = office.everything()
    answer = office.json("executions", command, execution_id(), "--dry-run")
    assert (answer["dryRun"], answer[counted], answer["status"]) == (True, 2, "RUNNING")
    assert "Nothing was changed" in office.said("executions", command, execution_id(), "--dry-run")
    assert office.everything() == before


def test_a_list_goes_on_behind_its_cursor(office: CliWorld) -> None:
    for number in (1, 2, 3):
        office.run_of(number=number, done=1)
    page = office.json("executions", "list", "--limit", "2")
    rest = office.json("executions", "list", "--limit", "2", "--cursor", page["next"])
    assert [run["executionId"] for run in rest["content"]] == [execution_id(1)]
    assert rest["next"] is None
    assert f"--cursor {page['next']}" in office.said("executions", "list", "--limit", "2")


def test_runs_are_shown_in_korean(office: CliWorld) -> None:
    office.run_of(done=1, failed=1, waiting=1)
    listed = office("executions", "list", LANGUAGE="ko").stdout
    shown = office("executions", "show", execution_id(), LANGUAGE="ko").stdout
    assert "판매자" in listed
    assert "3건 중 2건" in shown
    assert "다시 시도하려면" in shown


def test_the_progress_of_a_run_is_shown_step_by_step(office: CliWorld) -> None:
    run = office.run_of()
    assert "No progress is kept" in office.said("executions", "progress", run.execution_id)
    counts = {"completedTasks": 3, "failedTasks": 1, "totalTasks": 8}
    step = Activity(NOW, "execution.progress", "execution", run.execution_id, counts)
    office.do(lambda tx: tx.activity.add(step))
    assert office.json("executions", "progress", run.execution_id)["content"] == [{"at": stamp(NOW), **counts}]
    assert "50 %" in office.said("executions", "progress", run.execution_id)
    assert "execution" in refused(office("executions", "progress", execution_id(99)), 1)
