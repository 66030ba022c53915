"""A crawl task: one request of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from msgspec import Struct, structs

from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.kernel.errors import Conflict, Invalid, NotFound
from sellerwatch.kernel.failure import Blame, Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, ItemNo, PlainText, SellerId, TaskId, WorkerId
from sellerwatch.kernel.lifecycle import Lifecycle


class TaskType(StrEnum):
    MINISHOP = "MINISHOP"
    PRODUCT_DETAIL = "PRODUCT_DETAIL"
    PRODUCT_OPTION = "PRODUCT_OPTION"


class Purpose(StrEnum):
    """Why a task exists: to read, or to prove by a 404 that a product is gone."""

    CRAWL = "CRAWL"
    REMOVAL_PROOF = "REMOVAL_PROOF"


class TaskNote(StrEnum):
    """What a completed task left out, and why."""

    STILL_ANSWERS = "STILL_ANSWERS"
    HELD = "HELD"
    FOREIGN = "FOREIGN"


class TaskStatus(StrEnum):
    WAITING = "WAITING"
    PUBLISHED = "PUBLISHED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    RETRY = "RETRY"


TASK_LIFE = Lifecycle(
    noun="task",
    first=TaskStatus.WAITING,
    moves={
        (TaskStatus.WAITING, "publish"): TaskStatus.PUBLISHED,
        (TaskStatus.RETRY, "publish"): TaskStatus.PUBLISHED,
        (TaskStatus.PUBLISHED, "start"): TaskStatus.IN_PROGRESS,
        (TaskStatus.RETRY, "start"): TaskStatus.IN_PROGRESS,
        (TaskStatus.IN_PROGRESS, "complete"): TaskStatus.COMPLETED,
        (TaskStatus.IN_PROGRESS, "fail"): TaskStatus.FAILED,
        (TaskStatus.FAILED, "retry"): TaskStatus.RETRY,
        (TaskStatus.PUBLISHED, "put_back"): TaskStatus.WAITING,
        (TaskStatus.IN_PROGRESS, "put_back"): TaskStatus.WAITING,
        (TaskStatus.FAILED, "reopen"): TaskStatus.RETRY,
        (TaskStatus.WAITING, "cancel"): TaskStatus.FAILED,
        (TaskStatus.PUBLISHED, "cancel"): TaskStatus.FAILED,
        (TaskStatus.IN_PROGRESS, "cancel"): TaskStatus.FAILED,
        (TaskStatus.RETRY, "cancel"): TaskStatus.FAILED,
    },
    resting=frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED}),
)

#: States of a task that still has to be done; an execution is over when none of its tasks is in one of them.
OPEN_STATES = (TaskStatus.WAITING, TaskStatus.PUBLISHED, TaskStatus.IN_PROGRESS, TaskStatus.RETRY)
#: Open states in which no worker holds the task, in the order of claiming: tasks that were tried before come first.
READY_STATES = (TaskStatus.RETRY, TaskStatus.WAITING, TaskStatus.PUBLISHED)

RETRIES = 2
LOST_LEASES = 3
LONGEST_URL = 2000

ENDPOINTS = {
    TaskType.MINISHOP: Endpoint.LIST,
    TaskType.PRODUCT_DETAIL: Endpoint.DETAIL,
    TaskType.PRODUCT_OPTION: Endpoint.OPTIONS,
}

_PATTERNS = {
    TaskType.MINISHOP: (
        re.compile(r"/search/?mini-shop-search\Z"),
        "/searchmini-shop-search or /search/mini-shop-search",
    ),
    TaskType.PRODUCT_DETAIL: (re.compile(r"/item/[0-9]+/detail/top\Z"), "/item/{digits}/detail/top"),
    TaskType.PRODUCT_OPTION: (re.compile(r"/auction_products/[0-9]+/options\Z"), "/auction_products/{digits}/options"),
}


@dataclass(eq=False)
class InvalidRequestUrl(Invalid):
    """A path that does not match the pattern of its task's type."""

    given: str
    task_type: str
    pattern: str


