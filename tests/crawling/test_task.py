"""A task: WAITING, PUBLISHED, IN_PROGRESS, then COMPLETED or FAILED, with two retries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.builders import HOUR, LATER, NOW, a_failure, a_task, task_id, worker_id
from tests.machines import spec

from sellerwatch.crawling.task import RetriesSpent, Task, TaskStatus, TaskType
from sellerwatch.kernel.errors import Conflict, IllegalMove
from sellerwatch.kernel.failure import FailureCode

WAITING, PUBLISHED, IN_PROGRESS = TaskStatus.WAITING, TaskStatus.PUBLISHED, TaskStatus.IN_PROGRESS
COMPLETED, FAILED, RETRY = TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.RETRY

ACTS: dict[str, Callable[[Task], Task]] = {
    "publish": lambda t: t.publish(LATER),
    "start": lambda t: t.start(worker_id(), LATER),
    "complete": lambda t: t.complete(LATER),
    "fail": lambda t: t.fail(a_failure(), LATER),
    "retry": lambda t: t.retry(LATER),
    "put_back": lambda t: t.put_back(LATER),
    "reopen": lambda t: t.reopen(LATER),
    "cancel": lambda t: t.cancel(LATER),
}


def running(**changes: Any) -> Task:
    return a_task(**changes).publish(NOW).start(worker_id(), NOW)


def test_a_new_task_waits() -> None:
    task = a_task(task_type=TaskType.PRODUCT_DETAIL)
    assert (task.status, task.retry_count, task.attempt, task.publish_count) == (WAITING, 0, 0, 0)
    assert task.is_open
    assert (task.published_at, task.started_at, task.completed_at, task.failure) == (None, None, None, None)


def test_publishing_is_stamped_and_counted() -> None:
    task = a_task().publish(LATER)
    assert (task.status, task.published_at, task.publish_count) == (PUBLISHED, LATER, 1)


def test_starting_names_the_worker_and_the_attempt() -> None:
    task = a_task().publish(NOW).start(worker_id(), LATER)
    assert (task.status, task.started_at, task.worker_id, task.attempt) == (IN_PROGRESS, LATER, worker_id(), 1)


def test_publishing_and_starting_in_one_step_is_the_one_and_then_the_other() -> None:
    waiting = a_task()
    assert waiting.publish_and_start(worker_id(), NOW, 7) == waiting.publish(NOW).start(worker_id(), NOW, 7)
    with pytest.raises(IllegalMove):
        waiting.publish(NOW).start(worker_id(), NOW).publish_and_start(worker_id(), NOW)


def test_a_retry_can_be_started_without_being_published_again() -> None:
    task = running().fail(a_failure(), NOW).retry(LATER).start(worker_id(2), LATER)
    assert (task.status, task.attempt) == (IN_PROGRESS, 2)


def test_completing_is_stamped_and_frees_the_worker() -> None:
    task = running(failure=a_failure()).complete(LATER)
    assert (task.status, task.completed_at, task.worker_id, task.failure) == (COMPLETED, LATER, None, None)
    assert not task.is_open


def test_failing_keeps_the_failure() -> None:
    task = running().fail(a_failure(), LATER)
    assert (task.status, task.completed_at, task.worker_id, task.failure) == (FAILED, LATER, None, a_failure())
    assert not task.is_open


def test_a_retry_is_counted_clears_the_error_and_waits_for_its_time() -> None:
    task = running().fail(a_failure(), NOW).retry(LATER)
    assert (task.status, task.retry_count, task.failure) == (RETRY, 1, None)
    assert (task.available_at, task.completed_at) == (LATER, None)
    assert task.is_open


def test_a_third_retry_is_refused() -> None:
    task = running()
    for number in (1, 2):
        failed = task.fail(a_failure(), NOW)
        assert failed.can_retry()
        task = failed.retry(NOW).start(worker_id(), NOW)
        assert task.retry_count == number
    failed = task.fail(a_failure(), NOW)
    assert not failed.can_retry()
    with pytest.raises(RetriesSpent) as refusal:
        failed.retry(NOW)
    assert isinstance(refusal.value, Conflict)
    assert refusal.value.code == "RETRIES_SPENT"
    assert refusal.value.facts == {"task_id": task_id(), "retries": 2}
    assert str(refusal.value) == f"The task {task_id()} has used its 2 retries; an operator can retry it."


@pytest.mark.parametrize(("retries", "may"), [(0, False), (1, True)])
def test_the_number_of_retries_is_a_setting(retries: int, may: bool) -> None:
    failed = running().fail(a_failure(), NOW)
    assert failed.can_retry(retries) is may
    if not may:
        with pytest.raises(RetriesSpent):
            failed.retry(NOW, retries)


def test_a_retry_of_a_task_that_has_not_failed_is_an_illegal_move_even_when_none_are_left() -> None:
    with pytest.raises(IllegalMove):
        running(retry_count=2).retry(NOW)


@pytest.mark.parametrize("task", [a_task(retry_count=1).publish(NOW), running(retry_count=1)])
def test_a_task_put_back_has_lost_nothing(task: Task) -> None:
    back = task.put_back(LATER)
    assert (back.status, back.retry_count, back.available_at, back.worker_id) == (WAITING, 1, LATER, None)
    assert back.lost_leases == 0


def test_a_lease_lost_3_times_running_fails_the_task_as_poison() -> None:
    task = a_task()
    for lost in (1, 2):
        task = task.publish(NOW).start(worker_id(), NOW).lose_lease(LATER)
        assert (task.status, task.lost_leases, task.retry_count, task.worker_id) == (WAITING, lost, 0, None)
    task = task.publish(NOW).start(worker_id(), NOW).lose_lease(LATER)
    assert (task.status, task.completed_at, task.worker_id) == (FAILED, LATER, None)
    assert task.failure is not None
    assert task.failure.code is FailureCode.WORKER_LOST
    assert task.is_final


@pytest.mark.parametrize(
    "end", [lambda t: t.fail(a_failure(), NOW).retry(NOW), lambda t: t.fail(a_failure(), NOW).reopen(NOW)]
)
def test_an_attempt_that_was_answered_starts_the_count_of_lost_leases_again(end: Callable[[Task], Task]) -> None:
    assert end(running(lost_leases=2)).lost_leases == 0


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("status", [WAITING, RETRY, COMPLETED, FAILED])
def test_a_lease_that_nobody_holds_cannot_be_lost(status: TaskStatus, lost: int) -> None:
    with pytest.raises(IllegalMove):
        a_task(status=status, lost_leases=lost).lose_lease(LATER)


def test_a_reopened_task_has_a_fresh_count() -> None:
    failed = running(retry_count=2).fail(a_failure(), NOW)
    again = failed.reopen(LATER)
    assert (again.status, again.retry_count, again.lost_leases) == (RETRY, 0, 0)
    assert (again.failure, again.completed_at, again.available_at) == (None, None, LATER)
    assert not again.is_final


def test_a_reopened_task_may_make_its_requests_again() -> None:
    assert running(requests_made=6).fail(a_failure(), NOW).reopen(LATER).requests_made == 0


def test_each_start_is_a_request_of_this_run() -> None:
    assert running(requests_made=2).requests_made == 3
    assert running(requests_made=2).put_back(LATER, counts=True).requests_made == 3
    assert running(requests_made=2).put_back(LATER).requests_made == 2, "it was not answered for its sake"


def test_what_an_outage_took_is_given_back_with_the_requests_it_answered_by_an_error() -> None:
    # Two 5xx counted as tries and as requests before the circuit opened with the third.
    third = running(retry_count=2, requests_made=3)
    assert (third.excuse(LATER).retry_count, third.excuse(LATER).requests_made) == (0, 1)
    waiting = a_task(status=RETRY, retry_count=2, requests_made=3)
    assert (waiting.give_back(LATER).retry_count, waiting.give_back(LATER).requests_made) == (0, 1)


def test_outages_one_after_the_other_never_use_up_a_tasks_requests() -> None:
    task = a_task()
    for _ in range(10):
        for _ in range(2):
            task = task.publish_and_start(worker_id(), NOW) if task.status is WAITING else task.start(worker_id(), NOW)
            task = task.fail(a_failure(), NOW).retry(LATER)
        task = task.start(worker_id(), LATER).excuse(LATER)
    assert (task.status, task.requests_made) == (WAITING, 0)


def test_a_cancelled_or_poisoned_task_is_not_retried_by_itself() -> None:
    for ended in (running().cancel(NOW), running(lost_leases=2).lose_lease(NOW)):
        assert ended.is_final
        assert not ended.can_retry()
        with pytest.raises(RetriesSpent):
            ended.retry(LATER)
        assert ended.reopen(LATER).start(worker_id(), LATER).fail(a_failure(), LATER).can_retry()


@pytest.mark.parametrize("status", [WAITING, PUBLISHED, IN_PROGRESS, RETRY])
def test_any_unfinished_task_can_be_cancelled(status: TaskStatus) -> None:
    task = a_task(status=status, worker_id=worker_id()).cancel(LATER)
    assert (task.status, task.completed_at, task.worker_id) == (FAILED, LATER, None)
    assert task.failure == a_failure(FailureCode.CANCELLED, LATER)


def test_only_the_worker_that_holds_the_task_at_this_attempt_may_end_it() -> None:
    task = running()
    assert task.is_held_by(worker_id(), 1)
    assert not task.is_held_by(worker_id(2), 1)
    assert not task.is_held_by(worker_id(), 2)
    assert not task.complete(NOW).is_held_by(worker_id(), 1)
    again = task.put_back(NOW).publish(NOW).start(worker_id(), NOW)
    assert not again.is_held_by(worker_id(), 1)
    assert again.is_held_by(worker_id(), 2)


@pytest.mark.parametrize("status", TaskStatus)
@pytest.mark.parametrize("verb", ACTS)
def test_anything_else_is_refused_with_the_state_it_was_in_and_the_states_it_needs(
    status: TaskStatus, verb: str
) -> None:
    task = a_task(status=status)
    if (status.value, verb) in spec.TASK:
        assert ACTS[verb](task).status == spec.TASK[status.value, verb]
        return
    with pytest.raises(IllegalMove) as refusal:
        ACTS[verb](task)
    assert refusal.value.facts["state"] == status
    assert set(refusal.value.needs) == spec.needs(spec.TASK, verb)
    assert str(refusal.value).startswith(f"The task {task_id()} is {status}; to {verb.replace('_', ' ')} it must be ")


def test_the_moment_it_may_start_is_only_moved_by_waiting() -> None:
    task = running()
    assert task.complete(NOW + HOUR).available_at == NOW
    assert task.fail(a_failure(), NOW + HOUR).available_at == NOW
