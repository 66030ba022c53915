"""Rows of a file of sellers to register: CSV with a line of names, or a JSON object on each line.

Columns: `sellerId`, `name`, and at most one of `interval` (`1d`, `6h`) and `crawlingIntervalDays`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from sellerwatch.kernel.errors import Invalid, SellerwatchError
from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.interval import CrawlingInterval

COLUMNS = ("sellerId", "name", "interval", "crawlingIntervalDays")
#: Of one file. A marketplace has fewer sellers that anybody follows.
MOST_ROWS = 100_000
#: The id of a row that cannot be read.
UNREAD = SellerId("")


@dataclass(eq=False)
class UnreadableFile(Invalid):
    """A file that cannot be read at all."""

    path: str
    problem: str


@dataclass(eq=False)
class UnreadableRow(Invalid):
    """A row that names no seller. `problem` says why."""

    problem: str


@dataclass(eq=False)
class TooManyRows(Invalid):
    most: int = MOST_ROWS


@dataclass(frozen=True)
class SellerRow:
    """A seller to register. `error` is why the row cannot be read."""

    line: int
    seller_id: SellerId = UNREAD
    name: str = ""
    interval: CrawlingInterval | None = None
    error: SellerwatchError | None = None


def read_rows(text: str, *, is_csv: bool) -> Sequence[SellerRow]:
    """Return the rows of a file in their order. A row that cannot be read carries its error; the others are fine."""
    found = _csv_rows(text) if is_csv else _json_rows(text)
    if len(found) > MOST_ROWS:
        raise TooManyRows
    return found


def row_of(line: int, values: Mapping[str, object]) -> SellerRow:
    """Return one row of named values."""
    try:
        return SellerRow(line, *_read(values))
    except SellerwatchError as error:
        return SellerRow(line, error=error)


def _csv_rows(text: str) -> list[SellerRow]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[SellerRow] = []
    names: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = [cell.strip() for cell in cells]
            elif len(cells) != len(names):
                problem = f"it has {len(cells)} cells, and the first line has {len(names)}"
                rows.append(SellerRow(reader.line_num, error=UnreadableRow(problem)))
            else:
                given = {name: cell for name, cell in zip(names, cells, strict=True) if cell.strip()}
                rows.append(row_of(reader.line_num, given))
    except csv.Error as error:
        rows.append(SellerRow(reader.line_num, error=UnreadableRow(str(error))))
    return rows


def _json_rows(text: str) -> list[SellerRow]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                values = orjson.loads(line)
            except ValueError:
                values = None
            is_object = isinstance(values, dict)
            error = None if is_object else UnreadableRow("it is not a JSON object")
            rows.append(row_of(number, values) if is_object else SellerRow(number, error=error))
    return rows


def _read(values: Mapping[str, object]) -> tuple[SellerId, str, CrawlingInterval | None]:
    unknown = [name for name in values if name not in COLUMNS]
    if unknown:
        raise UnreadableRow(f"{unknown[0][:50]!r} is not one of {', '.join(COLUMNS)}")
    seller_id, name = values.get("sellerId"), values.get("name")
    if not isinstance(seller_id, str) or not isinstance(name, str):
        raise UnreadableRow("sellerId and name are needed, as texts")
    return SellerId.parse_new(seller_id), name, _interval(values.get("interval"), values.get("crawlingIntervalDays"))


def _interval(text: object, days: object) -> CrawlingInterval | None:
    if text is not None and days is not None:
        raise UnreadableRow("give interval or crawlingIntervalDays, not both")
    if isinstance(text, str):
        return CrawlingInterval.of_text(text)
    if isinstance(days, str) and days.strip().isdecimal() and len(days) < 10:
        days = int(days)
    if isinstance(days, int) and not isinstance(days, bool):
        return CrawlingInterval.of_days(days)
    if text is not None or days is not None:
        raise UnreadableRow("interval is a text such as 1d or 6h, crawlingIntervalDays a number")
    return None
