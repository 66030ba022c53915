"""What oversight needs of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from sellerwatch.kernel.ids import WorkerId
from sellerwatch.kernel.paging import Piece, Place
from sellerwatch.oversight.audit import AuditEntry

if TYPE_CHECKING:
    from sellerwatch.oversight.answers import Claim, KeptAnswer
    from sellerwatch.oversight.logins import Failures
    from sellerwatch.oversight.tallies import Tallies, Vitals
    from sellerwatch.oversight.users import User


@dataclass(frozen=True)
class AuditChoice:
    """Which entries: what is given narrows it."""

    subject_type: str | None = None
    subject_id: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class AuditTrail(Protocol):
    """Append only: no verb changes or removes an entry."""

    def record(self, entry: AuditEntry) -> None: ...

    def newest(
        self, *, limit: int, subject_type: str | None = None, subject_id: str | None = None, actor: str | None = None
    ) -> Sequence[AuditEntry]: ...

    def page(self, choice: AuditChoice, place: Place | None, limit: int) -> Piece[AuditEntry]:
        """Newest first, behind a place."""
        ...


class AuditTx(Protocol):
    @property
    def audit(self) -> AuditTrail: ...


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


class Counts(Protocol):
    """Plain numbers of every table, for monitors."""

    def tallies(self, now: datetime) -> Tallies: ...

    def vitals(self, now: datetime, silent_after: timedelta) -> Vitals: ...


class CountsTx(Protocol):
    @property
    def counts(self) -> Counts: ...


class Passwords(Protocol):
    """Makes and checks hashes; slow on purpose. `stored` is None where there is no such user: it takes as long."""

    def hash(self, password: str) -> str: ...

    def check(self, stored: str | None, password: str) -> bool: ...
