"""A run with its tasks: whatever happens to them, the counters agree with a recount.

"A run that stays RUNNING for ever because one counter was missed."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import MINUTE, NOW, a_failure, a_task, an_execution, worker_id
from tests.machines.moves import QUICK, attempt

from sellerwatch.catalog.changes import FoundProducts
from sellerwatch.crawling.execution import CountsWrong, Execution, ExecutionStatus
from sellerwatch.crawling.task import Task, TaskStatus

PICK = st.integers(0, 1000)


class ExecutionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.run = an_execution()
        self.tasks: list[Task] = []
        self.now = NOW

    def made(self, number: int) -> None:
        self.tasks += [a_task(len(self.tasks) + n + 1) for n in range(number)]

    def indexes(self, *states: TaskStatus) -> list[int]:
        return [n for n, task in enumerate(self.tasks) if task.status in states]

    def has_open_tasks(self) -> bool:
        return any(task.is_open for task in self.tasks)

    def start_of(self, task: Task) -> Task:
        published = task if task.status in (TaskStatus.PUBLISHED, TaskStatus.RETRY) else task.publish(self.now)
        return published.start(worker_id(), self.now)

    @rule()
    def time_passes(self) -> None:
        self.now += MINUTE

    @rule(total=st.integers(0, 3))
    def start(self, total: int) -> None:
        moved = attempt("execution", self.run, self.run.status, "start", lambda e: e.start(total, self.now))
        if moved:
            self.run = moved
            self.made(total)
            assert self.run.status is (ExecutionStatus.RUNNING if total else ExecutionStatus.COMPLETED)

    @rule(counts=st.booleans())
    def the_marketplace_does_not_say_how_many_products_there_are(self, counts: bool) -> None:
        """It waits for its next try; one that was never made for lack of a slot does not count."""
        before = self.run
        if before.status is not ExecutionStatus.PENDING:
            with pytest.raises(CountsWrong, match="it has started"):
                before.wait_to_start(a_failure(), self.now + MINUTE, counts=counts)
            return
        self.run = before.wait_to_start(a_failure(), self.now + MINUTE, counts=counts)
        assert (self.run.start_tries, self.run.failure) == (before.start_tries + counts, a_failure())
        assert self.run.next_start_at == self.now + MINUTE

    @rule()
    def what_has_ended_is_settled_already(self) -> None:
        assert self.run.settle(self.now) == self.run

    @precondition(lambda self: self.run.status is ExecutionStatus.RUNNING or self.indexes(TaskStatus.IN_PROGRESS))
    @rule(pick=PICK, revealed=st.integers(0, 3))
    def a_task_is_done_and_reveals_others(self, pick: int, revealed: int) -> None:
        at = self.indexes(TaskStatus.WAITING, TaskStatus.RETRY, TaskStatus.IN_PROGRESS)
        if not at:
            return
        task = self.tasks[at[pick % len(at)]]
        if not self.run.is_open:
            revealed = 0  # what runs to its end after a cancellation makes no new work
        held = task if task.status is TaskStatus.IN_PROGRESS else self.start_of(task)
        self.tasks[at[pick % len(at)]] = held.complete(self.now)
        self.made(revealed)
        self.run = self.run.record(self.now, added=revealed, completed=1)

    @precondition(lambda self: self.run.status is ExecutionStatus.RUNNING)
    @rule(pick=PICK)
    def a_task_is_started(self, pick: int) -> None:
        at = self.indexes(TaskStatus.WAITING, TaskStatus.RETRY)
        if at:
            self.tasks[at[pick % len(at)]] = self.start_of(self.tasks[at[pick % len(at)]])

    @rule(pick=PICK)
    def a_running_task_fails_and_is_retried_or_counted(self, pick: int) -> None:
        at = self.indexes(TaskStatus.IN_PROGRESS)
        if not at:
            return
        failed = self.tasks[at[pick % len(at)]].fail(a_failure(), self.now)
        if failed.can_retry() and self.run.is_open:
            self.tasks[at[pick % len(at)]] = failed.retry(self.now)
            return
        self.tasks[at[pick % len(at)]] = failed
        self.run = self.run.record(self.now, failed=1)

    @precondition(lambda self: self.run.status is ExecutionStatus.RUNNING)
    @rule(pick=PICK)
    def a_task_fails_with_its_last_try(self, pick: int) -> None:
        """Random failures alone seldom spend all tries."""
        at = self.indexes(TaskStatus.WAITING, TaskStatus.RETRY)
        if at:
            self.tasks[at[pick % len(at)]] = self.start_of(self.tasks[at[pick % len(at)]]).fail(a_failure(), self.now)
            self.run = self.run.record(self.now, failed=1)

    @rule(pick=PICK)
    def a_running_task_is_put_back(self, pick: int) -> None:
        at = self.indexes(TaskStatus.IN_PROGRESS)
        if at and self.run.is_open:
            self.tasks[at[pick % len(at)]] = self.tasks[at[pick % len(at)]].put_back(self.now)

    @rule()
    def the_run_is_cancelled(self) -> None:
        """Waiting tasks are cancelled with it, running ones finish."""
        moved = attempt("execution", self.run, self.run.status, "fail", lambda e: e.fail(a_failure(), self.now))
        if moved is None:
            return
        waiting = self.indexes(TaskStatus.WAITING, TaskStatus.PUBLISHED, TaskStatus.RETRY)
        for n in waiting:
            self.tasks[n] = self.tasks[n].cancel(self.now)
        self.run = moved.record(self.now, failed=len(waiting)) if waiting else moved
        assert self.run.status is ExecutionStatus.FAILED

    @precondition(lambda self: self.indexes(TaskStatus.FAILED))
    @rule(pick=PICK)
    def an_operator_reopens_a_failed_task(self, pick: int) -> None:
        at = self.indexes(TaskStatus.FAILED)
        self.tasks[at[pick % len(at)]] = self.tasks[at[pick % len(at)]].reopen(self.now)
        self.run = self.run.reopen_tasks(1)
        assert self.run.status is ExecutionStatus.RUNNING

    @precondition(lambda self: not self.has_open_tasks())
    @rule()
    def completing_by_hand(self) -> None:
        moved = attempt("execution", self.run, self.run.status, "complete", lambda e: e.complete(self.now))
        assert moved is None, "a run with nothing left to do had not completed"

    @rule(extra=st.integers(1, 3), kind=st.sampled_from(["completed", "failed"]))
    def a_task_counted_twice_is_loud(self, extra: int, kind: str) -> None:
        before = replace(self.run)
        left = self.run.total_tasks_created - self.run.ended
        count: Callable[[Execution], Execution] = (
            (lambda e: e.record(self.now, completed=left + extra))
            if kind == "completed"
            else (lambda e: e.record(self.now, failed=left + extra))
        )
        with pytest.raises(CountsWrong) as refusal:
            count(self.run)
        total = before.total_tasks_created
        never_began = before.started_at is None
        assert refusal.value.problem == ("it is over" if never_began else f"{total + extra} ended of {total}")
        assert self.run == before

    @rule(counts=st.tuples(*[st.integers(0, 1000)] * 4))
    def its_products_are_counted(self, counts: tuple[int, int, int, int]) -> None:
        before, self.run = self.run, self.run.count_products(FoundProducts(*counts))
        run = self.run
        assert (run.new_products, run.changed_products, run.gone_products) == counts[:3]
        assert run.unchanged_products == max(counts[3], before.unchanged_products or 0)
        assert run.status is before.status

    @invariant()
    def the_counters_agree_with_a_recount(self) -> None:
        assert self.run.total_tasks_created == len(self.tasks)
        assert self.run.completed_tasks == len(self.indexes(TaskStatus.COMPLETED))
        assert self.run.failed_tasks == len(self.indexes(TaskStatus.FAILED))

    @invariant()
    def a_run_is_going_exactly_while_a_task_is_open(self) -> None:
        if self.run.status is ExecutionStatus.RUNNING:
            assert self.has_open_tasks()
        if self.run.status is ExecutionStatus.COMPLETED:
            assert not self.has_open_tasks()

    @invariant()
    def the_rates_are_percentages(self) -> None:
        assert 0 <= self.run.progress_rate <= 100
        assert 0 <= self.run.success_rate <= 100
        if self.run.status is ExecutionStatus.COMPLETED and self.tasks:
            assert self.run.progress_rate == 100

    @invariant()
    def only_a_run_that_waits_to_be_started_says_when(self) -> None:
        assert self.run.next_start_at is None or self.run.status is ExecutionStatus.PENDING

    @invariant()
    def a_run_that_goes_or_completed_has_no_failure(self) -> None:
        if self.run.status in (ExecutionStatus.RUNNING, ExecutionStatus.COMPLETED):
            assert self.run.failure is None

    @invariant()
    def it_is_over_if_and_only_if_it_says_when(self) -> None:
        assert (self.run.completed_at is None) == self.run.is_open
        if self.run.status in (ExecutionStatus.RUNNING, ExecutionStatus.COMPLETED) and not self.run.failure:
            assert self.run.started_at is not None


TestExecution = ExecutionMachine.TestCase
TestExecution.settings = QUICK
