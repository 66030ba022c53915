"""`sellerwatch products export`: every complete product, whole files, and nothing a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from tests.builders import NOW, a_complete_product

from sellerwatch.catalog.facts import BLANK
from sellerwatch.catalog.queries import CurrentProduct
from sellerwatch.cli.product_export import COLUMNS, csv_cell, flat, open_export

from .cli_world import AWKWARD, ONE, TWO, CliWorld, CrawledProducts
from .conftest import clean_environment, refused


@pytest.fixture
def shop(world: CliWorld) -> CrawledProducts:
    """Three products; one has an awkward name, one a name that is a formula."""
    made = CrawledProducts(world)
    made.change(made.items[0], name=AWKWARD)
    made.change(made.items[1], name='=HYPERLINK("http://evil.test")', tags=("-1+1", "세일"))
    made.crawl()
    return made


def exported(shop: CrawledProducts, format_: str, *options: str) -> bytes:
    """What goes to standard output, byte for byte."""
    done = subprocess.run(
        [sys.executable, "-m", "sellerwatch", "products", "export", "--format", format_, *options],
        env=clean_environment(DATABASE_URL=f"sqlite:///{shop.world.file}"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout


def test_csv_has_a_row_for_each_product_with_korean_intact(shop: CrawledProducts) -> None:
    rows = {int(row["itemNo"]): row for row in csv.DictReader(io.StringIO(exported(shop, "csv").decode(), newline=""))}
    assert sorted(rows) == sorted(shop.items)
    for item in shop.items:
        truth, row = shop.truth(item), rows[item]
        assert int(row["priceSelling"]) == truth["prices"]["selling"]
        assert (row["brandNameKr"] or None, row["sellerId"]) == (truth["brand"]["nameKr"], ONE)
        for nested in ("options", "images", "tags", "categories", "shipping"):
            assert json.loads(row[nested]) == truth[nested]
        assert json.loads(row["soldOut"]) is truth["soldOut"]
    assert rows[shop.items[0]]["name"] == AWKWARD
    assert rows[shop.items[1]]["name"] == '\'=HYPERLINK("http://evil.test")'


def test_json_lines_hold_the_whole_product(shop: CrawledProducts) -> None:
    lines = [json.loads(line) for line in exported(shop, "jsonl").splitlines()]
    assert {line["itemNo"]: line["productData"] for line in lines} == {item: shop.truth(item) for item in shop.items}
    assert {line["version"] for line in lines} == {1}
    assert exported(shop, "jsonl", "--seller", TWO) == b""


def test_parquet_holds_typed_columns(shop: CrawledProducts, tmp_path: Path) -> None:
    said = shop.world.json("products", "export", "--format", "parquet", "-o", "products.parquet")
    assert said == {"products": 3, "format": "parquet", "file": str(tmp_path / "products.parquet")}
    table = parquet.read_table(tmp_path / "products.parquet")
    assert tuple(table.column_names) == COLUMNS
    for row in table.to_pylist():
        truth = shop.truth(row["itemNo"])
        assert {
            name: row[name] for name in ("name", "stock", "options", "images", "tags", "categories", "shipping")
        } == {name: truth[name] for name in ("name", "stock", "options", "images", "tags", "categories", "shipping")}
        assert row["priceNormal"] == truth["prices"]["normal"]
        assert row["updatedAt"].tzinfo is not None
        assert row["updatedAt"].astimezone(UTC) == shop.product(row["itemNo"]).updated_at
    assert parquet.read_table(io.BytesIO(exported(shop, "parquet"))).num_rows == 3


def test_the_same_file_is_replaced_whole_and_nothing_is_left_beside_it(shop: CrawledProducts, tmp_path: Path) -> None:
    target = tmp_path / "out" / "상품.csv"
    target.parent.mkdir()
    target.write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    assert "3 products were written" in shop.world.said("products", "export", "--format", "csv", "-o", str(link))
    assert link.is_symlink()
    assert len(target.read_bytes().split(b"\r\n")) > 3
    assert [path.name for path in target.parent.iterdir()] == ["상품.csv"]


def test_an_empty_catalogue_is_an_empty_file_with_its_columns(world: CliWorld, tmp_path: Path) -> None:
    assert "0 products" in world.said("products", "export", "--format", "csv", "-o", "none.csv")
    assert (tmp_path / "none.csv").read_text("utf-8").strip() == ",".join(COLUMNS)
    world.said("products", "export", "--format", "parquet", "-o", "none.parquet")
    assert parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    # A process that a shell started in the background ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    target = tmp_path / "products.jsonl"
    target.write_text("old")

    def interrupted() -> None:
        with open_export("jsonl", target) as write:
            write([CurrentProduct(a_complete_product(), dict(BLANK))])
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigtimedwait([signal.SIGUSR1], 5)

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["products.jsonl"]


def test_a_place_that_cannot_be_written_is_one_sentence(world: CliWorld, tmp_path: Path) -> None:
    def said(*options: str) -> str:
        return refused(world("products", "export", "--format", "csv", *options), 2)

    assert "there is no such folder" in said("-o", "nowhere/products.csv")
    assert "is no file" in said("-o", str(tmp_path))
    assert "is no file" in said("-o", "/dev/null")
    assert "name a file with -o" in said("--json")
    assert world("products", "export").returncode == 2
    assert "no seller nobody" in refused(world("products", "export", "--format", "csv", "--seller", "nobody"), 1)


def test_without_pyarrow_parquet_is_refused_with_the_way_to_get_it(world: CliWorld, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; from sellerwatch.cli.main import main;"
        " sys.argv = ['sellerwatch', 'products', 'export', '--format', 'parquet', '-o', 'p.parquet']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=clean_environment(DATABASE_URL=f"sqlite:///{world.file}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'sellerwatch[parquet]'" in refused(done, 2)
    assert not (tmp_path / "p.parquet").exists()


#: The signs as they are typed, and full-width.
FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")


@given(
    st.one_of(
        st.text(), st.sampled_from(FORMULA_STARTS).flatmap(lambda start: st.text().map(lambda rest: start + rest))
    )
)
def test_no_text_is_ever_a_formula_and_none_is_lost(text: str) -> None:
    cell = csv_cell(text)
    assert isinstance(cell, str)
    assert not cell.startswith(FORMULA_STARTS)
    assert cell.removeprefix("'" if text.startswith(FORMULA_STARTS) else "") == text


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, None),
        (-5, -5),
        (True, "true"),
        (["-1"], '["-1"]'),
        ({"a": "값"}, '{"a":"값"}'),
        (NOW, "2026-11-15T06:04:05.123456Z"),
    ],
)
def test_what_is_no_text_is_told_as_it_is(value: Any, cell: Any) -> None:
    assert csv_cell(value) == cell


def test_a_row_has_the_columns_in_their_order() -> None:
    assert tuple(flat(CurrentProduct(a_complete_product(), {}))) == COLUMNS
