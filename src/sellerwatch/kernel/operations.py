"""Operations: what people and callers can do (commands) and see (queries).

A command is `f(tx, context, ...)` in a feature's `commands.py`, a query the same in its `queries.py`; both return
views.
The API, the command line and the console call them through a session (`operations/session.py`), never a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.notices import Notice


@dataclass(frozen=True)
class OperationContext:
    """Who runs an operation, when, in which language, and with which new ids.

    An operation may run twice: the second time it gets the same moment and the same ids.
    """

    actor: str
    moment: Moment
    ids: Iterator[str]
    language: str = "en"
    #: The transaction is rolled back afterwards; views show this.
    dry_run: bool = False
    #: What operators are alerted to; the session sends it after the commit.
    notices: list[Notice] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return self.moment.now