@dataclass(eq=False)
class TaskNotFound(NotFound):
    task_id: str


@dataclass(eq=False)
class RetriesSpent(Conflict):
    """A task that failed for good; an operator can reopen it."""

    task_id: str
    retries: int


class RequestUrl(PlainText):
    """Path and query of a request to MARKETPLACE_URL. `parse` checks them against the type of the task."""

    __slots__ = ()

    @classmethod
    def parse(cls, task_type: TaskType, text: str) -> Self:
        pattern, shown = _PATTERNS[task_type]
        if not _is_path(text) or not pattern.search(text.partition("?")[0]):
            raise InvalidRequestUrl(given=text[:200], task_type=task_type.value, pattern=shown)
        return cls(text)

    @classmethod
    def of_settings(cls, task_type: TaskType, text: str) -> Self:
        """Return an address that was made from a configured path, which may have moved away from the pattern."""
        if not _is_path(text):
            raise InvalidRequestUrl(given=text[:200], task_type=task_type.value, pattern="/...")
        return cls(text)


def _is_path(text: str) -> bool:
    is_plain = len(text) <= LONGEST_URL and text.isascii() and text.isprintable() and " " not in text
    return is_plain and text.startswith("/") and not text.startswith("//")


class Task(Struct, frozen=True):
    """One request of a run, and how it ended.

    `failure` is why it failed; `note` what a completed task left out (`TaskNote`). `is_final`: FAILED for good; only
    such a failure is ever stored. `attempt` rises with every start and is the guard of a late answer: only the worker
    that holds the task at this attempt may end it. `available_at` is when it may be started; waiting for budget moves
    it and costs no retry.
    """

    task_id: TaskId
    execution_id: ExecutionId
    seller_id: SellerId
    task_type: TaskType
    request_url: RequestUrl
    created_at: datetime
    available_at: datetime
    purpose: Purpose = Purpose.CRAWL
    item_no: ItemNo | None = None
    page_no: int | None = None
    status: TaskStatus = TASK_LIFE.first
    retry_count: int = 0
    failure: Failure | None = None
    note: str | None = None
    published_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    publish_count: int = 0
    attempt: int = 0
    worker_id: WorkerId | None = None
    agent_row: int | None = None
    lost_leases: int = 0
    requests_made: int = 0
    is_final: bool = False

    def publish(self, now: datetime, by: WorkerId | None = None) -> Task:
        """Move to PUBLISHED. `by` is the process that sends the message; until it is sent, that process may vanish."""
        return self._move("publish", published_at=now, publish_count=self.publish_count + 1, worker_id=by)

    def start(self, worker_id: WorkerId, now: datetime, agent_row: int | None = None) -> Task:
        held = {"worker_id": worker_id, "agent_row": agent_row, "attempt": self.attempt + 1}
        return self._move("start", started_at=now, requests_made=self.requests_made + 1, **held)

    def publish_and_start(self, worker_id: WorkerId, now: datetime, agent_row: int | None = None) -> Task:
        """Publish and start with one copy: every request does this once."""
        published = TASK_LIFE.after(self.status, "publish", self.task_id)
        return structs.replace(
            self,
            status=TASK_LIFE.after(published, "start", self.task_id),
            published_at=now,
            publish_count=self.publish_count + 1,
            worker_id=worker_id,
            agent_row=agent_row,
            attempt=self.attempt + 1,
            started_at=now,
            requests_made=self.requests_made + 1,
        )

    def complete(self, now: datetime) -> Task:
        return self._move("complete", completed_at=now, failure=None, worker_id=None, lost_leases=0)

    @property
    def failure_code(self) -> FailureCode | None:
        return None if self.failure is None else self.failure.code

    @property
    def blame(self) -> Blame | None:
        """Return whose fault its failure is."""
        return None if self.failure is None else self.failure.blame

    def fail(self, failure: Failure, now: datetime) -> Task:
        """Move to FAILED. `can_retry` says whether it may be tried again."""
        return self._move("fail", completed_at=now, failure=failure, worker_id=None, lost_leases=0)

    def can_retry(self, retries: int = RETRIES) -> bool:
        return self.status is TaskStatus.FAILED and not self.is_final and self.retry_count < retries

    def retry(self, not_before: datetime, retries: int = RETRIES) -> Task:
        """Try a failed task again, not before `not_before`. Raise `RetriesSpent` where its retries are used up."""
        moved = self._move("retry", retry_count=self.retry_count + 1, failure=None, completed_at=None)
        if not self.can_retry(retries):
            raise RetriesSpent(task_id=self.task_id, retries=retries)
        return structs.replace(moved, available_at=not_before)

    def put_back(self, not_before: datetime, *, counts: bool = False) -> Task:
        """Let it wait until `not_before` without using a retry (no budget, a shutdown, an outage). `counts`: the
        marketplace answered the request, so it counts towards the task's limit of requests."""
        was_asked = self.status is TaskStatus.IN_PROGRESS and not counts
        made = max(0, self.requests_made - was_asked)
        return self._move("put_back", available_at=not_before, worker_id=None, requests_made=made)

    def excuse(self, not_before: datetime) -> Task:
        """Put it back after an outage of the marketplace, and give back the retries that it has used."""
        back = self.put_back(not_before)
        return structs.replace(back, retry_count=0, requests_made=max(0, back.requests_made - self.retry_count))

    def give_back(self, now: datetime) -> Task:
        """Give back the retries that an outage used; a task that FAILED because of it is reopened."""
        if self.status is TaskStatus.FAILED:
            return self.reopen(now)
        return structs.replace(self, retry_count=0, requests_made=max(0, self.requests_made - self.retry_count))

    def lose_lease(self, now: datetime) -> Task:
        """Put it back after its worker vanished. The third time the task itself may be the cause, so it fails."""
        if self.lost_leases + 1 < LOST_LEASES:
            return structs.replace(self.put_back(now), lost_leases=self.lost_leases + 1)
        self.put_back(now)  # refuses a task that no worker holds; `cancel` alone would accept it
        return self.cancel(now, Failure.of(FailureCode.WORKER_LOST, now, times=LOST_LEASES))

    def reopen(self, now: datetime) -> Task:
        """Try a task that failed for good again, with all its retries."""
        fresh = {"retry_count": 0, "lost_leases": 0, "requests_made": 0, "is_final": False}
        return self._move("reopen", failure=None, completed_at=None, available_at=now, **fresh)

    def cancel(self, now: datetime, reason: Failure | None = None) -> Task:
        why = reason or Failure.of(FailureCode.CANCELLED, now)
        return self._move("cancel", completed_at=now, failure=why, worker_id=None, is_final=True)

    def is_held_by(self, worker_id: WorkerId, attempt: int) -> bool:
        """Whether this worker still holds the task at this attempt: the guard of every result."""
        return self.status is TaskStatus.IN_PROGRESS and self.worker_id == worker_id and self.attempt == attempt

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_STATES

    @property
    def endpoint(self) -> Endpoint:
        return ENDPOINTS[self.task_type]

    @property
    def subject(self) -> str:
        """The product, or the page of a seller's list, that it asks about."""
        return str(self.item_no) if self.item_no is not None else f"{self.seller_id}/{self.page_no}"

    @property
    def may_start(self) -> bool:
        """Whether it is open and no worker holds it."""
        return self.status in READY_STATES

    def _move(self, verb: str, **changed: object) -> Task:
        status = TASK_LIFE.after(self.status, verb, self.task_id)
        return structs.replace(self, status=status, **changed)
