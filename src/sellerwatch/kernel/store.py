"""The only way to the database, as a port.

A transaction is a plain function. It cannot await, so no network call can be written inside one; it can be run again,
so deadlocks and a busy database are retried in one place. Hence the rules for `work`:

- it begins with a guard on the state it expects (it may run again after a commit whose answer was lost);
- it gets ids and times from outside and mutates nothing it captured: memory changes after `transact` returned;
- it names the tables it needs as a protocol (`tx.sellers`, `tx.audit`): see each feature's `ports.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, overload

from sellerwatch.kernel.errors import Failed

Tx_co = TypeVar("Tx_co", covariant=True)
T = TypeVar("T")


class StoreFailed(Failed):
    """The store cannot do its work now (locked for good, full, gone): nothing was done, and it may work later."""


class Commits:
    """Counts the commits to a database that no other process can write to (one in memory), for loops that wait for one.

    A store that has this needs no polling: what may be new follows one of these commits. All stores on the same
    database share one object.
    """

    def __init__(self) -> None:
        self.number = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def count(self) -> None:
        """Count one more. Called on the event loop's thread, after the commit."""
        self.number += 1
        waiting, self._waiting = self._waiting, {}
        for callback in waiting:
            callback()

    def call_next(self, callback: Callable[[], None]) -> None:
        """Call this once, at the next commit. Asking twice before it is asking once."""
        self._waiting[callback] = None


class ATransactionCannotAwait:
    """What a type checker finds when `work` is a coroutine function: awaiting this is an error it reports."""


class Store(Protocol[Tx_co]):
    """Runs plain functions on the database, all or nothing.

    The overloads overlap on purpose: a coroutine function must meet the first, whose result cannot be awaited.
    `commits` is None where other processes may write to the database.
    """

    @property
    def commits(self) -> Commits | None: ...

    @overload
    def transact(self, work: Callable[[Tx_co], Coroutine[Any, Any, Any]]) -> ATransactionCannotAwait: ...  # type: ignore[overload-overlap]

    @overload
    def transact(self, work: Callable[[Tx_co], T]) -> Coroutine[Any, Any, T]: ...

    @overload
    def read(self, work: Callable[[Tx_co], Coroutine[Any, Any, Any]]) -> ATransactionCannotAwait: ...  # type: ignore[overload-overlap]

    @overload
    def read(self, work: Callable[[Tx_co], T]) -> Coroutine[Any, Any, T]: ...
