"""Products as files: CSV for spreadsheets, JSON lines for scripts, Parquet for analysis.

Products are written page by page, so that memory does not grow with the catalogue. A file is written under a temporary
name and renamed when it is complete: an interrupted export leaves the old file, or none.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import orjson

from sellerwatch.cli.output import DataOutput, data_out
from sellerwatch.cli.product_tables import FAMILY
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import Failed, Invalid
from sellerwatch.kernel.untrusted_text import without_formula

if TYPE_CHECKING:
    from sellerwatch.catalog.queries import CurrentProduct

#: The size of a group of rows of Parquet: whichever is reached first.
GROUP_ROWS = 5000
GROUP_CHARACTERS = 8_000_000

Write = Callable[[Sequence["CurrentProduct"]], None]


@dataclass(eq=False)
class PyarrowMissing(Invalid):
    """Parquet was asked for, and the optional package is not installed."""


@dataclass(eq=False)
class InvalidTarget(Invalid):
    """A place that cannot be written to in this way."""

    target: str
    problem: str


@dataclass(eq=False)
class FileUnwritable(Failed):
    """The file cannot be written: a full disk, or missing rights."""

    path: str
    problem: str


def target_of(output: str, format_: str, *, as_json: bool) -> Path | None:
    """Return the file to write; None for standard output. Refuse a place that cannot be written to."""
    if output == "-":
        if as_json:
            raise _invalid("stdout", "json")
        if format_ == "parquet" and sys.stdout.isatty():
            raise _invalid("terminal", "binary")
        return None
    path = Path(os.path.realpath(output))
    if path.exists() and not path.is_file():
        raise InvalidTarget(output, Texts(FAMILY)("target.no_file"))
    if not path.parent.is_dir():
        raise InvalidTarget(output, Texts(FAMILY)("target.no_folder"))
    return path


def _invalid(target: str, problem: str) -> InvalidTarget:
    text = Texts(FAMILY)
    return InvalidTarget(text(f"target.{target}"), text(f"target.{problem}"))


@contextmanager
def open_export(format_: str, target: Path | None) -> Iterator[Write]:
    """Yield the function that writes a page. The file is in place when the block has ended without an error."""
    as_format: Any = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[format_]
    if format_ == "parquet":
        _pyarrow()
    if target is None:
        # On a terminal only text is written: Parquet was refused.
        with as_format(data_out if sys.stdout.isatty() else sys.stdout.buffer) as write:
            yield write
        sys.stdout.buffer.flush()
        return
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with _as_refusals(target), part.open("xb") as file:
            with as_format(file) as write:
                yield write
            file.flush()
            os.fsync(file.fileno())
        with _as_refusals(target):
            part.replace(target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def _as_refusals(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileUnwritable(str(target), error.strerror or str(error)) from error


def flat(current: CurrentProduct) -> dict[str, Any]:
    """Return the row of a product: prices and brand have columns of their own, lists and shipping are nested."""
    product, data = current.product, current.data
    brand, prices = data.get("brand") or {}, data.get("prices") or {}
    return {
        "itemNo": int(product.item_no),
        "sellerId": str(product.seller_id),
        "version": product.version,
        "name": data.get("name"),
        "brandCode": brand.get("code"),
        "brandName": brand.get("name"),
        "brandNameKr": brand.get("nameKr"),
        "priceNormal": prices.get("normal"),
        "priceSelling": prices.get("selling"),
        "priceDiscount": prices.get("discount"),
        "priceRate": prices.get("rate"),
        "stock": data.get("stock"),
        "soldOut": data.get("soldOut"),
        "itemStatus": data.get("itemStatus"),
        "originCountry": data.get("originCountry"),
        "categories": data.get("categories"),
        "shipping": data.get("shipping"),
        "options": data.get("options"),
        "images": data.get("images"),
        "tags": data.get("tags"),
        "descriptionHtml": data.get("descriptionHtml"),
        "lastSeenAt": product.last_seen_at,
        "updatedAt": product.updated_at,
    }


COLUMNS = (
    *("itemNo", "sellerId", "version", "name", "brandCode", "brandName", "brandNameKr"),
    *("priceNormal", "priceSelling", "priceDiscount", "priceRate", "stock", "soldOut", "itemStatus", "originCountry"),
    *("categories", "shipping", "options", "images", "tags", "descriptionHtml", "lastSeenAt", "updatedAt"),
)


def csv_cell(value: Any) -> str | int | None:
    """Return the cell of a value: a formula gets an apostrophe in front, nested values are JSON."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        return without_formula(value)
    if isinstance(value, bool | list | Mapping):
        return orjson.dumps(value).decode()
    return None if value is None else stamp(value)


@contextmanager
def _csv(file: IO[bytes] | DataOutput) -> Iterator[Write]:
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(COLUMNS)

    def write(page: Sequence[CurrentProduct]) -> None:
        rows.writerows([csv_cell(value) for value in flat(current).values()] for current in page)
        file.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()

    write(())
    yield write


@contextmanager
def _jsonl(file: IO[bytes] | DataOutput) -> Iterator[Write]:
    def write(page: Sequence[CurrentProduct]) -> None:
        for current in page:
            file.write(orjson.dumps(line_json(current), option=orjson.OPT_APPEND_NEWLINE))

    yield write


def line_json(current: CurrentProduct) -> dict[str, Any]:
    product = current.product
    return {
        "itemNo": product.item_no,
        "sellerId": product.seller_id,
        "version": product.version,
        "lastSeenAt": None if product.last_seen_at is None else stamp(product.last_seen_at),
        "updatedAt": stamp(product.updated_at),
        "productData": current.data,
    }


@contextmanager
def _parquet(file: IO[bytes]) -> Iterator[Write]:
    arrow, parquet = _pyarrow()
    schema = _schema(arrow)
    rows: list[dict[str, Any]] = []
    characters = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:

        def write_group() -> None:
            nonlocal characters
            if rows:
                writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            rows.clear()
            characters = 0

        def write(page: Sequence[CurrentProduct]) -> None:
            nonlocal characters
            for current in page:
                row = flat(current)
                rows.append(row)
                characters += len(row["descriptionHtml"] or "")
            if len(rows) >= GROUP_ROWS or characters >= GROUP_CHARACTERS:
                write_group()

        yield write
        write_group()


def _schema(arrow: Any) -> Any:
    text, whole, when = arrow.string(), arrow.int64(), arrow.timestamp("us", tz="UTC")
    category = arrow.struct([("level", text), ("code", text), ("name", text)])
    shipping = arrow.struct([("type", text), ("fee", whole), ("feeType", text), ("averageDays", whole)])
    option = arrow.struct([("optionNo", whole), ("color", text), ("size", text), ("stock", whole), ("sizeGuide", text)])
    kinds = {
        **dict.fromkeys(("itemNo", "version", "brandCode", "stock"), whole),
        **dict.fromkeys(("priceNormal", "priceSelling", "priceDiscount", "priceRate"), whole),
        **dict.fromkeys(("images", "tags"), arrow.list_(text)),
        **dict.fromkeys(("lastSeenAt", "updatedAt"), when),
        "soldOut": arrow.bool_(),
        "categories": arrow.list_(category),
        "shipping": shipping,
        "options": arrow.list_(option),
    }
    return arrow.schema([(name, kinds.get(name, text)) for name in COLUMNS])


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - optional, and heavy
        from pyarrow import parquet  # noqa: PLC0415 - optional, and heavy
    except ImportError:
        raise PyarrowMissing from None
    return pyarrow, parquet
