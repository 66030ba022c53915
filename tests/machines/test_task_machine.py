"""A task under random verbs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import NOW, a_failure, a_task, worker_id
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.crawling.task import LOST_LEASES, RETRIES, RetriesSpent, Task, TaskStatus
from sellerwatch.kernel.errors import IllegalMove
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import WorkerId

WORKERS = st.sampled_from([None, worker_id(1), worker_id(2)])
VERBS = sorted({verb for _, verb in spec.TASK})


class TaskMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.task = a_task()
        self.now = NOW

    def act(self, verb: str, worker: WorkerId | None, error: str, flag: bool) -> Callable[[Task], Task]:
        failure = a_failure(FailureCode.INTERNAL, detail=error)
        acts: dict[str, Callable[[Task], Task]] = {
            # To a queue by the worker that sends the message; without one by the claim itself.
            "publish": lambda t: t.publish(self.now, worker),
            "start": lambda t: t.start(worker or worker_id(), self.now, agent_row=7),
            "complete": lambda t: t.complete(self.now),
            "fail": lambda t: t.fail(failure, self.now),
            "retry": lambda t: t.retry(self.now, RETRIES),
            "put_back": lambda t: t.put_back(self.now, counts=flag),
            "reopen": lambda t: t.reopen(self.now),
            "cancel": lambda t: t.cancel(self.now, failure if flag else None),
        }
        return acts[verb]

    @rule(seconds=st.integers(0, 7200))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(verb=st.sampled_from(VERBS), worker=WORKERS, error=st.sampled_from(["503", "x" * 5000]), flag=st.booleans())
    def any_verb(self, verb: str, worker: WorkerId | None, error: str, flag: bool) -> None:
        before = self.task
        try:
            after = attempt("task", before, before.status, verb, self.act(verb, worker, error, flag))
        except RetriesSpent:
            assert (verb, before.status) == ("retry", TaskStatus.FAILED)
            assert before.is_final or before.retry_count == RETRIES
            return
        if after is None:
            return
        assert after.status == spec.TASK[before.status, verb]
        assert after.attempt == before.attempt + (verb == "start")
        assert after.publish_count == before.publish_count + (verb == "publish")
        assert verb != "retry" or not before.is_final, "a task that failed for good was retried"
        asked = before.status is TaskStatus.IN_PROGRESS and not flag
        made = {"start": before.requests_made + 1, "put_back": before.requests_made - asked, "reopen": 0}
        assert after.requests_made == max(0, made.get(verb, before.requests_made))
        assert after.retry_count == {"retry": before.retry_count + 1, "reopen": 0}.get(verb, before.retry_count)
        assert (after.task_id, after.request_url, after.created_at) == (
            before.task_id,
            before.request_url,
            before.created_at,
        )
        self.task = after

    @rule(worker=st.integers(1, 3))
    def it_is_claimed_without_a_queue(self, worker: int) -> None:
        before = self.task
        try:
            self.task = before.publish_and_start(worker_id(worker), self.now, agent_row=8)
        except IllegalMove:
            assert before.status not in (TaskStatus.WAITING, TaskStatus.RETRY)
            return
        assert self.task == before.publish(self.now).start(worker_id(worker), self.now, agent_row=8)

    @rule()
    def the_marketplace_was_down(self) -> None:
        before = self.task
        try:
            self.task = before.excuse(self.now)
        except IllegalMove:
            assert before.status not in (TaskStatus.PUBLISHED, TaskStatus.IN_PROGRESS)
            return
        assert (self.task.status, self.task.retry_count) == (TaskStatus.WAITING, 0)
        assert self.task.requests_made <= before.requests_made

    @precondition(lambda self: self.task.status is not TaskStatus.COMPLETED)
    @rule()
    def its_failures_turn_out_to_be_the_marketplaces(self) -> None:
        before = self.task
        self.task = before.give_back(self.now)
        assert self.task.retry_count == 0
        assert self.task.is_open
        assert self.task.status is (TaskStatus.RETRY if before.status is TaskStatus.FAILED else before.status)

    @rule()
    def its_worker_vanishes(self) -> None:
        before = self.task
        held = before.status in (TaskStatus.PUBLISHED, TaskStatus.IN_PROGRESS)
        try:
            self.task = before.lose_lease(self.now)
        except IllegalMove:
            assert not held
            return
        assert held
        poisoned = before.lost_leases + 1 == LOST_LEASES
        assert self.task.status is (TaskStatus.FAILED if poisoned else TaskStatus.WAITING)
        assert self.task.is_final == poisoned
        assert self.task.retry_count == before.retry_count

    @invariant()
    def retries_stay_within_their_limit(self) -> None:
        assert 0 <= self.task.retry_count <= RETRIES
        assert 0 <= self.task.lost_leases < LOST_LEASES

    @invariant()
    def only_a_failed_task_has_failed_for_good(self) -> None:
        assert not self.task.is_final or self.task.status is TaskStatus.FAILED
        assert not (self.task.is_final and self.task.can_retry())

    @invariant()
    def it_has_ended_if_and_only_if_it_says_when(self) -> None:
        assert (self.task.completed_at is None) == self.task.is_open

    @invariant()
    def a_running_task_has_a_worker_and_no_other_but_one_whose_message_is_being_sent(self) -> None:
        if self.task.status is TaskStatus.IN_PROGRESS:
            assert self.task.worker_id is not None
        elif self.task.status is not TaskStatus.PUBLISHED:
            assert self.task.worker_id is None

    @invariant()
    def only_its_own_worker_at_this_attempt_may_end_it(self) -> None:
        holder = self.task.worker_id or worker_id()
        is_running = self.task.status is TaskStatus.IN_PROGRESS
        assert self.task.is_held_by(holder, self.task.attempt) == is_running
        assert not self.task.is_held_by(holder, self.task.attempt - 1)
        assert not self.task.is_held_by(worker_id(99), self.task.attempt)

    @invariant()
    def only_a_failed_task_has_a_failure(self) -> None:
        assert (self.task.failure is not None) == (self.task.status is TaskStatus.FAILED)


TestTask = TaskMachine.TestCase
TestTask.settings = QUICK
