"""What every body of the API has in common: camelCase names, times in UTC with a Z, and no unknown field."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

LARGEST_PAGE = 100


class ResponseModel(BaseModel):
    """A body of an answer."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class RequestModel(BaseModel):
    """A body of a request: types are not guessed, and an unknown field is refused."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)


PageNumber = Annotated[int, Query(alias="page", ge=0, le=1_000_000, description="Counted from 0.")]
PageSize = Annotated[int, Query(alias="size", ge=1, le=LARGEST_PAGE, description="Entries of a page.")]
