"""`sellerwatch executions`: how far runs are, what went wrong, ending them and trying again."""

from __future__ import annotations

import pytest
from msgspec import structs
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

from .cli_world import NOW, SELLER, CliWorld, CrawledProducts, execution_id, task_id, task_number
from .conftest import refused

#: What only `show` says of a run.
DETAILS = ("tasks", "errors", "paused", "judged", "changedFields", "unreadable", "foreignItems", "recheckAt")


@pytest.fixture
def world(world: CliWorld) -> CliWorld:
    world.register()
    return world


def test_with_no_runs_the_list_says_how_to_start_one(world: CliWorld) -> None:
    assert "sellerwatch crawl SELLER_ID" in world.said("executions", "list")
    assert f"sellerwatch crawl {SELLER}" in world.said("executions", "list", "--seller", SELLER)
    assert world.json("executions", "list") == {"content": [], "next": None, "limit": 10}


def test_runs_are_listed_newest_first_and_narrowed_by_seller_and_state(world: CliWorld) -> None:
    world.register(SellerId("other"))
    world.run_of(number=1, done=2)
    world.run_of(number=2, waiting=2)
    world.run_of(SellerId("other"), number=3, done=1)

    def listed(*options: str) -> list[str]:
        return [run["executionId"] for run in world.json("executions", "list", *options)["content"]]

    assert listed() == [execution_id(3), execution_id(2), execution_id(1)]
    assert listed("--seller", SELLER) == [execution_id(2), execution_id(1)]
    assert listed("--status", "running") == [execution_id(2)]
    assert listed("--limit", "1") == [execution_id(3)]
    assert "All of them: sellerwatch executions list" in world.said("executions", "list", "--status", "FAILED")


def test_runs_of_an_unknown_seller_are_one_sentence_not_an_empty_list(world: CliWorld) -> None:
    assert "no seller nobody" in refused(world("executions", "list", "--seller", "nobody"), 1)


def test_show_counts_tasks_by_type_and_state_and_errors_by_cause(world: CliWorld) -> None:
    world.run_of(done=4, failed=3, waiting=2, going=1)

    def another_error(tx: Transaction) -> None:
        task = tx.tasks.get(task_id(task_number() + 4))
        assert task is not None
        unreadable = Failure.of(FailureCode.UNREADABLE, NOW, endpoint="detail", problem="EMPTY")
        tx.tasks.save([structs.replace(task, failure=unreadable)], NOW)

    world.do(another_error)
    shown = world.json("executions", "show", execution_id())
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
    said = world.said("executions", "show", execution_id())
    for part in (
        "70.0 % (7 of 10)",
        "57.1 %",
        "answered 503",
        "PARSER",
        f"sellerwatch executions retry {execution_id()}",
    ):
        assert part in said


def test_a_run_that_waits_to_start_says_why_how_often_it_was_tried_and_when_it_is_tried_next(world: CliWorld) -> None:
    wait = Failure.of(FailureCode.UNREACHABLE, NOW, detail="connection refused")

    def waiting(tx: Transaction) -> None:
        schedule = tx.schedules.of_seller(SELLER)
        assert schedule is not None
        run = Execution.create(execution_id(), schedule.schedule_id, SELLER, NOW)
        tx.executions.add(run.wait_to_start(wait, NOW).wait_to_start(wait, NOW + MINUTE))

    world.do(waiting)
    shown = world.json("executions", "show", execution_id())
    assert (shown["status"], shown["startTries"], shown["nextStartAt"]) == ("PENDING", 2, stamp(NOW + MINUTE))
    assert shown["errorMessage"] == "The marketplace cannot be reached (connection refused)."
    assert shown["failure"] == {
        "code": "UNREACHABLE",
        "blame": "MARKETPLACE",
        "facts": {"detail": "connection refused"},
        "at": stamp(NOW),
    }
    assert world.json("executions", "list")["content"] == [
        {name: shown[name] for name in shown if name not in DETAILS} | {"products": None}
    ]
    schedule = world.json("schedules", "show", SELLER)
    assert schedule["nextRunAt"] == schedule["nextStarts"][0] == stamp(NOW + MINUTE)
    said = world.said("executions", "show", execution_id())
    for part in ("start tries", "2026-11-15 06:05:05 UTC", "MARKETPLACE", "connection refused"):
        assert part in said
    assert "(tries: 2, next" in world.said("executions", "list").replace("\n", " ")
    korean = world("executions", "show", execution_id(), LANGUAGE="ko")
    assert "마켓플레이스에 연결할 수 없습니다(connection refused)." in korean.stdout


