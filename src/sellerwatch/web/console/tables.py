"""Tables as data: a page shows them, and the same rows go out as CSV. So no table is without its CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.untrusted_text import without_formula

T = TypeVar("T")
#: Cells by the names of their columns: the title of `seller` is the text `col.seller`.
Columns = Mapping[str, Callable[[T], "Cell"]]
#: The key of a text, and the facts that are put into it.
Sentence = tuple[str, Mapping[str, object]]

#: A spreadsheet takes a text that begins so for a formula, and would run it.

#: How a state looks; the word beside the colour says the same.
TONES = {
    "ok": "ACTIVE COMPLETED AVAILABLE COMPLETE RELEASED RESOLVED CONFIRMED CLOSED DELIVERED CRAWL UP fresh"
    " PRODUCT_CREATED",
    "live": "RUNNING IN_PROGRESS SENDING PUBLISHED PRODUCT_UPDATED PRODUCT_SNAPSHOT",
    "wait": "WAITING RETRY PENDING INCOMPLETE HALF_OPEN REMOVAL_PROOF never",
    "warn": "SUSPENDED PAUSED HELD OPEN late incomplete",
    "bad": "FAILED BLOCKED REFUSED DELETED DOWN PRODUCT_DELETED",
}
_TONE_OF = {word: tone for tone, words in TONES.items() for word in words.split()}


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a table. `kind` says how it looks; `value` is what CSV has of it."""

    kind: str
    value: Any
    href: str | None = None
    more: Any = None


def seller_page(seller_id: str, action: str = "") -> str:
    """A seller's id is the marketplace's: any printable characters."""
    return f"/sellers/{quote(seller_id, safe='')}{action}"


def text(value: object, href: str | None = None) -> Cell:
    return Cell("text", value, href)


def code(value: object, href: str | None = None) -> Cell:
    """Ids and other names that are not translated."""
    return Cell("code", value, href)


def raw(value: object) -> Cell:
    """What a machine said, in its own words."""
    return Cell("raw", value)


def sentence(value: str | None) -> Cell:
    """A whole sentence in the reader's language."""
    return Cell("sentence", value)


def number(value: float | None) -> Cell:
    return Cell("number", value)


def when(value: datetime | None) -> Cell:
    return Cell("time", value)


def said(key: str, **facts: object) -> Cell:
    """A sentence of the catalogue."""
    return Cell("said", key, more=facts)


def link(key: str, href: str) -> Cell:
    """A text of the catalogue that leads to a page."""
    return Cell("said", key, href, more={})


def pill(value: str, family: str = "status", href: str | None = None) -> Cell:
    """A state: a word with a colour."""
    return Cell("pill", str(value), href, more=(family, tone_of(value, family)))


def bar(done: int, total: int) -> Cell:
    return Cell("bar", done, more=total)


def tone_of(value: str, family: str = "status") -> str:
    if family == "circuit" and value == "OPEN":
        return "bad"
    return _TONE_OF.get(str(value), "off")


@dataclass(frozen=True)
class Table:
    """`columns` and `empty` are keys of the catalogue. `next` leads to the piece behind this one."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str
    next: str | None = None
    caption: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        views: Iterable[T],
        columns: Columns[T],
        empty: str,
        *,
        caption: str,
        next_: str | None = None,
    ) -> Table:
        """Return a table with a row for each view."""
        rows = [[cell(view) for cell in columns.values()] for view in views]
        return cls(name, [f"col.{column}" for column in columns], rows, empty, next_, caption)

    def csv(self, heads: Iterable[str]) -> str:
        """With a mark at its beginning by which spreadsheets know that it is UTF-8."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(heads)
        writer.writerows([[_plain(cell) for cell in row] for row in self.rows])
        return "\ufeff" + out.getvalue()


def _plain(cell: Cell) -> str | int | float:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, bool | int | float):
        return value
    shown = f"{value} {cell.more}" if cell.kind == "said" and cell.more else str(value)
    return without_formula(shown)


@dataclass(frozen=True)
class Filter:
    """A field by which a list is narrowed: with choices, or free text. Labels are keys of the catalogue."""

    name: str
    label: str
    value: str
    choices: Sequence[tuple[str, str]] | None = None
    kind: str = "search"


@dataclass(frozen=True)
class Chart:
    """Numbers over time; `x` in seconds since 1970. A table beside the picture has the same numbers.

    `unit` is the key of the axis' name. `is_daily`: each x is the beginning of a day in UTC and stands for the day.
    """

    name: str
    title: str
    x: Sequence[float]
    series: Sequence[tuple[str, str, Sequence[float | None]]]
    kind: str = "line"
    facts: Mapping[str, object] = field(default_factory=dict)
    unit: str | None = None
    is_daily: bool = False
    #: Where the axis ends, where that does not depend on the values.
    most: float | None = None

    @property
    def has_data(self) -> bool:
        """A day is shown alone; of other times one point is no chart."""
        has_values = any(value is not None for _, _, values in self.series for value in values)
        return has_values and len(self.x) >= (1 if self.is_daily else 2)

    def data(self, labels: Sequence[str], unit: str | None) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "unit": unit,
            "daily": self.is_daily,
            "most": self.most,
            "x": list(self.x),
            "series": [
                {"label": label, "tone": tone, "values": list(values)}
                for label, (_, tone, values) in zip(labels, self.series, strict=True)
            ],
        }


@dataclass(frozen=True)
class Confirm:
    """What will happen, in numbers, before it does. `sentences` are keys with their facts; `fields` are asked for."""

    title: str
    action: str
    button: str
    sentences: Sequence[Sentence]
    back: str
    fields: Sequence[Filter] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    danger: bool = True
    facts: Mapping[str, object] = field(default_factory=dict)
