"""/api/v1/changes and the page Changes: what changed, by seller, product, run, kind and time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.builders import NOW
from tests.web.console.conftest import Console, console  # noqa: F401

from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.reports.day_metrics import LATENCY_BOUNDS, HistogramView

from .api_world import ONE, TWO, ApiWorld

PATH = "/api/v1/changes"
CATALOGUE = Path(__file__).parents[2] / "docs/catalogue.md"


async def changed(world: ApiWorld) -> Sequence[int]:
    """Three products found, and then the first with another name, price and stock; return the items."""
    practice = await world.crawled()
    first = practice.items()[0]
    product = practice.world.product(first)
    assert product is not None
    prices = replace(product.prices, selling=product.prices.selling - 1000)
    practice.world.put(replace(product, name="other", prices=prices, stock=product.stock + 1))
    await practice.crawl()
    return practice.items()


async def test_changes_are_listed_newest_first_and_narrowed_by_everything(world: ApiWorld) -> None:
    first, *others = await changed(world)

    async def found(**choice: object) -> set[tuple[str, int]]:
        answer = await world.viewer.get(PATH, size=100, **choice)
        assert answer.json["next"] is None
        return {(each["kind"], each["itemNo"]) for each in answer.json["content"]}

    new = {("new", item) for item in (first, *others)}
    updated = {("text", first), ("price", first), ("stock", first)}
    assert await found() == new | updated
    assert await found(kind="price") == {("price", first)}
    assert await found(itemNo=others[0]) == {("new", others[0])}
    assert await found(sellerId=ONE) == new | updated
    page = (await world.viewer.get(PATH, size=100)).json["content"]
    assert [each["at"] for each in page] == sorted((each["at"] for each in page), reverse=True)
    (price,) = [each for each in page if each["field"] == "prices.selling"]
    assert price["before"] - price["after"] == 1000
    assert await found(executionId=price["executionId"]) == updated
    assert (await found(since=price["at"]), await found(until=price["at"])) == (updated, new)
    assert await found(sellerId=TWO) == set()
    assert (await world.viewer.get(PATH, sellerId="nobody")).status == 404
    assert (await world.viewer.get(PATH, kind="weather")).status == 400


async def test_the_page_is_narrowed_by_product_and_time(console: Console) -> None:  # noqa: F811
    world = console.world
    first, other, _ = await changed(world)
    page = await console.viewer.see(f"/changes?item={first}")
    assert f"/products/{first}" in page.text
    assert f"/products/{other}" not in page.text
    assert (await console.viewer.see("/changes?item=x")).status == 400
    await world.transact(
        lambda tx: tx.db.run("UPDATE changes SET created_at = :at WHERE kind = 'new'", {"at": NOW - timedelta(days=2)})
    )
    assert f"/products/{other}" not in (await console.viewer.see("/changes?period=day")).text
    assert f"/products/{other}" in (await console.viewer.see("/changes?period=week&kind=new")).text


def test_every_kind_is_documented_and_none_that_is_not() -> None:
    table = CATALOGUE.read_text("utf-8").partition("## Kinds of changes")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(ChangeKind)


def test_buckets_are_shown_in_the_order_of_their_bounds() -> None:
    shown = HistogramView.of({"10": 1, "inf": 2, "5": 3, "2500": 4}, LATENCY_BOUNDS)
    assert list(shown.buckets.items()) == [("5", 3), ("10", 1), ("2500", 4), ("inf", 2)]
    assert (shown.p50, shown.p95) == (2500, None)
