"""Lists that grow without end are given piece by piece; each piece begins where the one before it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a piece ended: its last entry's time and inner number. It holds even when that entry is gone."""

    at: datetime
    row: int


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some entries of a list. `next` is where the following piece begins, None at the end. A piece may be short, even
    empty, and not the last: no more than so many rows are looked at for one."""

    content: Sequence[T]
    next: Cursor | None
