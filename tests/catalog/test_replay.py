"""Differences lead back to the state they were taken from, and a history to every state it has seen."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.builders import ITEM, MINUTE, NOW, SELLER, execution_id, outbox_id, product_id

from sellerwatch.catalog.differences import Change, differences, replay
from sellerwatch.catalog.facts import BLANK
from sellerwatch.catalog.history import VersionNotFound, last_change, state_at, states
from sellerwatch.catalog.ports import HistoryEntry
from sellerwatch.catalog.product import ProductEvent

from .states import states as any_state

State = dict[str, Any]
CREATED, UPDATED, DELETED = ProductEvent.CREATED, ProductEvent.UPDATED, ProductEvent.DELETED


@given(any_state, any_state)
def test_the_differences_lead_from_one_state_to_the_other(before: State, after: State) -> None:
    assert replay(before, differences(before, after)) == after


@given(any_state)
def test_a_product_is_made_from_nothing_by_its_creation(state: State) -> None:
    assert replay(BLANK, differences(BLANK, state)) == state


@given(any_state, any_state)
def test_they_still_do_after_the_differences_were_kept_as_json(before: State, after: State) -> None:
    kept = orjson.dumps([(c.field, c.before, c.after) for c in differences(before, after)])
    assert replay(before, [Change(*change) for change in orjson.loads(kept)]) == after


@given(any_state, any_state)
def test_replaying_changes_neither_the_state_nor_the_changes(before: State, after: State) -> None:
    changes = differences(before, after)
    was, were = orjson.dumps(before), orjson.dumps([asdict(c) for c in changes])
    replay(before, changes)
    assert (orjson.dumps(before), orjson.dumps([asdict(c) for c in changes])) == (was, were)


@given(any_state)
def test_nothing_replayed_is_the_same_state(state: State) -> None:
    assert replay(state, []) == state


def entry(number: int, event: ProductEvent, version: int, changes: list[Change], *, told: bool = True) -> HistoryEntry:
    return HistoryEntry(
        product_id=product_id(),
        item_no=ITEM,
        seller_id=SELLER,
        execution_id=execution_id(number),
        outbox_id=outbox_id(number) if told else None,
        event=event,
        version=version,
        changes=tuple(changes),
        created_at=NOW + number * MINUTE,
    )


def history_of(found: list[State]) -> list[HistoryEntry]:
    """Created, then one version for each further state."""
    created = entry(1, CREATED, 1, differences(BLANK, found[0]))
    later = [entry(n, UPDATED, n, differences(a, b)) for n, (a, b) in enumerate(pairwise(found), 2)]
    return [created, *later]


@given(st.lists(any_state, min_size=1, max_size=5), any_state)
def test_a_history_replays_every_state_over_removal_and_return(found: list[State], returned: State) -> None:
    entries = history_of(found)
    gone = entry(90, DELETED, len(found) + 1, [])
    again = entry(91, CREATED, len(found) + 2, differences(BLANK, returned))
    assert [state for _, state in states([*entries, gone, again])] == [*found, found[-1], returned]
    for version, state in enumerate(found, 1):
        assert state_at([*entries, gone, again], ITEM, version) == (version, state)
    assert state_at([*entries, gone, again], ITEM, None) == (len(found) + 2, returned)


def a_state(**changes: Any) -> State:
    return {**BLANK, "name": "코트", "stock": 1, **changes}


def test_a_version_that_was_withdrawn_and_used_again_is_what_it_was_last() -> None:
    one, two, other = a_state(), a_state(stock=2), a_state(stock=3)
    entries = [
        *history_of([one, two]),
        entry(3, UPDATED, 1, differences(two, one), told=False),
        entry(4, UPDATED, 2, differences(one, other)),
    ]
    assert state_at(entries, ITEM, 1) == (1, one)
    assert state_at(entries, ITEM, 2) == (2, other)


def test_before_the_first_version_nothing_was_known() -> None:
    assert state_at(history_of([a_state()]), ITEM, 0) == (0, BLANK)


@pytest.mark.parametrize(("entries", "known"), [(history_of([a_state(), a_state(stock=2)]), "1 to 2"), ([], "none")])
def test_a_version_that_never_was_is_refused_with_those_there_are(entries: list[HistoryEntry], known: str) -> None:
    with pytest.raises(VersionNotFound) as refusal:
        state_at(entries, ITEM, 7)
    assert str(refusal.value) == f"Item {ITEM} has no version 7 in its history; it has {known}."


def test_the_last_change_is_the_last_entry_in_which_something_differs() -> None:
    entries = history_of([a_state(), a_state(stock=2)])
    changed = (1, 2, (Change("stock", 1, 2),))
    assert last_change(entries) == changed
    assert last_change([*entries, entry(3, DELETED, 3, [])]) == changed
    assert last_change([]) == (0, 0, ())
    start, end, changes = last_change([*entries, entry(4, CREATED, 4, differences(BLANK, a_state()))])
    assert (start, end, len(changes)) == (0, 4, 2)


def test_a_change_that_was_merged_stays_within_its_version() -> None:
    created, updated = history_of([a_state(), a_state(stock=2)])
    merged = structs.replace(updated, version=1)
    assert last_change([created, merged]) == (1, 1, (Change("stock", 1, 2),))


def test_without_any_event_a_product_is_empty() -> None:
    assert state_at([], ITEM, None) == (0, BLANK)
