"""Taking parts into products: what is new is kept, what is another seller's is left alone."""

from __future__ import annotations

import pytest
from tests.builders import (
    ITEM,
    LATER,
    NOW,
    SELLER,
    a_complete_product,
    a_product,
    detail_facts,
    execution_id,
    list_facts,
    option_facts,
    product_id,
    seller_id,
)

from sellerwatch.catalog.absorb import EntryCache, EntryChanges, Part, ProductBatch, absorb_entry, absorb_part
from sellerwatch.catalog.facts import NormalizedPart
from sellerwatch.catalog.product import ForeignProduct, PartType, Product, ProductEvent
from sellerwatch.kernel.ids import ItemNo, SellerId

OTHER = seller_id(2)


def entry(**changes: object) -> Part:
    facts = list_facts(**changes)
    return Part.of(PartType.MINISHOP, facts.item_no, facts, b"entry")


def detail(**changes: object) -> Part:
    return Part.of(PartType.DETAIL, ITEM, detail_facts(**changes), b"detail")


def options() -> Part:
    return Part.of(PartType.OPTION, ITEM, option_facts(), b"options")


def shelf_of(*products: Product) -> ProductBatch:
    return ProductBatch({product.item_no: product for product in products})


def listed(product_batch: ProductBatch, part: Part | None = None, by: SellerId = SELLER) -> Product | None:
    return absorb_entry(product_batch, part or entry(), product_id(9), by, execution_id(2), LATER)


def test_a_part_knows_the_digest_of_its_facts() -> None:
    assert detail().digest == NormalizedPart.of(detail_facts()).digest


def test_an_unknown_item_on_a_page_becomes_a_product_of_the_pages_seller() -> None:
    product_batch = shelf_of()
    product = listed(product_batch)
    assert product is not None
    assert (product.product_id, product.item_no, product.seller_id) == (product_id(9), ITEM, SELLER)
    assert (product.last_seen_execution, product.last_seen_at) == (execution_id(2), LATER)
    assert product.minishop_hash == entry().digest
    assert product_batch.take_products() == ([product], [], [])


def test_a_known_item_is_the_same_product_and_seen_in_this_run() -> None:
    known = a_complete_product(minishop_hash=entry().digest)
    product_batch = shelf_of(known)
    product = listed(product_batch)
    assert product is not None
    assert (product.product_id, product.last_seen_execution) == (known.product_id, execution_id(2))
    assert not product.is_changed
    assert product_batch.take_products() == ([], [], [product])
    assert product_batch.raws == [], "a body is kept only when its part changed"


def test_an_item_that_stands_twice_on_the_list_of_a_run_is_one_product() -> None:
    product_batch = shelf_of()
    first, second = listed(product_batch), listed(product_batch)
    assert first == second
    assert product_batch.take_products() == ([first], [], [])
    assert len(product_batch.raws) == 1


def test_all_three_parts_complete_a_product_and_their_bodies_are_kept_as_they_came() -> None:
    product_batch = shelf_of()
    listed(product_batch)
    absorb_part(product_batch, detail(), SELLER, LATER)
    product = absorb_part(product_batch, options(), SELLER, LATER)
    assert product is not None
    assert product.due_event() is ProductEvent.CREATED
    kept = [(raw.product_id, raw.part, raw.digest, raw.body, raw.created_at) for raw in product_batch.raws]
    assert kept == [
        (product_id(9), PartType.MINISHOP, entry().digest, b"entry", LATER),
        (product_id(9), PartType.DETAIL, detail().digest, b"detail", LATER),
        (product_id(9), PartType.OPTION, options().digest, b"options", LATER),
    ]
    assert product_batch.take_products() == ([product], [], []), (
        "a product that is new is added, whatever else happened to it"
    )


def test_a_part_that_is_as_it_was_changes_and_writes_nothing() -> None:
    known = a_complete_product(detail_hash=detail().digest)
    product_batch = shelf_of(known)
    assert absorb_part(product_batch, detail(), SELLER, LATER) is known
    assert product_batch.take_products() == ([], [], [])
    assert product_batch.raws == []


def test_a_part_that_changed_is_kept_and_the_product_has_something_to_tell() -> None:
    product_batch = shelf_of(a_complete_product(detail_hash=detail().digest))
    product = absorb_part(product_batch, detail(stock=99), SELLER, LATER)
    assert product is not None
    assert (product.due_event(), product.detail_hash) == (ProductEvent.UPDATED, detail(stock=99).digest)
    assert [raw.part for raw in product_batch.raws] == [PartType.DETAIL]
    assert product_batch.take_products() == ([], [product], [])


def test_the_facts_of_a_part_are_at_hand_for_its_event_whether_or_not_it_changed() -> None:
    product_batch = shelf_of(a_complete_product(detail_hash=detail().digest))
    absorb_part(product_batch, detail(), SELLER, LATER)
    assert product_batch.normalized == {(ITEM, PartType.DETAIL): NormalizedPart.of(detail_facts())}


@pytest.mark.parametrize("part", [detail(), options()], ids=["detail", "options"])
def test_a_part_of_a_product_that_is_not_there_is_left(part: Part) -> None:
    product_batch = shelf_of()
    assert absorb_part(product_batch, part, SELLER, LATER) is None
    assert product_batch.take_products() == ([], [], [])
    assert product_batch.raws == []


