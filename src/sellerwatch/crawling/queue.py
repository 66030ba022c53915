"""Where tasks wait to be taken: the port of the queue, and the embedded one.

The task's row is the truth, a message only a hint that it may be taken. So a message that comes twice, late or never
costs nothing but time: what is not to be done any more is not done, and what nobody was told of is told again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sellerwatch.crawling.task import Task
from sellerwatch.kernel.ids import TaskId


@dataclass(frozen=True, slots=True)
class Hint:
    """A message in hand: the task it names, and by what the queue knows it. `task_id` is None where it named nothing
    that is a task's."""

    task_id: TaskId | None
    handle: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was received too often and never acknowledged."""

    hint: Hint
    body: str
    received: int


class Queue(Protocol):
    """Every method may fail with `Unavailable`. What was received is in hand until it is acknowledged, or until it was
    not extended for a while: then somebody else gets it."""

    @property
    def names_tasks(self) -> bool:
        """Tasks are taken when a message names them; else whichever are ready."""
        ...

    async def send(self, tasks: Sequence[Task]) -> frozenset[TaskId]:
        """Says whose messages were taken; the others were not, and must be sent again."""
        ...

    async def receive(self, most: int, patience: float) -> Sequence[Hint]:
        """Up to so many; with none there, wait for the first at most so many seconds."""
        ...

    async def acknowledge(self, hints: Sequence[Hint]) -> None: ...

    async def extend(self, hints: Sequence[Hint]) -> None: ...


class DeadLetters(Protocol):
    """What the queue gave up."""

    async def count(self) -> int: ...

    async def look(self, most: int) -> Sequence[DeadLetter]:
        """The first of them; nobody else sees these for a moment."""
        ...

    async def remove(self, letters: Sequence[DeadLetter]) -> None: ...

    async def leave(self, letters: Sequence[DeadLetter]) -> None:
        """Looked at only: they can be seen again at once."""
        ...


class EmbeddedQueue:
    """The claim on the tasks' table is the queue: a row that may be done is its own message."""

    names_tasks = False

    async def send(self, tasks: Sequence[Task]) -> frozenset[TaskId]:
        return frozenset(task.task_id for task in tasks)

    async def receive(self, most: int, patience: float) -> Sequence[Hint]:
        return ()

    async def acknowledge(self, hints: Sequence[Hint]) -> None:
        return None

    async def extend(self, hints: Sequence[Hint]) -> None:
        return None
