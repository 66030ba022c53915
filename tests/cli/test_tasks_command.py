"""`sellerwatch tasks`: single tasks, and trying failed ones again."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.task import TaskNote, TaskStatus
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.ids import SellerId

from .cli_world import NOW, SELLER, CliWorld, execution_id, task_id, task_number
from .conftest import refused

DONE, FAILED, FAILED_TOO, WAITING = (task_id(task_number() + place) for place in range(4))


@pytest.fixture
def world(world: CliWorld) -> CliWorld:
    world.register()
    return world


def test_with_no_tasks_the_list_says_where_they_come_from(world: CliWorld) -> None:
    assert "sellerwatch crawl SELLER_ID" in world.said("tasks", "list")
    assert world.json("tasks", "list") == {"content": [], "next": None, "limit": 20}


def test_tasks_are_listed_newest_first_and_narrowed_by_run_seller_and_state(world: CliWorld) -> None:
    other = SellerId("other")
    world.register(other)
    world.run_of(done=1, failed=2)
    world.run_of(other, number=2, waiting=1)
    foreign = task_id(task_number(2))

    def listed(*options: str) -> list[str]:
        return [task["taskId"] for task in world.json("tasks", "list", *options)["content"]]

    assert listed() == [foreign, FAILED_TOO, FAILED, DONE]
    assert listed("--execution", execution_id()) == [FAILED_TOO, FAILED, DONE]
    assert listed("--seller", other) == [foreign]
    assert listed("--status", "failed", "--limit", "1") == [FAILED_TOO]
    assert "answered 503" in world.said("tasks", "list", "--status", "FAILED")
    assert "All of them: sellerwatch tasks list" in world.said("tasks", "list", "--status", "PUBLISHED")


def test_a_run_or_a_seller_that_is_unknown_is_one_sentence(world: CliWorld) -> None:
    assert "no seller nobody" in refused(world("tasks", "list", "--seller", "nobody"), 1)
    assert execution_id(9) in refused(world("tasks", "list", "--execution", execution_id(9)), 1)


def test_show_has_everything_of_a_task_and_how_to_try_it_again(world: CliWorld) -> None:
    world.run_of(done=1, failed=2)
    shown = world.json("tasks", "show", FAILED)
    assert (shown["status"], shown["requestsMade"]) == ("FAILED", 1)
    assert shown["errorMessage"] == "The marketplace answered 503: an error on its side."
    assert shown["failure"] == {
        "code": "SERVER_ERROR",
        "blame": "MARKETPLACE",
        "facts": {"status": 503},
        "at": stamp(NOW),
    }
    assert (shown["note"], shown["noteCode"]) == (None, None)
    assert shown["requestUrl"].endswith("/detail/top")
    assert f"sellerwatch tasks retry {FAILED}" in world.said("tasks", "show", FAILED)
    assert "retry" not in world.said("tasks", "show", DONE)


def test_errors_and_notes_are_said_in_the_language_of_the_setting(world: CliWorld) -> None:
    world.run_of(done=1, failed=1)

    def noted(tx: Transaction) -> None:
        task = tx.tasks.get(DONE)
        assert task is not None
        tx.tasks.save([structs.replace(task, note=TaskNote.HELD)], NOW)

    world.do(noted)
    shown = world.json("tasks", "show", DONE)
    assert shown["note"] == "Held in quarantine, or until more of the run has been judged."
    assert (shown["noteCode"], shown["errorMessage"], shown["failure"]) == ("HELD", None, None)
    korean = world("tasks", "list", "--json", LANGUAGE="ko")
    failed, held = json.loads(korean.stdout)["content"]
    assert failed["errorMessage"] == "마켓플레이스 응답 503: 서버 오류입니다."
    assert held["note"].startswith("격리되었거나")
    assert "서버 오류입니다" in world("tasks", "show", FAILED, LANGUAGE="ko").stdout


@pytest.mark.parametrize("command", ["show", "retry"])
def test_an_unknown_task_is_one_sentence_and_no_uuid_is_bad_usage(world: CliWorld, command: str) -> None:
    assert refused(world("tasks", command, task_id(9)), 1) == f"There is no task {task_id(9)}."
    assert "UUID" in refused(world("tasks", command, "x"), 2)


def test_retrying_reopens_tasks_and_their_run_each_on_the_trail_with_before_and_after(world: CliWorld) -> None:
    world.run_of(done=1, failed=2)
    answer = world.json("tasks", "retry", FAILED, FAILED_TOO, FAILED)
    assert (answer["done"], answer["refused"], answer["tasks"]) == ([FAILED, FAILED_TOO], [], 2)
    assert world.tasks() == {DONE: TaskStatus.COMPLETED, FAILED: TaskStatus.RETRY, FAILED_TOO: TaskStatus.RETRY}
    run = world.see(lambda tx: tx.executions.get(execution_id()))
    assert run is not None
    assert (run.status, run.failed_tasks) == (ExecutionStatus.RUNNING, 0)
    entries = world.trail()
    assert {(entry.action, entry.subject_id) for entry in entries} == {
        ("task.retry", FAILED),
        ("task.retry", FAILED_TOO),
    }
    first = entries[-1]
    assert first.before == {"status": "FAILED", "failure": "SERVER_ERROR", "executionStatus": "COMPLETED"}
    assert first.after == {"status": "RETRY", "failure": None, "executionStatus": "RUNNING"}


def test_where_some_cannot_be_retried_the_others_are_and_the_exit_code_says_so(world: CliWorld) -> None:
    world.run_of(done=1, failed=2, waiting=1)
    done = world("tasks", "retry", DONE, FAILED, task_id(9))
    assert done.returncode == 3
    assert "1 task is retried" in done.stdout
    not_failed, unknown = done.stderr.splitlines()
    assert not_failed == f"error: The task {DONE} is COMPLETED; to reopen it must be FAILED."
    assert unknown == f"error: There is no task {task_id(9)}."
    assert world.tasks()[FAILED] is TaskStatus.RETRY
    assert [entry.subject_id for entry in world.trail()] == [FAILED]


def test_in_json_what_was_refused_has_its_code_beside_the_sentence(world: CliWorld) -> None:
    world.run_of(done=1, failed=1)
    answer = world.json("tasks", "retry", FAILED, task_id(9), code=3)
    assert answer["done"] == [FAILED]
    assert answer["refused"] == [
        {"id": task_id(9), "errorCode": "TASK_NOT_FOUND", "message": f"There is no task {task_id(9)}."}
    ]


def test_where_none_can_be_retried_the_command_failed_and_nothing_changes(world: CliWorld) -> None:
    world.run_of(done=1, waiting=1)
    before = world.everything()
    assert world("tasks", "retry", DONE, task_id(9)).returncode == 1
    assert "to reopen it must be FAILED" in refused(world("tasks", "retry", DONE), 1)
    assert world.everything() == before


def test_one_id_that_is_none_stops_all_before_anything_is_done(world: CliWorld) -> None:
    world.run_of(done=1, failed=1)
    before = world.everything()
    refused(world("tasks", "retry", FAILED, "x"), 2)
    assert world.everything() == before


def test_a_choice_of_failed_tasks_is_counted_first_and_then_retried(world: CliWorld) -> None:
    other = SellerId("other")
    world.register(other)
    world.run_of(done=1, failed=2)
    world.run_of(other, number=2, failed=1)
    before = world.everything()
    numbers = world.json("tasks", "retry", "--all-failed", "--dry-run")
    assert (numbers["tasks"], numbers["bySeller"], numbers["dryRun"]) == (3, {SELLER: 2, other: 1}, True)
    assert "3 tasks would be retried" in world.said("tasks", "retry", "--all-failed", "--dry-run")
    assert world.everything() == before
    done = world.json("tasks", "retry", "--seller", SELLER)
    assert (done["done"], done["next"]) == ([FAILED_TOO, FAILED], None)
    assert "No failed task matches." in world.said("tasks", "retry", "--seller", SELLER)


@pytest.mark.parametrize("arguments", [(), (FAILED, "--all-failed"), (FAILED, "--seller", SELLER)])
def test_tasks_are_retried_by_ids_or_by_a_choice(world: CliWorld, arguments: tuple[str, ...]) -> None:
    assert world("tasks", "retry", *arguments).returncode == 2
