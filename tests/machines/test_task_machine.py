"""A task under random verbs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.builders import NOW, a_failure, a_task, worker_id
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.crawling.task import LOST_LEASES, RETRIES, RetriesSpent, Task, TaskStatus
from sellerwatch.kernel.errors import IllegalMove
from sellerwatch.kernel.failure import FailureCode

VERBS = sorted({verb for _, verb in spec.TASK})


class TaskMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.task = a_task()
        self.now = NOW

    def act(self, verb: str, worker: int, error: str) -> Callable[[Task], Task]:
        acts: dict[str, Callable[[Task], Task]] = {
            "publish": lambda t: t.publish(self.now),
            "start": lambda t: t.start(worker_id(worker), self.now),
            "complete": lambda t: t.complete(self.now),
            "fail": lambda t: t.fail(a_failure(FailureCode.INTERNAL, detail=error), self.now),
            "retry": lambda t: t.retry(self.now),
            "put_back": lambda t: t.put_back(self.now),
            "reopen": lambda t: t.reopen(self.now),
            "cancel": lambda t: t.cancel(self.now),
        }
        return acts[verb]

    @rule(seconds=st.integers(0, 7200))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(verb=st.sampled_from(VERBS), worker=st.integers(1, 3), error=st.sampled_from(["503", "x" * 5000]))
    def any_verb(self, verb: str, worker: int, error: str) -> None:
        before = self.task
        try:
            after = attempt("task", before, before.status, verb, self.act(verb, worker, error))
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
        assert after.retry_count == {"retry": before.retry_count + 1, "reopen": 0}.get(verb, before.retry_count)
        assert (after.task_id, after.request_url, after.created_at) == (
            before.task_id,
            before.request_url,
            before.created_at,
        )
        self.task = after

    @rule()
    def the_happy_way(self) -> None:
        """Random verbs alone seldom walk far."""
        if self.task.status in (TaskStatus.WAITING, TaskStatus.RETRY):
            self.task = self.task.publish(self.now).start(worker_id(), self.now)

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
    def only_a_running_task_has_a_worker(self) -> None:
        assert (self.task.worker_id is not None) == (self.task.status is TaskStatus.IN_PROGRESS)

    @invariant()
    def only_a_failed_task_has_a_failure(self) -> None:
        assert (self.task.failure is not None) == (self.task.status is TaskStatus.FAILED)


TestTask = TaskMachine.TestCase
TestTask.settings = QUICK
