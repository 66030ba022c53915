"""One run of one seller: its counters, its end, its rates."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.builders import LATER, NOW, SELLER, a_failure, an_execution, execution_id, schedule_id
from tests.machines import spec

from sellerwatch.crawling.execution import CountsWrong, CrawlInProgress, Execution, ExecutionStatus
from sellerwatch.kernel.errors import Conflict, IllegalMove

PENDING, RUNNING = ExecutionStatus.PENDING, ExecutionStatus.RUNNING
COMPLETED, FAILED = ExecutionStatus.COMPLETED, ExecutionStatus.FAILED

ACTS: dict[str, Callable[[Execution], Execution]] = {
    "start": lambda e: e.start(2, LATER),
    "complete": lambda e: e.complete(LATER),
    "fail": lambda e: e.fail(a_failure(), LATER),
}


def running(total: int = 2) -> Execution:
    return an_execution().start(total, NOW)


def test_a_new_execution_is_pending() -> None:
    execution = Execution.create(execution_id(), schedule_id(), SELLER, NOW)
    assert (execution.status, execution.created_at, execution.started_at, execution.completed_at) == (
        PENDING,
        NOW,
        None,
        None,
    )
    assert execution.is_open
    assert (execution.progress_rate, execution.success_rate) == (0, 0)


def test_starting_is_stamped_and_counts_its_tasks() -> None:
    execution = an_execution().start(3, LATER)
    assert (execution.status, execution.total_tasks_created, execution.started_at) == (RUNNING, 3, LATER)
    assert execution.completed_at is None


def test_an_empty_seller_completes_at_once() -> None:
    execution = an_execution().start(0, LATER)
    assert (execution.status, execution.started_at, execution.completed_at) == (COMPLETED, LATER, LATER)
    assert (execution.progress_rate, execution.success_rate) == (0, 0)


def test_list_pages_reveal_more_tasks() -> None:
    assert running(1).record(NOW, added=1000).total_tasks_created == 1001


def test_a_run_is_over_when_completed_and_failed_make_the_total_failures_or_not() -> None:
    execution = running(2).record(NOW, completed=1)
    assert execution.status is RUNNING
    over = execution.record(LATER, failed=1)
    assert (over.status, over.completed_at, over.completed_tasks, over.failed_tasks) == (COMPLETED, LATER, 1, 1)
    assert not over.is_open


def test_a_run_whose_every_task_failed_is_completed_all_the_same() -> None:
    assert running(1).record(NOW, failed=1).status is COMPLETED


def test_a_page_that_ends_and_reveals_tasks_in_one_sum_does_not_end_the_run() -> None:
    execution = running(1).record(NOW, added=2, completed=1)
    assert (execution.status, execution.total_tasks_created, execution.ended) == (RUNNING, 3, 1)


def test_a_group_of_results_is_one_sum() -> None:
    assert running(10).record(NOW, completed=7, failed=3) == running(10).record(NOW, failed=3).record(NOW, completed=7)


@pytest.mark.parametrize(
    ("total", "completed", "failed", "progress", "success"),
    [
        (4, 0, 0, 0, 0),
        (4, 1, 0, 25, 100),
        (4, 1, 1, 50, 50),
        (4, 0, 2, 50, 0),
        (4, 3, 1, 100, 75),
        (3, 1, 0, 33.3333, 100),
    ],
)
def test_the_rates_are_over_all_and_over_what_is_finished(
    total: int, completed: int, failed: int, progress: float, success: float
) -> None:
    execution = running(total).record(NOW, completed=completed, failed=failed)
    assert execution.progress_rate == pytest.approx(progress, abs=1e-3)
    assert execution.success_rate == pytest.approx(success)


@pytest.mark.parametrize("extra", [{"completed": 3}, {"failed": 3}, {"completed": 2, "failed": 1}])
def test_more_ends_than_tasks_are_loud(extra: dict[str, int]) -> None:
    with pytest.raises(CountsWrong) as refusal:
        running(2).record(NOW, **extra)
    assert isinstance(refusal.value, Conflict)
    assert refusal.value.code == "COUNTS_WRONG"
    assert refusal.value.facts == {"execution_id": execution_id(), "problem": "3 ended of 2"}
    assert str(refusal.value) == f"The counts of execution {execution_id()} would be wrong: 3 ended of 2."


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        pytest.param(lambda: running(2).complete(LATER), "tasks of it are open", id="complete-with-open-tasks"),
        pytest.param(lambda: an_execution().record(LATER, added=1), "it is over", id="add-to-pending"),
        pytest.param(lambda: running(0).record(LATER, added=1), "it is over", id="add-to-completed"),
        pytest.param(
            lambda: running(1).fail(a_failure(), NOW).record(LATER, added=1), "it is over", id="add-to-cancelled"
        ),
        pytest.param(
            lambda: running(1).record(NOW, failed=1).reopen_tasks(2),
            "2 tasks cannot be reopened of 1 failed",
            id="reopen-more",
        ),
        pytest.param(
            lambda: running(1).record(NOW, failed=1).reopen_tasks(0),
            "0 tasks cannot be reopened of 1 failed",
            id="reopen-none",
        ),
        pytest.param(lambda: an_execution().start(-1, NOW), "it cannot start with -1 tasks", id="start-with-less"),
        pytest.param(
            lambda: running(2).record(NOW, completed=-1), "tasks are added and ended, never taken back", id="count-down"
        ),
        pytest.param(
            lambda: running(2).record(NOW, added=-1), "tasks are added and ended, never taken back", id="take-back"
        ),
    ],
)
def test_counters_that_would_lie_are_refused(act: Callable[[], Execution], problem: str) -> None:
    with pytest.raises(CountsWrong) as refusal:
        act()
    assert refusal.value.facts == {"execution_id": execution_id(), "problem": problem}


def test_a_run_for_which_no_task_could_be_made_fails_from_pending() -> None:
    execution = an_execution().fail(a_failure(), LATER)
    assert (execution.status, execution.completed_at, execution.started_at) == (FAILED, LATER, None)
    assert execution.failure == a_failure()


def test_a_cancelled_run_fails_and_still_counts_the_tasks_that_end_after_it() -> None:
    execution = running(3).record(NOW, completed=1).fail(a_failure(), LATER).record(LATER, completed=1, failed=1)
    assert (execution.status, execution.completed_at) == (FAILED, LATER)
    assert (execution.completed_tasks, execution.failed_tasks) == (2, 1)


def test_a_run_whose_tasks_have_all_ended_can_be_completed_by_hand() -> None:
    stuck = an_execution(status=RUNNING, total_tasks_created=1, completed_tasks=1)
    assert stuck.complete(LATER).completed_at == LATER
    assert stuck.settle(LATER).status is COMPLETED


def test_settling_a_run_with_open_tasks_does_nothing() -> None:
    assert running(2).settle(LATER) == running(2)


@pytest.mark.parametrize(
    "ended", [running(1).record(NOW, failed=1), running(1).fail(a_failure(), NOW).record(NOW, failed=1)]
)
def test_reopening_a_task_of_a_finished_run_sets_it_running_again(ended: Execution) -> None:
    again = ended.reopen_tasks(1)
    assert (again.status, again.failed_tasks, again.completed_at, again.failure) == (RUNNING, 0, None, None)
    assert again.record(LATER, completed=1).status is COMPLETED


def test_a_run_that_is_running_again_has_no_deadline_any_more() -> None:
    # It lies in the past: the run would fail at once for what an operator asked for.
    ended = an_execution(deadline_at=LATER).start(1, NOW).record(NOW, failed=1)
    assert ended.reopen_tasks(1).deadline_at is None


def test_reopening_a_task_of_a_running_run_only_counts_it_back() -> None:
    again = running(2).record(NOW, failed=1).reopen_tasks(1)
    assert (again.status, again.failed_tasks) == (RUNNING, 0)


@pytest.mark.parametrize("status", ExecutionStatus)
@pytest.mark.parametrize("verb", ACTS)
def test_a_verb_the_specification_does_not_know_in_a_state_is_refused(status: ExecutionStatus, verb: str) -> None:
    execution = an_execution(status=status)
    if (status.value, verb) in spec.EXECUTION:
        assert ACTS[verb](execution).status == spec.EXECUTION[status.value, verb]
        return
    with pytest.raises(IllegalMove) as refusal:
        ACTS[verb](execution)
    assert (refusal.value.noun, refusal.value.name, refusal.value.state) == ("execution", execution_id(), status)
    assert set(refusal.value.needs) == spec.needs(spec.EXECUTION, verb)


@pytest.mark.parametrize(
    ("execution", "added", "completed", "failed", "ends"),
    [
        (running(2), 0, 1, 1, True),
        (running(2), 0, 2, 0, True),
        (running(2), 0, 1, 0, False),
        (running(1), 1, 1, 0, False),
        (running(1).fail(a_failure(), NOW), 0, 1, 0, False),
    ],
)
def test_a_run_knows_beforehand_whether_a_sum_would_end_it(
    execution: Execution, added: int, completed: int, failed: int, ends: bool
) -> None:
    assert execution.would_end(added=added, completed=completed, failed=failed) is ends
    recorded = execution.record(NOW, added=added, completed=completed, failed=failed)
    assert (execution.is_open and not recorded.is_open) is ends


def test_a_seller_has_at_most_one_run_going_and_the_caller_is_told_which() -> None:
    error = CrawlInProgress(seller_id=SELLER, execution_id=execution_id())
    assert isinstance(error, Conflict)
    assert error.code == "CRAWL_IN_PROGRESS"
    assert str(error) == f"The seller {SELLER} is already being crawled, by execution {execution_id()}."
