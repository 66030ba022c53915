"""The parser against the simulator, which knows the truth and shares no code with it; and against rubbish."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import digest_of, whole_of
from tests.marketplaces.bodies import ITEM_NO, a_detail, a_page, an_entry, an_option, encoded

from sellerwatch.catalog.facts import Facts
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.marketplaces.mustit.fields import unknown_fields
from sellerwatch.marketplaces.mustit.parse import read_detail, read_entry, read_list, read_options
from sellerwatch.simulator.changes import CHANGES
from sellerwatch.simulator.rendering import Redesign, Renderer
from sellerwatch.simulator.world import World

SELLERS, PRODUCTS = 2, 45
"""Every oddity of the simulator's products comes once in forty."""


def parts(world: World, renderer: Renderer, item_no: int) -> tuple[Any, Any, Any]:
    """The three parts as one crawl reads them."""
    product = world.product(item_no)
    assert product is not None
    number = ItemNo(item_no)
    listed = read_list(renderer.list_page(1, [product]), 500).entries[0]
    assert read_entry(listed.raw) == listed.facts
    return (
        listed.facts,
        read_detail(renderer.detail(product), number),
        read_options(renderer.options(product), number),
    )


def digests(read: tuple[Facts, ...]) -> list[str]:
    return [digest_of(part) for part in read]


def everything(world: World) -> list[int]:
    return [item_no for seller_id in world.sellers for item_no in world.listing(seller_id)]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_read_is_the_truth_for_every_product_of_a_world(seed: int) -> None:
    world, renderer = World(seed, SELLERS, PRODUCTS, detail_kb=5), Renderer(seed)
    for item_no in everything(world):
        assert whole_of(*parts(world, renderer, item_no)) == world.truth(item_no)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_stays_the_truth_when_the_world_changes(seed: int) -> None:
    world, renderer, rng = World(seed, SELLERS, PRODUCTS, detail_kb=5), Renderer(seed), random.Random(seed)
    for _ in range(5):
        world.mutate(40, rng)
        for item_no in everything(world):
            assert whole_of(*parts(world, renderer, item_no)) == world.truth(item_no)


@pytest.mark.parametrize("seed", range(3))
def test_the_digest_is_the_same_however_volatile_fields_and_orders_vary(seed: int) -> None:
    world = World(seed, SELLERS, PRODUCTS, detail_kb=5)
    renderers = [Renderer("one"), Renderer("two"), Renderer("still", volatile=False)]
    for item_no in everything(world):
        assert len({tuple(digests(parts(world, renderer, item_no))) for renderer in renderers * 2}) == 1


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_every_change_of_a_product_changes_a_digest(change: str) -> None:
    world, renderer, rng = World(1, 1, PRODUCTS, detail_kb=5), Renderer(1), random.Random(1)
    seen = 0
    for item_no in everything(world):
        before = digests(parts(world, renderer, item_no))
        with suppress(ValueError):  # this change changes nothing about that product
            world.change(item_no, rng, change)
            assert digests(parts(world, renderer, item_no)) != before
            seen += 1
    assert seen > PRODUCTS // 2


def test_a_move_to_another_place_on_the_page_is_no_change() -> None:
    world, renderer = World(1, 1, 10, detail_kb=5), Renderer(1)
    products = [world.product(item_no) for item_no in everything(world)]
    known = [product for product in products if product is not None]
    forth = {e.facts.item_no: digest_of(e.facts) for e in read_list(renderer.list_page(10, known), 10).entries}
    back = {e.facts.item_no: digest_of(e.facts) for e in read_list(renderer.list_page(10, known[::-1]), 10).entries}
    assert forth == back


def test_a_redesign_is_refused_and_never_read_as_a_change() -> None:
    world, renderer = World(1, 1, 5, detail_kb=5), Renderer(1)
    renderer.redesign(Redesign())
    for item_no in everything(world):
        with pytest.raises(Unparsable, match=r"ProductInfoModule\.itemName: missing"):
            parts(world, renderer, item_no)


def test_the_simulator_has_no_field_that_is_unknown() -> None:
    world, renderer = World(1, 1, 45, detail_kb=5), Renderer(1)
    for item_no in everything(world):
        product = world.product(item_no)
        assert product is not None
        assert unknown_fields("list", orjson.loads(renderer.list_page(1, [product]))) == ()
        assert unknown_fields("detail", orjson.loads(renderer.detail(product))) == ()
        assert unknown_fields("options", orjson.loads(renderer.options(product))) == ()


READINGS: dict[str, Callable[[bytes], Any]] = {
    "list": partial(read_list, size=500),
    "entry": read_entry,
    "detail": lambda body: read_detail(body, ItemNo(ITEM_NO)),
    "options": lambda body: read_options(body, ItemNo(ITEM_NO)),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
GOOD = {"list": a_page(an_entry(), an_entry(2)), "entry": an_entry(), "detail": a_detail(), "options": [an_option()]}


def read_or_refuse(reading: str, body: bytes) -> None:
    """Whatever comes in: facts that can be digested, or `Unparsable`."""
    try:
        read = READINGS[reading](body)
    except Unparsable:
        return
    for facts in [entry.facts for entry in read.entries] if reading == "list" else [read]:
        digest_of(facts)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value with every key in it."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def json_bytes(value: Any) -> bytes:
    """As the standard library writes it: numbers of any size, where orjson has 64 bits."""
    return json.dumps(value).encode()


@pytest.mark.parametrize("reading", sorted(READINGS))
@given(body=st.binary(max_size=200))
def test_random_bytes_are_refused_and_nothing_else_happens(reading: str, body: bytes) -> None:
    read_or_refuse(reading, body)


@pytest.mark.parametrize("reading", sorted(READINGS))
@given(value=JSON)
def test_any_json_is_read_or_refused(reading: str, value: Any) -> None:
    read_or_refuse(reading, json_bytes(value))


@pytest.mark.parametrize("reading", sorted(READINGS))
@given(data=st.data())
@settings(max_examples=300)
def test_a_good_answer_with_any_value_anywhere_is_read_or_refused(reading: str, data: st.DataObject) -> None:
    value = orjson.loads(encoded(GOOD[reading]))
    for _ in range(data.draw(st.integers(1, 3))):
        here = places(value)
        if not here:
            break
        container, key = here[data.draw(st.integers(0, len(here) - 1))]
        if data.draw(st.booleans()):
            container[key] = data.draw(JSON)
        else:
            del container[key]
    read_or_refuse(reading, json_bytes(value))


@pytest.mark.parametrize("reading", sorted(READINGS))
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_good_answer_that_breaks_off_is_refused(reading: str, share: float) -> None:
    body = encoded(GOOD[reading])
    with pytest.raises(Unparsable, match="not JSON"):
        READINGS[reading](body[: int(len(body) * share)])
