"""Lists that grow without end: cursors, and the filters and answers that many routes share.

A cursor is opaque to its reader. It names the list it is of and the place where a slice ended, so it holds while rows
come and go, and one of another list, or one that was tampered with, is refused and never read as something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import Path, Query, Request
from pydantic import Field

from sellerwatch.kernel.bulk import BulkResult
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.kernel.paging import LONGEST_CURSOR, Page, encode_cursor
from sellerwatch.kernel.wording import error_text
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.sellers.seller import SellerNotFound
from sellerwatch.web.api.errors import FieldProblem, InvalidRequest, language_of
from sellerwatch.web.api.models import CursorPage, ResponseModel

T = TypeVar("T")
U = TypeVar("U")

#: As many things as one request may name.
MOST_NAMED = 1000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

CursorParameter = Annotated[
    str | None,
    Query(
        alias="cursor", max_length=LONGEST_CURSOR, description="`next` of the slice before; left out: the beginning."
    ),
]
SellerFilter = Annotated[
    str | None,
    Query(alias="sellerId", min_length=1, max_length=SellerId.LONGEST, description="Only of this seller."),
]
DryRun = Annotated[bool, Query(alias="dryRun", description="Only say in numbers what would happen.")]
Since = Annotated[
    datetime | None, Query(alias="since", description="Made then or later; UTC unless it says otherwise.")
]
Until = Annotated[datetime | None, Query(alias="until", description="Made before then.")]
ItemPath = Annotated[int, Path(alias="itemNo", ge=1, le=ItemNo.LARGEST, examples=[900000001])]


class RefusedOne(ResponseModel):
    """One of several that could not be handled, and why."""

    id: str
    error_code: str = Field(examples=["ILLEGAL_MOVE"])
    message: str


class HandledAnswer(ResponseModel):
    """What became of several: each is in one of the two lists."""

    done: list[str]
    refused: list[RefusedOne]

    @classmethod
    def of(cls, handled: BulkResult, request: Request) -> HandledAnswer:
        return cls(done=list(handled.done), refused=refused_of(handled, request))


def refused_of(handled: BulkResult, request: Request) -> list[RefusedOne]:
    language = language_of(request)
    return [
        RefusedOne(id=one.id, error_code=one.error.code, message=error_text(one.error.code, one.error.facts, language))
        for one in handled.refused
    ]


def cursor_page(name: str, piece: Page[T], tell: Callable[[T], U]) -> CursorPage[U]:
    return CursorPage[U](content=[tell(entry) for entry in piece.content], next=encode_cursor(name, piece.next))


def known_seller(tx: ServiceTx, given: SellerId | None) -> None:
    """A filter by a seller that does not exist is a slip of the pen, not an empty list."""
    if given is not None and tx.sellers.get(given) is None:
        raise SellerNotFound(seller_id=given)


def seller_of(given: str | None) -> SellerId | None:
    return None if given is None else SellerId.parse(given)


def utc(given: datetime | None) -> datetime | None:
    """A time without a zone is UTC."""
    if given is None:
        return None
    try:
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    except OverflowError:
        raise unreadable("since", "it is beyond the calendar") from None


def unreadable(field: str, problem: str) -> InvalidRequest:
    return InvalidRequest((FieldProblem(field=field, problem=problem),))


def one_way(ids: Sequence[str] | None, field: str, *, chosen: bool) -> None:
    """By ids or by a choice: one of the two must be said, so that nobody moves all of them by a slip."""
    if ids and chosen:
        raise unreadable(field, "give ids or a choice, not both")
    if not ids and not chosen:
        raise unreadable(field, "give ids, or a choice such as allFailed")
