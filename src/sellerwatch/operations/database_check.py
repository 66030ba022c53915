"""Check the database: that its pages or tables are whole, and what must hold between its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.operations.ports import Invariant, ServiceTx
from sellerwatch.texts import say


@dataclass(frozen=True)
class BrokenInvariantView(View):
    """Something that does not hold, and one of the places."""

    check: Invariant
    count: int
    example: str
    sentence: Annotated[str, About("In the caller's language.")]


@dataclass(frozen=True)
class DatabaseCheckView(View):
    """`broken` is empty where all is well."""

    checked: Annotated[int, About("How many things were checked.", 9)]
    broken: Sequence[BrokenInvariantView]


def check_database(tx: ServiceTx, context: OperationContext, tasks_kept: timedelta) -> DatabaseCheckView:
    """Look at every row for what does not hold. Tasks of runs that ended longer ago may be deleted."""
    found = tx.invariants.broken(context.now - tasks_kept)
    return DatabaseCheckView(
        checked=len(Invariant),
        broken=[
            BrokenInvariantView(
                each.invariant,
                each.count,
                each.example,
                say("database", each.invariant, context.language, n=each.count, example=each.example),
            )
            for each in sorted(found, key=lambda each: list(Invariant).index(each.invariant))
        ],
    )