def test_an_item_whose_detail_named_another_seller_is_never_taken_from_it() -> None:
    owned = a_complete_product(seller_id=OTHER, missing_runs=1)
    product_batch = shelf_of(owned)
    assert listed(product_batch, entry(tags=("stolen",))) is None
    assert product_batch.products[ITEM] is owned
    assert product_batch.take_products() == ([], [], [])
    assert product_batch.raws == []


def test_a_detail_that_names_another_seller_is_not_taken_in() -> None:
    product_batch = shelf_of(a_product(minishop_hash="a" * 32, option_hash="c" * 32))
    with pytest.raises(ForeignProduct) as refusal:
        absorb_part(product_batch, detail(seller_id=OTHER), SELLER, LATER)
    assert refusal.value.facts == {"item_no": ITEM, "seller_id": SELLER, "owner": OTHER}
    product = product_batch.products[ITEM]
    assert (product.seller_id, product.detail_hash, product.due_event()) == (OTHER, None, None)
    assert product_batch.raws == []


def test_a_detail_of_anothers_product_does_not_touch_what_its_owner_knows_of_it() -> None:
    owned = a_complete_product(seller_id=OTHER)
    product_batch = shelf_of(owned)
    with pytest.raises(ForeignProduct):
        absorb_part(product_batch, detail(seller_id=OTHER, stock=0), SELLER, LATER)
    assert product_batch.products[ITEM] is owned
    assert product_batch.take_products() == ([], [], [])


def test_until_a_detail_has_said_whose_it_is_a_product_stands_with_whoever_showed_it_first() -> None:
    product_batch = shelf_of(a_product(seller_id=OTHER))
    product = listed(product_batch)
    assert product is not None
    assert product.seller_id == OTHER
    assert product.last_seen_execution is None, "seen on the list of a seller that it may not belong to"


def test_the_detail_gives_a_product_to_its_owner() -> None:
    product_batch = shelf_of(a_product(seller_id=OTHER))
    product = absorb_part(product_batch, detail(seller_id=SELLER), SELLER, LATER)
    assert product is not None
    assert (product.seller_id, product.detail_hash) == (SELLER, detail().digest)


def test_a_product_that_changed_hands_goes_with_its_detail() -> None:
    product_batch = shelf_of(a_complete_product(seller_id=OTHER))
    product = absorb_part(product_batch, detail(seller_id=SELLER), SELLER, LATER)
    assert product is not None
    assert (product.seller_id, product.due_event()) == (SELLER, ProductEvent.UPDATED)


def test_what_is_written_stands_in_a_fixed_order() -> None:
    product_batch = shelf_of(*(a_product(number) for number in (3, 1, 2)))
    for number in (9, 7, 8):
        listed(product_batch, entry(item_no=ItemNo(900000000 + number)))
    for number in (2, 3, 1):
        product_batch.put(a_product(number, updated_at=NOW))
    added, saved, _ = product_batch.take_products()
    assert [product.item_no % 10 for product in added] == [7, 8, 9]
    assert [product.item_no % 10 for product in saved] == [1, 2, 3]


# List entries, kept until the event of their product.


def read_list(entries: EntryCache, part: Part) -> tuple[ProductBatch, Product]:
    page = ProductBatch({}, entries=entries)
    product = absorb_entry(page, part, product_id(9), SELLER, execution_id(), LATER)
    assert product is not None
    return page, product


def recalled(entries: EntryCache, product: Product) -> ProductBatch:
    batch = ProductBatch({ITEM: product}, entries=entries)
    batch.recall(ITEM)
    return batch


def test_a_list_entry_is_at_hand_for_the_event_once() -> None:
    entries = EntryCache()
    page, product = read_list(entries, entry())
    entries.update(page.entry_changes)
    later = recalled(entries, product)
    assert later.normalized == {(ITEM, PartType.MINISHOP): entry().normalized}
    entries.update(later.entry_changes)
    assert recalled(entries, product).normalized == {}


def test_the_cache_of_entries_changes_only_after_the_commit() -> None:
    entries = EntryCache()
    page, product = read_list(entries, entry())
    assert recalled(entries, product).normalized == {}
    entries.update(page.entry_changes)
    # The first of two runs is rolled back: the second finds what the first one found.
    assert recalled(entries, product).normalized == recalled(entries, product).normalized != {}


def test_an_older_list_entry_is_not_taken_for_the_present_one() -> None:
    entries = EntryCache()
    page, _ = read_list(entries, entry())
    entries.update(page.entry_changes)
    newer = a_complete_product(minishop_hash=entry(tags=("new",)).digest)
    assert recalled(entries, newer).normalized == {}


def test_an_entry_read_and_used_in_one_batch_is_not_kept() -> None:
    entries = EntryCache()
    page, product = read_list(entries, entry())
    page.recall(ITEM)
    entries.update(page.entry_changes)
    assert recalled(entries, product).normalized == {}


def test_a_full_cache_drops_the_entries_used_least_recently() -> None:
    entries, said = EntryCache(), NormalizedPart.of(list_facts())
    for number in range(EntryCache.MOST):
        entries.update(EntryChanges({(ItemNo(number + 1), "d"): said}))
    entries.update(EntryChanges({(ItemNo(1), "d"): said}))
    entries.update(EntryChanges({(ItemNo(EntryCache.MOST + 1), "d"): said}))
    kept = [number for number in (1, 2, 3, EntryCache.MOST + 1) if entries.get((ItemNo(number), "d")) is not None]
    assert kept == [1, 3, EntryCache.MOST + 1]