@pytest.mark.parametrize("command", ["show", "cancel", "retry"])
def test_an_unknown_run_is_one_sentence_and_no_uuid_is_bad_usage(world: CliWorld, command: str) -> None:
    assert refused(world("executions", command, execution_id(9)), 1) == f"There is no execution {execution_id(9)}."
    assert "UUID" in refused(world("executions", command, "run-1"), 2)


def test_cancelling_ends_the_run_and_is_on_the_trail(world: CliWorld) -> None:
    world.run_of(done=1, waiting=2, going=1)
    answer = world.json("executions", "cancel", execution_id(), "--yes")
    assert (answer["status"], answer["cancelledTasks"], answer["tasksInFlight"]) == ("FAILED", 2, 1)
    assert (answer["errorMessage"], answer["failure"]["code"]) == ("Cancelled.", "CANCELLED")
    assert (answer["failure"]["blame"], answer["startTries"], answer["nextStartAt"]) == ("PERSON", 0, None)
    (entry,) = world.trail()
    assert (entry.action, entry.subject_type, entry.subject_id) == ("execution.cancel", "execution", execution_id())
    counts = {"totalTasksCreated": 4, "completedTasks": 1}
    assert entry.before == {"status": "RUNNING", "failedTasks": 0, "failure": None, **counts}
    assert entry.after == {"status": "FAILED", "failedTasks": 2, "failure": "CANCELLED", **counts}
    assert world.see(lambda tx: tx.executions.open_of(SELLER)) is None


def test_cancelling_asks_first_and_no_answer_is_no(world: CliWorld) -> None:
    world.run_of(done=1, waiting=1)
    before = world.everything()
    done = world("executions", "cancel", execution_id(), "--json")
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert "50 % done" in done.stderr
    assert world.everything() == before


def test_a_run_that_is_over_cannot_be_cancelled_and_nothing_changes(world: CliWorld) -> None:
    world.run_of(done=1)
    before = world.everything()
    assert "already COMPLETED" in refused(world("executions", "cancel", execution_id()), 1)
    assert world.everything() == before


def test_a_product_whose_last_task_is_cancelled_is_announced_as_far_as_it_is_known(world: CliWorld) -> None:
    world.run_of(waiting=1)
    shop = Simulator(seed="0", sellers=1, products=1).world
    (item_no,) = shop.listing(next(iter(shop.sellers)))
    made = shop.product(item_no)
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

    world.do(crawled)
    world.said("executions", "cancel", execution_id(), "--yes")
    (event,) = world.json("outbox", "list")["content"]
    assert (event["eventType"], event["itemNo"], event["version"]) == ("PRODUCT_CREATED", item_no, 1)


def test_retrying_reopens_every_failed_task_with_a_new_deadline_and_is_on_the_trail(world: CliWorld) -> None:
    world.run_of(done=2, failed=3)
    answer = world.json("executions", "retry", execution_id())
    assert (answer["status"], answer["reopenedTasks"], answer["failedTasks"]) == ("RUNNING", 3, 0)
    assert answer["deadlineAt"] is not None
    assert sorted(world.tasks().values()) == [TaskStatus.COMPLETED] * 2 + [TaskStatus.RETRY] * 3
    (entry,) = world.trail()
    assert (entry.action, entry.note) == ("execution.retry", "3 failed task(s) reopened")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["status"], entry.before["failedTasks"]) == ("COMPLETED", 3)
    assert (entry.after["status"], entry.after["failedTasks"]) == ("RUNNING", 0)
    ready = world.see(lambda tx: tx.task_claims.ready(execution_id(), StoppedClock(NOW.replace(year=9999)).now(), 10))
    assert len(ready) == 3


