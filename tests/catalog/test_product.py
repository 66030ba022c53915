"""A product: three parts, complete once all are seen, and its numbered events."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.builders import ITEM, LATER, NOW, SELLER, a_complete_product, a_product, execution_id, product_id, seller_id

from sellerwatch.catalog.product import (
    EventOutOfOrder,
    ForeignProduct,
    PartType,
    Product,
    ProductEvent,
    ProductState,
    has_changed,
)
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import ItemNo

CREATED, UPDATED, DELETED = ProductEvent.CREATED, ProductEvent.UPDATED, ProductEvent.DELETED
ONE, TWO = "1" * 32, "2" * 32


def seen_whole(product: Product) -> Product:
    """All its parts read (again)."""
    for part in PartType:
        product, _ = product.see_part(part, ONE, LATER)
    return product


def test_a_new_product_is_incomplete_and_nobody_is_told() -> None:
    product = Product.create(product_id(), ITEM, SELLER, NOW)
    assert (product.state, product.is_complete, product.is_deleted) == (ProductState.INCOMPLETE, False, False)
    assert product.version == 0
    assert product.due_event() is None
    assert [product.hash_of(part) for part in PartType] == [None, None, None]


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [(None, None, False), (None, ONE, True), (ONE, None, True), (ONE, ONE, False), (ONE, TWO, True)],
)
def test_two_absent_hashes_are_equal_and_one_absent_is_a_change(
    old: str | None, new: str | None, changed: bool
) -> None:
    assert has_changed(old, new) is changed


@pytest.mark.parametrize("part", PartType)
def test_a_part_is_kept_and_says_whether_it_changed(part: PartType) -> None:
    seen, changed = a_product().see_part(part, ONE, LATER)
    assert (seen.hash_of(part), changed, seen.is_changed, seen.updated_at) == (ONE, True, True, LATER)
    assert [seen.hash_of(other) for other in PartType if other is not part] == [None, None]
    same, changed = seen.see_part(part, ONE, LATER + (LATER - NOW))
    assert (same, changed) == (seen, False)
    other, changed = seen.see_part(part, TWO, LATER)
    assert (other.hash_of(part), changed) == (TWO, True)


@pytest.mark.parametrize("order", list(permutations(PartType)))
def test_a_product_is_complete_once_all_three_parts_are_there_in_any_order(order: tuple[PartType, ...]) -> None:
    product = a_product()
    for part in order:
        assert not product.is_complete
        product, _ = product.see_part(part, ONE, NOW)
    assert product.is_complete
    assert product.state is ProductState.COMPLETE


@pytest.mark.parametrize("changed", [True, False])
def test_the_first_completion_is_a_creation(changed: bool) -> None:
    assert a_complete_product(version=0, is_changed=changed).due_event() is CREATED


def test_a_change_of_a_complete_product_is_an_update() -> None:
    changed, _ = a_complete_product().see_part(PartType.OPTION, ONE, LATER)
    assert changed.due_event() is UPDATED


def test_where_nothing_changed_nothing_is_told() -> None:
    assert a_complete_product().due_event() is None


def test_a_product_that_comes_back_is_created_again() -> None:
    gone = seen_whole(a_complete_product(version=4).announce(DELETED, LATER))
    assert gone.due_event() is CREATED
    back = gone.announce(CREATED, LATER)
    assert (back.state, back.deleted_at, back.version) == (ProductState.COMPLETE, None, 6)


def test_versions_rise_by_one_with_every_event_over_removal_and_return() -> None:
    product, versions = a_complete_product(version=0), []
    for event in (CREATED, UPDATED, UPDATED, DELETED, CREATED, UPDATED, DELETED):
        product = seen_whole(product).announce(event, LATER)
        versions.append(product.version)
    assert versions == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("event", [UPDATED, DELETED])
def test_what_was_told_is_no_change_any_more(event: ProductEvent) -> None:
    assert not a_complete_product(is_changed=True).announce(event, LATER).is_changed


def test_what_was_changed_back_is_nothing_to_tell() -> None:
    same = a_complete_product(version=3, is_changed=True).mark_unchanged(LATER)
    assert (same.due_event(), same.version, same.updated_at) == (None, 3, LATER)


def test_an_event_withdrawn_before_anybody_saw_it_gives_its_version_back() -> None:
    told = a_complete_product(version=3, is_changed=True).announce(UPDATED, NOW)
    back = told.withdraw_event(LATER)
    assert (back.version, back.is_changed, back.due_event()) == (3, False, None)


def test_the_detail_says_whose_an_item_is() -> None:
    product = a_product()
    assert product.belong_to(SELLER, LATER) is product
    other = product.belong_to(seller_id(2), LATER)
    assert (other.seller_id, other.updated_at, other.item_no) == (seller_id(2), LATER, product.item_no)


def test_a_deletion_is_stamped() -> None:
    gone = a_complete_product().announce(DELETED, LATER)
    assert (gone.state, gone.deleted_at, gone.updated_at) == (ProductState.DELETED, LATER, LATER)
    assert gone.is_deleted


def test_a_deletion_forgets_the_parts_but_not_the_number_of_events() -> None:
    gone = a_complete_product(version=3).announce(DELETED, LATER)
    assert [gone.hash_of(part) for part in PartType] == [None, None, None]
    assert (gone.version, gone.is_complete, gone.due_event()) == (4, False, None)


def test_a_product_that_comes_back_is_complete_only_when_all_its_parts_were_read_again() -> None:
    # Listed again, but its detail answers 404: "not DELETED: the task fails, the product stays as it was".
    gone = a_complete_product().announce(DELETED, NOW)
    listed, _ = gone.be_listed(execution_id(2), LATER).see_part(PartType.MINISHOP, ONE, LATER)
    assert (listed.due_event(), listed.state) == (None, ProductState.DELETED)


@pytest.mark.parametrize(
    ("product", "event"),
    [
        pytest.param(a_product(), CREATED, id="incomplete-created"),
        pytest.param(a_product(), UPDATED, id="incomplete-updated"),
        pytest.param(a_product(), DELETED, id="incomplete-deleted"),
        pytest.param(a_complete_product(version=0), UPDATED, id="never-created-updated"),
        pytest.param(a_complete_product(version=0), DELETED, id="never-created-deleted"),
        pytest.param(a_complete_product(version=1), CREATED, id="created-twice"),
        pytest.param(a_complete_product(version=2, deleted_at=NOW), UPDATED, id="deleted-updated"),
        pytest.param(a_complete_product(version=2, deleted_at=NOW), DELETED, id="deleted-twice"),
    ],
)
def test_an_event_that_is_not_due_is_refused(product: Product, event: ProductEvent) -> None:
    with pytest.raises(EventOutOfOrder) as refusal:
        product.announce(event, LATER)
    assert isinstance(refusal.value, Conflict)
    assert refusal.value.code == "EVENT_OUT_OF_ORDER"
    where = f"the product is {product.state} at version {product.version}"
    assert str(refusal.value) == f"The event {event} of item {ITEM} is out of order: {where}."


@pytest.mark.parametrize("product", [a_product(), a_complete_product(version=1)])
def test_a_product_of_which_no_change_was_told_has_nothing_to_withdraw_event(product: Product) -> None:
    with pytest.raises(EventOutOfOrder):
        product.withdraw_event(LATER)


def test_a_listed_product_is_there_whatever_earlier_runs_missed() -> None:
    product = a_complete_product().miss(NOW).be_listed(execution_id(2), LATER)
    assert (product.missing_runs, product.last_seen_at, product.last_seen_execution) == (0, LATER, execution_id(2))


def test_runs_that_lack_it_are_counted_in_a_row() -> None:
    product = a_complete_product().miss(NOW).miss(LATER)
    assert (product.missing_runs, product.updated_at) == (2, LATER)
    assert product.state is ProductState.COMPLETE


def test_a_return_forgets_the_runs_that_lacked_it() -> None:
    gone = a_complete_product().miss(NOW).miss(NOW).announce(DELETED, NOW)
    assert seen_whole(gone).announce(CREATED, LATER).missing_runs == 0


def test_another_sellers_item_is_left_alone() -> None:
    error = ForeignProduct(item_no=ItemNo(7), seller_id=SELLER, owner="seller_9")
    assert isinstance(error, Conflict)
    assert str(error) == "Item 7 belongs to the seller seller_9, not to seller_12345; it is not changed."
