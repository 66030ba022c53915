"""The port of the task queue, and the embedded queue.

The task's row is the truth, a message only a hint that it may be taken. So a message that comes twice, late or never
costs only time: a task that has ended is not done again, and a task without a message is published again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sellerwatch.crawling.task import Task
from sellerwatch.kernel.ids import TaskId


@dataclass(frozen=True, slots=True)
class Hint:
    """A received message: the task that it names, and its handle in the queue. `task_id` is None where it names no
    task."""

    task_id: TaskId | None
    handle: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was received too often and never acknowledged."""

    hint: Hint
    body: str
    received: int


class Queue(Protocol):
    """Every method may fail with `Unavailable`. A received message is hidden from other workers until it is
    acknowledged, or until it was not extended for a while."""

    @property
    def names_tasks(self) -> bool:
        """Whether tasks are claimed only when a message names them."""

    async def send(self, tasks: Sequence[Task]) -> frozenset[TaskId]:
        """Return the tasks whose message was accepted; the others have to be sent again."""

    async def receive(self, most: int, patience: float) -> Sequence[Hint]:
        """Return up to `most` messages; if there is none, wait for one for at most `patience` seconds."""

    async def acknowledge(self, hints: Sequence[Hint]) -> None: ...

    async def extend(self, hints: Sequence[Hint]) -> None: ...


class DeadLetters(Protocol):
    """Messages that the queue gave up."""

    async def count(self) -> int: ...

    async def look(self, most: int) -> Sequence[DeadLetter]:
        """Return the first ones and hide them from other readers for a moment."""

    async def remove(self, letters: Sequence[DeadLetter]) -> None: ...

    async def leave(self, letters: Sequence[DeadLetter]) -> None:
        """Make letters that were only looked at visible again."""


class EmbeddedQueue:
    """The table of tasks is the queue: a row that may be claimed is its own message."""

    names_tasks = False

    async def send(self, tasks: Sequence[Task]) -> frozenset[TaskId]:
        return frozenset(task.task_id for task in tasks)

    async def receive(self, most: int, patience: float) -> Sequence[Hint]:
        return ()

    async def acknowledge(self, hints: Sequence[Hint]) -> None:
        return None

    async def extend(self, hints: Sequence[Hint]) -> None:
        return None
