"""Lists that grow without end are read page by page; each page begins where the one before it ended.

Outside, a cursor is opaque text. It names its list, so one of another list, or one that was tampered with, is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from sellerwatch.kernel.clock import EPOCH
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.views import CursorPageView

T = TypeVar("T")
V = TypeVar("V")

LONGEST_CURSOR = 100
_CURSOR = re.compile(r"([a-z]+)\.([0-9]{1,18})\.([0-9]{1,18})")


@dataclass(eq=False)
class InvalidCursor(Invalid):
    """Not a cursor of this list."""

    given: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended: its last entry's time and row. It holds even when that entry is gone."""

    at: datetime
    row: int


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some entries of a list. `next` is where the following page begins, None at the end.

    A page may be short, even empty, and not the last: the number of rows looked at for one is bounded.
    """

    content: Sequence[T]
    next: Cursor | None


def page_view(list_name: str, page: Page[T], view: Callable[[T], V]) -> CursorPageView[V]:
    """Return a page as people and callers see it."""
    return CursorPageView([view(entry) for entry in page.content], encode_cursor(list_name, page.next))


def encode_cursor(list_name: str, cursor: Cursor | None) -> str | None:
    """Return the text of a cursor of this list; None at the end of it."""
    if cursor is None:
        return None
    text = f"{list_name}.{(cursor.at - EPOCH) // timedelta(microseconds=1)}.{cursor.row}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(list_name: str, text: str | None) -> Cursor | None:
    """Return where a page of this list begins; None for its beginning."""
    if text is None:
        return None
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        found = _CURSOR.fullmatch(decoded)
        if found is not None and found[1] == list_name:
            cursor = Cursor(EPOCH + timedelta(microseconds=int(found[2])), int(found[3]))
            if encode_cursor(list_name, cursor) == text:
                return cursor
    except (binascii.Error, ValueError, OverflowError):
        pass
    raise InvalidCursor(given=text[:LONGEST_CURSOR])
