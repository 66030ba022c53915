"""What every body of the API has in common: camelCase names, times in UTC with a Z, and no field nobody knows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from sellerwatch.crawling.waiting import waiting_view
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.failure import Blame, Failure, FailureCode

T = TypeVar("T")

LARGEST_PAGE = 100


Stamp = Annotated[datetime, PlainSerializer(stamp, return_type=str), Field(examples=["2026-11-15T06:04:05.123456Z"])]


class ResponseModel(BaseModel):
    """A body we send."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class FailureShown(ResponseModel):
    """Why something failed or waits, for programs; `errorMessage` says the same to people."""

    code: FailureCode
    blame: Blame = Field(description="Whose fault it is.")
    facts: dict[str, str | int | float] = Field(
        description="What the sentence of the code is filled with.", examples=[{"status": 503}]
    )
    at: Stamp


class WaitingShown(ResponseModel):
    """Why an open run makes no progress: the marketplace is away or paused, too few agents are available, or its
    answers cannot be read."""

    code: FailureCode
    blame: Blame = Field(description="Whose fault it is.")
    facts: dict[str, str | int | float] = Field(
        description="What the sentence of the code is filled with.", examples=[{"endpoint": "detail"}]
    )
    message: str = Field(description="The cause as a sentence in the caller's language.")

    @classmethod
    def of(cls, cause: Failure | None, language: str) -> WaitingShown | None:
        view = waiting_view(cause, language)
        return None if view is None else cls(**view)


class RequestModel(BaseModel):
    """A body we are sent: types are not guessed, and a field nobody knows is refused."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)


class NumberedPage(ResponseModel, Generic[T]):
    """One page of a list that is counted."""

    content: list[T]
    page: int
    size: int
    total_elements: int
    total_pages: int

    @classmethod
    def of(cls, content: list[T], page: int, size: int, total: int) -> NumberedPage[T]:
        return cls(content=content, page=page, size=size, total_elements=total, total_pages=-(-total // size))


PageNumber = Annotated[int, Query(alias="page", ge=0, le=1_000_000, description="Counted from 0.")]
PageSize = Annotated[int, Query(alias="size", ge=1, le=LARGEST_PAGE, description="Entries of a page.")]
