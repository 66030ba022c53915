"""What users, log-ins and Idempotency-Keys need of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from sellerwatch.kernel.ids import ApiTokenId, LoginSessionId, WorkerId
from sellerwatch.oversight.ports import AuditTx

if TYPE_CHECKING:
    from sellerwatch.access.api_tokens import ApiToken
    from sellerwatch.access.idempotency import KeyClaim, StoredResponse
    from sellerwatch.access.login_sessions import LoginSession
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


class LoginSessions(Protocol):
    def get(self, session_id: LoginSessionId) -> LoginSession | None: ...

    def of(self, user_name: str | None) -> Sequence[LoginSession]:
        """Return the log-ins of a user or of all, the last used first."""

    def add(self, session: LoginSession) -> None: ...

    def used(self, session_id: LoginSessionId, at: datetime) -> None:
        """Write when a log-in was last used. One that ended meanwhile stays ended."""

    def end(self, session_id: LoginSessionId) -> None: ...

    def end_all(self, user_name: str) -> None:
        """End all log-ins of a user."""

    def forget(self, before: datetime, limit: int) -> int:
        """Delete at most `limit` that expired before then, and return how many."""


class ApiTokens(Protocol):
    def get(self, token_id: ApiTokenId) -> ApiToken | None: ...

    def everyone(self) -> Sequence[ApiToken]:
        """Return all tokens, newest first."""

    def add(self, token: ApiToken) -> None: ...

    def save(self, token: ApiToken) -> None: ...

    def forget(self, before: datetime, limit: int) -> int:
        """Delete at most `limit` that expired before then, and return how many."""


class UsersTx(AuditTx, Protocol):
    @property
    def users(self) -> Users: ...

    @property
    def login_sessions(self) -> LoginSessions: ...

    @property
    def api_tokens(self) -> ApiTokens: ...

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
