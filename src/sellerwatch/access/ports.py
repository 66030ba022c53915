"""What users, log-ins and Idempotency-Keys need of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from sellerwatch.kernel.ids import WorkerId
from sellerwatch.oversight.ports import AuditTx

if TYPE_CHECKING:
    from sellerwatch.access.idempotency import KeyClaim, StoredResponse
    from sellerwatch.access.logins import Failures
    from sellerwatch.access.users import User


class Users(Protocol):
    def get(self, name: str) -> User | None: ...

    def everyone(self) -> Sequence[User]:
        """Return all users by name."""

    def add(self, user: User) -> None: ...

    def save(self, user: User) -> None: ...

    def remove(self, name: str) -> None: ...


class Logins(Protocol):
    """Counts of failed log-ins, by the hash of the name or the address."""

    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, Failures]: ...

    def put(self, key: bytes, failures: Failures) -> None: ...

    def clear(self, key: bytes) -> None: ...

    def forgive(self, key: bytes) -> None:
        """Count one failure less."""

    def forget(self, before: datetime, limit: int) -> int:
        """Delete at most `limit` counts without a failure since then, and return how many."""


class UsersTx(AuditTx, Protocol):
    @property
    def users(self) -> Users: ...

    @property
    def logins(self) -> Logins: ...


class IdempotencyKeys(Protocol):
    """Claimed keys and stored responses, by the hash of the key and its caller."""

    def get(self, key: bytes) -> StoredResponse | None: ...

    def claim(self, claim: KeyClaim, now: datetime) -> None: ...

    def store(self, claim: KeyClaim, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> None: ...

    def release(self, claim: KeyClaim) -> None:
        """Delete the key, as if it had never been used."""

    def is_alive(self, worker_id: WorkerId, heartbeat_after: datetime) -> bool:
        """Return whether a process has a heartbeat after that time."""

    def forget(self, before: datetime, limit: int) -> int:
        """Delete at most `limit` keys claimed before then, and return how many."""


class IdempotencyTx(Protocol):
    @property
    def idempotency_keys(self) -> IdempotencyKeys: ...


class AccessTx(UsersTx, IdempotencyTx, Protocol):
    """Everything about users and their requests."""


class Passwords(Protocol):
    """Makes and checks hashes, slowly on purpose. `stored` is None where there is no user: that takes as long."""

    def hash(self, password: str) -> str: ...

    def check(self, stored: str | None, password: str) -> bool: ...
