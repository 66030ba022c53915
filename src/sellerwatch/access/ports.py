"""What logging in and Idempotency-Keys need of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from sellerwatch.kernel.ids import WorkerId
from sellerwatch.oversight.ports import AuditTx

if TYPE_CHECKING:
    from sellerwatch.access.idempotency import Claim, KeptAnswer
    from sellerwatch.access.logins import Failures
    from sellerwatch.access.users import User


class Users(Protocol):
    def get(self, name: str) -> User | None: ...

    def everyone(self) -> Sequence[User]:
        """By name."""
        ...

    def add(self, user: User) -> None: ...

    def save(self, user: User) -> None: ...

    def remove(self, name: str) -> None: ...


class Logins(Protocol):
    """Failed log-ins, by the hash of whose or where from."""

    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, Failures]: ...

    def put(self, key: bytes, failures: Failures) -> None: ...

    def clear(self, key: bytes) -> None: ...

    def forgive(self, key: bytes) -> None:
        """One failure less."""
        ...

    def forget(self, before: datetime, limit: int) -> int: ...


class UsersTx(AuditTx, Protocol):
    @property
    def users(self) -> Users: ...

    @property
    def logins(self) -> Logins: ...


class Answers(Protocol):
    """Answers kept for an Idempotency-Key, by the hash of the key and its caller."""

    def get(self, key: bytes) -> KeptAnswer | None: ...

    def claim(self, claim: Claim, now: datetime) -> None: ...

    def keep(self, claim: Claim, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> None: ...

    def free(self, claim: Claim) -> None:
        """As if it had never been asked."""
        ...

    def is_alive(self, worker_id: WorkerId, beat_after: datetime) -> bool:
        """Whether the process that works on it is still heard of."""
        ...

    def forget(self, before: datetime, limit: int) -> int: ...


class AnswersTx(Protocol):
    @property
    def answers(self) -> Answers: ...


class AccessTx(UsersTx, AnswersTx, Protocol):
    """Everything about who may do what."""


class Passwords(Protocol):
    """Makes and checks hashes; slow on purpose. `stored` is None where there is no such user: it takes as long."""

    def hash(self, password: str) -> str: ...

    def check(self, stored: str | None, password: str) -> bool: ...
