"""A product seen, missed, removed and returned at random; the receiver's books agree with ours."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs
from tests.builders import NOW, a_product, execution_id, seller_id
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.catalog.product import EventOutOfOrder, PartType, ProductEvent, ProductState
from sellerwatch.kernel.ids import SellerId


class ProductMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.product = a_product()
        self.now = NOW
        self.seen: dict[PartType, str] = {}
        self.untold = False
        self.told: list[ProductEvent] = []
        self.version = 0
        self.floor = 0
        #: Behind how many events it was archived, which the receiver is not told.
        self.archived: set[int] = set()

    @rule(minutes=st.integers(0, 90))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(part=st.sampled_from(PartType), digest=st.sampled_from(["1" * 32, "2" * 32]))
    def a_part_is_seen(self, part: PartType, digest: str) -> None:
        before = self.product
        after, changed = before.see_part(part, digest, self.now)
        assert changed == (self.seen.get(part) != digest)
        assert changed or after == before
        self.seen[part] = digest
        self.untold |= changed
        verb = "complete" if after.is_complete and not before.is_complete else "see_part"
        if before.state is ProductState.DELETED:
            verb = "see_part"  # all its parts read again make it return, with its next event
        assert after.state == spec.PRODUCT[before.state, verb]
        assert after.version == before.version
        self.product = after

    @rule(digest=st.sampled_from(["1" * 32, "2" * 32]))
    def a_run_reads_it_whole(self, digest: str) -> None:
        """Random parts alone seldom make it complete."""
        for part in PartType:
            self.a_part_is_seen(part, digest)

    @rule()
    def the_database_is_restored(self) -> None:
        """Nobody knows which versions were sent since the backup."""
        self.floor = max(self.floor, self.version) + 1000

    def next_version(self) -> int:
        self.version = max(self.version, self.floor) + 1
        return self.version

    @rule()
    def what_is_due_is_told(self) -> None:
        before = self.product
        event = before.due_event()
        if not before.is_complete:
            assert event is None
        elif before.version == 0 or before.state is ProductState.DELETED:
            assert event is ProductEvent.CREATED
        else:
            assert event is (ProductEvent.UPDATED if self.untold else None)
        if event is not None:
            self.product = before.announce(event, self.now, self.floor)
            assert self.product.version == self.next_version()
            assert self.product.state is ProductState.COMPLETE
            self.told.append(event)
            self.untold = False

    @rule()
    def it_is_removed(self) -> None:
        before = self.product
        if (before.state, "delete") not in spec.PRODUCT or before.version == 0:  # its creation is due first
            self.refused(ProductEvent.DELETED)
            return
        self.product = before.announce(ProductEvent.DELETED, self.now, self.floor)
        assert self.product.state == spec.PRODUCT[before.state, "delete"]
        assert self.product.version == self.next_version()
        self.told.append(ProductEvent.DELETED)
        self.seen.clear()
        self.untold = False

    @rule()
    def its_seller_is_removed_and_the_receiver_is_not_told(self) -> None:
        before = self.product
        archived = attempt("product", before, before.state, "archive", lambda product: product.archive(self.now))
        if archived is None:
            return
        self.product = archived
        assert archived.state == spec.PRODUCT[before.state, "archive"]
        assert archived.version == before.version
        self.archived.add(len(self.told))
        self.seen.clear()
        self.untold = False

    def is_there(self) -> bool:
        """For who follows the events: a snapshot changes nothing about it."""
        there = False
        for number, event in enumerate(self.told, 1):
            if event is not ProductEvent.SNAPSHOT:
                there = event is not ProductEvent.DELETED
            there = there and number not in self.archived
        return there

    @rule()
    def a_snapshot_is_no_event_of_a_change(self) -> None:
        self.refused(ProductEvent.SNAPSHOT)

    @rule(event=st.sampled_from([ProductEvent.CREATED, ProductEvent.UPDATED]))
    def an_event_the_receiver_could_not_follow_is_refused(self, event: ProductEvent) -> None:
        there = self.is_there()
        if len(self.seen) < 3 or there == (event is ProductEvent.CREATED):
            self.refused(event)

    def refused(self, event: ProductEvent) -> None:
        before = self.product
        with pytest.raises(EventOutOfOrder) as refusal:
            before.announce(event, self.now)
        told = (refusal.value.item_no, refusal.value.event, refusal.value.state, refusal.value.version)
        assert told == (before.item_no, event, before.state, self.version)
        assert self.product == before

    @rule()
    def its_present_state_is_sent_again(self) -> None:
        """Something that changed and is not told yet is still to be told."""
        before = self.product
        if before.version == 0:  # its creation is due first
            with pytest.raises(EventOutOfOrder) as refusal:
                before.send_snapshot(self.now)
            assert (refusal.value.event, refusal.value.version) == (ProductEvent.SNAPSHOT, 0)
            return
        self.product = before.send_snapshot(self.now, self.floor)
        assert self.product.state == spec.PRODUCT[before.state, "send_snapshot"]
        assert (self.product.version, self.product.updated_at) == (self.next_version(), self.now)
        assert structs.replace(self.product, version=before.version, updated_at=before.updated_at) == before
        self.told.append(ProductEvent.SNAPSHOT)

    @precondition(lambda self: self.told and self.told[-1] is ProductEvent.UPDATED)
    @rule()
    def its_last_update_is_withdrawn(self) -> None:
        before = self.product
        self.product = before.withdraw_event(self.now)
        self.told.pop()
        self.version -= 1
        self.untold = False
        assert self.product.state is before.state

    @rule()
    def what_changed_is_changed_back(self) -> None:
        self.product = self.product.mark_unchanged(self.now)
        self.untold = False

    @rule()
    def a_list_has_it(self) -> None:
        before = self.product
        self.product = before.be_listed(execution_id(), self.now)
        assert (self.product.missing_runs, self.product.last_seen_at) == (0, self.now)
        assert self.product.state is before.state

    @rule()
    def a_list_lacks_it(self) -> None:
        before = self.product
        self.product = before.miss(self.now)
        assert self.product.missing_runs == before.missing_runs + 1
        assert self.product.state is before.state

    @rule(owner=st.sampled_from([seller_id(1), seller_id(2)]))
    def its_detail_names_the_owner(self, owner: SellerId) -> None:
        before = self.product
        self.product = before.belong_to(owner, self.now)
        assert structs.replace(self.product, seller_id=before.seller_id, updated_at=before.updated_at) == before
        assert self.product.seller_id == owner

    @rule(name=st.sampled_from(["셔츠 🧵", "x" * 1000]))
    def it_is_named_in_an_event(self, name: str) -> None:
        before = self.product
        self.product = before.with_name(name)
        assert structs.replace(self.product, name=before.name) == before
        assert self.product.name is not None
        assert name.startswith(self.product.name)

    @invariant()
    def it_is_complete_once_three_parts_were_seen(self) -> None:
        assert self.product.is_complete == (len(self.seen) == 3)
        assert {part: self.product.hash_of(part) for part in self.seen} == self.seen

    @invariant()
    def it_knows_whether_it_has_something_to_tell(self) -> None:
        assert self.product.is_changed == self.untold

    @invariant()
    def its_version_is_the_number_of_its_events_since_the_last_restore(self) -> None:
        assert self.product.version == self.version

    @invariant()
    def the_receiver_can_follow_the_events(self) -> None:
        """CREATED first and after a removal, nothing of a thing that is not there."""
        there = False
        for number, event in enumerate(self.told, 1):
            if event is not ProductEvent.SNAPSHOT:
                assert there == (event is not ProductEvent.CREATED)
                there = event is not ProductEvent.DELETED
            there = there and number not in self.archived
        if self.told:
            assert there == (self.product.state is ProductState.COMPLETE)


TestProduct = ProductMachine.TestCase
TestProduct.settings = QUICK
