"""What oversight needs of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sellerwatch.oversight.audit import AuditEntry


class AuditTrail(Protocol):
    """Append only: no verb changes or removes an entry."""

    def record(self, entry: AuditEntry) -> None: ...

    def newest(
        self, *, limit: int, subject_type: str | None = None, subject_id: str | None = None, actor: str | None = None
    ) -> Sequence[AuditEntry]: ...


class AuditTx(Protocol):
    @property
    def audit(self) -> AuditTrail: ...
