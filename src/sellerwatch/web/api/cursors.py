"""Parameters that many routes share: cursors, filters, times and dry runs.

A cursor is opaque text. It names its list and the row where a page ended, so it stays valid while rows come and go; a
cursor of another list, or one that was changed, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Query

from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.kernel.paging import LONGEST_CURSOR
from sellerwatch.kernel.wording import Problem
from sellerwatch.web.api.errors import FieldProblem, InvalidRequest

#: How many ids one request may name.
MOST_NAMED = 1000

CursorParameter = Annotated[
    str | None,
    Query(alias="cursor", max_length=LONGEST_CURSOR, description="`next` of the page before; left out: the beginning."),
]
SellerFilter = Annotated[
    str | None,
    Query(alias="sellerId", min_length=1, max_length=SellerId.LONGEST, description="Only of this seller."),
]
ExecutionFilter = Annotated[str | None, Query(alias="executionId", max_length=100, description="Only of this run.")]
DryRun = Annotated[bool, Query(alias="dryRun", description="Only say in numbers what would happen.")]
Since = Annotated[
    datetime | None, Query(alias="since", description="Made then or later; UTC unless it says otherwise.")
]
Until = Annotated[datetime | None, Query(alias="until", description="Made before then.")]
ItemPath = Annotated[int, Path(alias="itemNo", ge=1, le=ItemNo.LARGEST, examples=[900000001])]


def seller_of(given: str | None) -> SellerId | None:
    return None if given is None else SellerId.parse(given)


def utc(given: datetime | None) -> datetime | None:
    """Return a time in UTC; a time without a zone is UTC."""
    if given is None:
        return None
    try:
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    except OverflowError:
        raise unreadable("since", "beyond_calendar") from None


def unreadable(field: str, problem: str) -> InvalidRequest:
    """Return the refusal of a field; `problem` is a key of `problems.toml`."""
    return InvalidRequest((FieldProblem(field, Problem(problem)),))


def one_way(ids: Sequence[str] | None, field: str, *, chosen: bool) -> None:
    """Require ids or a choice, so that a request without either does not change everything."""
    if ids and chosen:
        raise unreadable(field, "ids_or_choice")
    if not ids and not chosen:
        raise unreadable(field, "nothing_chosen")
