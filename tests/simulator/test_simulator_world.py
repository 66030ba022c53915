"""The world: the truth behind the simulator."""

import subprocess
import sys
import tracemalloc
from random import Random

import pytest

from sellerwatch.simulator.changes import CHANGES
from sellerwatch.simulator.world import CHANGES_ONLY, STRANGER, MutationKind, World

FIRST = 900_000_001


def small_world() -> World:
    return World(seed=7, sellers=2, products_per_seller=50)


def test_sellers_have_the_products_asked_for_newest_first() -> None:
    world = small_world()
    assert world.sellers == ("seller_0001", "seller_0002")
    assert len(world) == 100
    assert world.count("seller_0002") == 50
    assert list(world.listing("seller_0001", 0, 2)) == [FIRST + 49, FIRST + 48]
    assert list(world.listing("seller_0002", 48)) == [FIRST + 51, FIRST + 50]


def test_an_unknown_seller_has_nothing() -> None:
    world = small_world()
    assert world.count("nobody") == 0
    assert list(world.listing("nobody")) == []


def test_the_truth_has_the_shape_of_an_event() -> None:
    truth = small_world().truth(FIRST)
    assert truth is not None
    names = "itemNo sellerId name brand categories prices stock soldOut itemStatus originCountry shipping images"
    assert list(truth) == [*names.split(), "descriptionHtml", "options", "tags"]
    assert list(truth["brand"]) == ["code", "name", "nameKr"]
    assert list(truth["prices"]) == ["normal", "selling", "discount", "rate"]
    assert list(truth["shipping"]) == ["type", "fee", "feeType", "averageDays"]
    assert [list(option) for option in truth["options"][:1]] == [["optionNo", "color", "size", "stock", "sizeGuide"]]


def test_option_numbers_need_64_bits_and_are_unique() -> None:
    numbers = [option["optionNo"] for _, truth in small_world().catalogue() for option in truth["options"]]
    assert min(numbers) > 2**32
    assert len(set(numbers)) == len(numbers)


def test_forty_products_meet_every_oddity() -> None:
    truths = [truth for _, truth in World(seed=7, sellers=1, products_per_seller=40).catalogue()]
    everything = str(truths)
    assert "<script>" in everything
    assert "🔥" in everything
    assert any(len(truth["categories"]) == 3 for truth in truths)
    assert any(truth["options"] == [] and truth["soldOut"] for truth in truths)
    assert any(truth["options"] == [] and not truth["soldOut"] for truth in truths)
    assert any(truth["shipping"]["averageDays"] is None for truth in truths)
    assert any(truth["brand"]["nameKr"] is None and truth["itemStatus"] is None for truth in truths)
    assert any(option["sizeGuide"] is None and option["color"] == "" for t in truths for option in t["options"])
    assert any("" in truth["tags"] for truth in truths)
    assert any(len(truth["options"]) == 80 for truth in truths)
    assert any(len(truth["descriptionHtml"].encode()) > 140_000 for truth in truths)


def test_images_of_list_and_detail_overlap_and_each_is_told_once() -> None:
    world = small_world()
    product = world.product(FIRST)
    truth = world.truth(FIRST)
    assert product is not None
    assert truth is not None
    assert set(product.list_images) & set(product.detail_images)
    assert len(truth["images"]) == len(set(truth["images"])) < len(product.list_images) + len(product.detail_images)
    assert truth["images"][: len(product.list_images)] == list(product.list_images)


@pytest.mark.parametrize("how", list(CHANGES))
def test_each_change_changes_what_a_server_must_be_told(how: str) -> None:
    world, rng = small_world(), Random("x")
    before = world.truth(FIRST)
    assert world.change(FIRST, rng, how).how == how
    assert world.truth(FIRST) != before


def test_many_changes_of_one_product_never_repeat_an_option_number() -> None:
    world, rng = small_world(), Random("x")
    for _ in range(300):
        world.change(FIRST, rng)
        truth = world.truth(FIRST)
        assert truth is not None
        numbers = [option["optionNo"] for option in truth["options"]]
        assert numbers == sorted(set(numbers))


