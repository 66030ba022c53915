"""What `work(tx)` gets: the tables it may touch, each as a repository bound to this transaction."""

from __future__ import annotations

from functools import cached_property

from sqlalchemy import Connection

from sellerwatch.adapters.sql.audit import SqlAuditTrail
from sellerwatch.adapters.sql.statements import Db


class Transaction:
    """Repositories are made when first asked for: most transactions touch few of them."""

    def __init__(self, connection: Connection) -> None:
        self.db = Db(connection)

    @cached_property
    def audit(self) -> SqlAuditTrail:
        return SqlAuditTrail(self.db)