def test_a_run_without_failed_tasks_has_nothing_to_retry(world: CliWorld) -> None:
    world.run_of(done=2)
    before = world.everything()
    assert "nothing to retry" in refused(world("executions", "retry", execution_id()), 1)
    assert world.everything() == before


def test_a_cancelled_run_can_be_taken_up_again(world: CliWorld) -> None:
    world.run_of(done=1, waiting=2)
    world.said("executions", "cancel", execution_id(), "--yes")
    assert "2 failed tasks are retried" in world.said("executions", "retry", execution_id())
    run = world.see(lambda tx: tx.executions.open_of(SELLER))
    assert run is not None
    assert (run.status, run.failed_tasks, run.failure) == (ExecutionStatus.RUNNING, 0, None)


@pytest.mark.parametrize(("command", "counted"), [("cancel", "cancelledTasks"), ("retry", "reopenedTasks")])
def test_a_dry_run_says_in_numbers_what_would_happen_and_changes_nothing(
    world: CliWorld, command: str, counted: str
) -> None:
    world.run_of(done=1, failed=2, waiting=2)
    before = world.everything()
    answer = world.json("executions", command, execution_id(), "--dry-run")
    assert (answer["dryRun"], answer[counted], answer["status"]) == (True, 2, "RUNNING")
    assert "Nothing was changed" in world.said("executions", command, execution_id(), "--dry-run")
    assert world.everything() == before


def test_a_list_goes_on_behind_its_cursor(world: CliWorld) -> None:
    for number in (1, 2, 3):
        world.run_of(number=number, done=1)
    page = world.json("executions", "list", "--limit", "2")
    rest = world.json("executions", "list", "--limit", "2", "--cursor", page["next"])
    assert [run["executionId"] for run in rest["content"]] == [execution_id(1)]
    assert rest["next"] is None
    assert f"--cursor {page['next']}" in world.said("executions", "list", "--limit", "2")


def test_runs_are_shown_in_korean(world: CliWorld) -> None:
    world.run_of(done=1, failed=1, waiting=1)
    listed = world("executions", "list", LANGUAGE="ko").stdout
    shown = world("executions", "show", execution_id(), LANGUAGE="ko").stdout
    assert "판매자" in listed
    assert "3건 중 2건" in shown
    assert "다시 시도하려면" in shown


def test_the_progress_of_a_run_is_shown_step_by_step(world: CliWorld) -> None:
    run = world.run_of()
    assert "No progress is kept" in world.said("executions", "progress", run.execution_id)
    counts = {"completedTasks": 3, "failedTasks": 1, "totalTasks": 8}
    step = Activity(NOW, "execution.progress", "execution", run.execution_id, counts)
    world.do(lambda tx: tx.activity.add(step))
    assert world.json("executions", "progress", run.execution_id)["content"] == [{"at": stamp(NOW), **counts}]
    assert "50 %" in world.said("executions", "progress", run.execution_id)
    assert "execution" in refused(world("executions", "progress", execution_id(99)), 1)


def test_a_run_counts_every_field_that_changed_prices_and_stock_too(world: CliWorld) -> None:
    products = CrawledProducts(world)
    products.crawl()
    products.change(products.items[0], stock=77)
    run = products.crawl()
    found = {(each["field"], each["products"]) for each in world.json("executions", "show", run)["changedFields"]}
    assert ("stock", 1) in found
    assert "stock" in world.said("executions", "show", run)