def test_a_change_that_cannot_be_is_refused() -> None:
    world, rng = small_world(), Random("x")
    without_options = FIRST + 4
    with pytest.raises(ValueError, match="changes nothing"):
        world.change(without_options, rng, "remove option")


def test_a_new_product_is_on_top_of_the_list() -> None:
    world = small_world()
    done = world.appear("seller_0001")
    assert world.listing("seller_0001")[0] == done.item_no
    assert world.count("seller_0001") == 51
    truth = world.truth(done.item_no)
    assert truth is not None
    assert truth["sellerId"] == "seller_0001"


def test_a_vanished_product_is_gone_from_list_and_truth() -> None:
    world = small_world()
    world.vanish(FIRST)
    assert FIRST not in world.listing("seller_0001")
    assert world.truth(FIRST) is None
    with pytest.raises(KeyError):
        world.vanish(FIRST)


def test_a_bump_moves_a_product_to_the_top_and_changes_nothing_else() -> None:
    world = small_world()
    before = world.truth(FIRST)
    world.bump(FIRST)
    assert world.listing("seller_0001")[0] == FIRST
    assert world.truth(FIRST) == before
    assert len(world) == 100


def test_a_mutation_does_what_it_says() -> None:
    world, untouched = World(3, 3, 200), World(3, 3, 200)
    done = world.mutate(300, Random("x"))
    assert {mutation.kind for mutation in done} == set(MutationKind)
    for mutation in done:
        now, then = world.truth(mutation.item_no), untouched.truth(mutation.item_no)
        if mutation.kind is MutationKind.VANISHED:
            assert now is None
        elif mutation.kind is MutationKind.BUMPED:
            assert now == then
        else:
            assert now != then
    touched = {mutation.item_no for mutation in done}
    assert all(untouched.truth(item_no) == truth for item_no, truth in world.catalogue() if item_no not in touched)


def test_a_mutation_never_looks_like_a_mass_removal() -> None:
    world = World(3, 2, 100)
    done = world.mutate(10_000, Random("x"), {MutationKind.VANISHED: 1})
    assert sum(mutation.kind is MutationKind.VANISHED for mutation in done) == 20
    assert len(done) == 200


def test_a_mutation_of_changes_only_leaves_the_lists_alone() -> None:
    world = small_world()
    before = list(world.listing("seller_0001"))
    done = world.mutate(30, Random("x"), CHANGES_ONLY)
    assert {mutation.kind for mutation in done} == {MutationKind.CHANGED}
    assert list(world.listing("seller_0001")) == before


def test_a_stranger_is_somebody_elses_item_that_answers() -> None:
    rng = Random("x")
    world = small_world()
    assert world.seller_of(world.stranger_to("seller_0001", rng)) == "seller_0002"
    alone = World(1, 1, 10)
    item_no = alone.stranger_to("seller_0001", rng)
    product = alone.product(item_no)
    assert product is not None
    assert product.seller_id == STRANGER
    assert item_no not in dict(alone.catalogue())


HISTORY = """
import hashlib, orjson
from random import Random
from sellerwatch.simulator.world import World
world = World("s", 2, 60)
done = world.mutate(60, Random("x"))
print(hashlib.sha256(orjson.dumps([repr(done), [list(x) for x in world.catalogue()]])).hexdigest())
"""


def test_one_seed_gives_one_world_whatever_the_hash_seed() -> None:
    seen = {
        subprocess.run(
            [sys.executable, "-c", HISTORY],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(seen) == 1
    assert World(1, 1, 1).truth(FIRST) != World(2, 1, 1).truth(FIRST)


def test_200_000_products_take_little_memory() -> None:
    tracemalloc.start()
    try:
        world = World(seed=1, sellers=40, products_per_seller=5_000)
        for item_no in range(FIRST, FIRST + 200_000, 20):
            world.product(item_no)
        world.mutate(1_000, Random("x"), CHANGES_ONLY)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(world) == 200_000
    assert peak < 80 * 1024 * 1024
