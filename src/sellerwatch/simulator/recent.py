"""A cache that evicts the least recently used values."""

import sys
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Keeps the most recently used values, up to a total weight (a count, or bytes).

    `functools.lru_cache` counts entries only; a rendered detail may be 4 KB or 150 KB.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0

    def get(self, key: K) -> V | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return kept[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Keep a value; one heavier than the whole cache is not kept."""
        self.forget(key)
        self._kept[key] = (value, weight)
        self._weight += weight
        while self._weight > self._capacity:
            _, (_, freed) = self._kept.popitem(last=False)
            self._weight -= freed

    def keep_all(self) -> None:
        """Evict nothing from now on."""
        self._capacity = sys.maxsize

    def forget(self, key: K) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._weight -= kept[1]

    def clear(self) -> None:
        self._kept.clear()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def weight(self) -> int:
        return self._weight
