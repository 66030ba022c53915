"""How many tasks of each type may be claimed now, by the circuits of the endpoints that they ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit, next_probe
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import ENDPOINTS, Task, TaskType


@dataclass(frozen=True, slots=True)
class EndpointCapacity:
    """The circuits at `now`. `by_type` is the number of tasks of each type that may be claimed; None: any number."""

    circuits: Mapping[Endpoint, MarketplaceCircuit]
    by_type: Mapping[TaskType, int | None]
    now: datetime

    @classmethod
    def read(cls, tx: CrawlTx, now: datetime) -> EndpointCapacity:
        circuits = tx.marketplace.circuits()
        return cls(circuits, {type_: circuits[ENDPOINTS[type_]].room(now) for type_ in TaskType}, now)

    @property
    def unbounded(self) -> tuple[TaskType, ...]:
        return tuple(type_ for type_, most in self.by_type.items() if most is None)

    @property
    def bounded(self) -> tuple[tuple[TaskType, int], ...]:
        """Types with a bounded number of tasks: one as a probe, or some while the endpoint recovers."""
        return tuple((type_, most) for type_, most in self.by_type.items() if most)

    @property
    def answering(self) -> tuple[TaskType, ...] | None:
        """Types whose endpoint answers; None: all of them."""
        types = tuple(type_ for type_ in self.by_type if self.circuits[ENDPOINTS[type_]].is_closed)
        return None if len(types) == len(self.by_type) else types

    @property
    def probing(self) -> tuple[TaskType, ...]:
        """Types that may claim one task to find out whether their endpoint answers again."""
        answering = self.answering
        return () if answering is None else tuple(t for t, most in self.by_type.items() if most and t not in answering)

    @property
    def is_none(self) -> bool:
        """Whether no task of any type may be claimed."""
        return all(most == 0 for most in self.by_type.values())

    @property
    def next_probe(self) -> datetime | None:
        """When the next probe after now may be sent. One that may be sent now has no task that could be the probe."""
        return next_probe((self.circuits[ENDPOINTS[type_]] for type_ in self.by_type), self.now)

    def admits(self, task: Task) -> bool:
        """Whether the task may be claimed now, if it is the only one."""
        circuit = self.circuits[task.endpoint]
        return self.by_type[task.task_type] != 0 and (circuit.is_closed or circuit.may_probe(self.now, task.subject))

    def admits_at(self, task: Task) -> datetime:
        """When the task may be claimed: now, or after the next probe."""
        return self.now if self.admits(task) else next_probe([self.circuits[task.endpoint]], self.now) or self.now
