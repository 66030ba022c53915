"""What waits for a person, in the database: cases, held parts, removals, the drift report, and notes of runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.builders import (
    HOUR,
    ITEM,
    MINUTE,
    NOW,
    SELLER,
    a_complete_product,
    an_execution,
    execution_id,
    seller_id,
    task_id,
)
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.product import PartType, ProductState
from sellerwatch.catalog.quarantine import Case, CaseKind, CaseStatus, HeldPart, HeldStatus
from sellerwatch.catalog.removal import Removal, RemovalReason, RemovalStatus
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.kernel.ids import CaseId, ItemNo, RemovalId


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


DETAIL, OPTION = PartType.DETAIL, PartType.OPTION


def case_id(number: int = 1) -> CaseId:
    return CaseId(f"0198c0de-0000-7000-8008-{number:012x}")


def removal_id(number: int = 1) -> RemovalId:
    return RemovalId(f"0198c0de-0000-7000-8009-{number:012x}")


def a_case(number: int = 1, **changes: Any) -> Case:
    made = Case(
        case_id=case_id(number),
        seller_id=SELLER,
        execution_id=execution_id(),
        part=DETAIL,
        kind=CaseKind.SHARE,
        field="name",
        created_at=NOW,
        updated_at=NOW,
        sample_item=ITEM,
        sample_before="반팔 티셔츠",
        sample_after="반팔 티셔츠 [특가] 🎁",
    )
    return replace(made, **changes)


def a_held(number: int = 1, part: PartType = DETAIL, **changes: Any) -> HeldPart:
    made = HeldPart(
        item_no=ItemNo(ITEM + number),
        part=part,
        status=HeldStatus.HELD,
        seller_id=SELLER,
        execution_id=execution_id(),
        hash=f"{number:032x}",
        created_at=NOW,
        case_id=case_id(),
        body=f'{{"name":"코트 {number}"}}'.encode(),
    )
    return replace(made, **changes)


def a_removal(number: int = 1, **changes: Any) -> Removal:
    made = Removal(
        removal_id=removal_id(number),
        seller_id=SELLER,
        execution_id=execution_id(),
        reason=RemovalReason.MANY,
        told=100,
        missing=40,
        unseen_since=NOW - HOUR,
        created_at=NOW,
    )
    return replace(made, **changes)


async def test_a_case_comes_back_as_it_was_and_as_it_was_decided(inline_store: SqlStore) -> None:
    case = a_case()
    await inline_store.transact(lambda tx: tx.quarantine.add(case))
    assert await inline_store.read(lambda tx: tx.quarantine.get(case_id())) == case
    decided = case.decide("release", "cli:minji", NOW + MINUTE)
    await inline_store.transact(lambda tx: tx.quarantine.save(decided))
    assert await inline_store.read(lambda tx: tx.quarantine.get(case_id())) == decided
    assert await inline_store.read(lambda tx: tx.quarantine.get(case_id(9))) is None


async def test_a_case_without_an_item_has_none(inline_store: SqlStore) -> None:
    bare = a_case(kind=CaseKind.UNREADABLE, sample_item=None, sample_before=None, sample_after=None)
    await inline_store.transact(lambda tx: tx.quarantine.add(bare))
    assert await inline_store.read(lambda tx: tx.quarantine.get(case_id())) == bare


async def test_open_cases_are_the_sellers_own_in_order_and_lists_are_narrowed(inline_store: SqlStore) -> None:
    cases = [
        a_case(1),
        a_case(2, seller_id=seller_id(2)),
        a_case(3, status=CaseStatus.DROPPED),
        a_case(4, field="tags"),
    ]

    def work(tx: Transaction) -> None:
        for case in cases:
            tx.quarantine.add(case)

    await inline_store.transact(work)

    async def listed(**given: Any) -> list[CaseId]:
        asked = {"seller_id": None, "status": None, "cursor": None, "limit": 10} | given
        return [case.case_id for case in (await inline_store.read(lambda tx: tx.quarantine.page(**asked))).content]

    assert await inline_store.read(lambda tx: tx.quarantine.open_cases(SELLER)) == [cases[0], cases[3]]
    assert await listed() == [case_id(4), case_id(3), case_id(2), case_id(1)]
    assert await listed(seller_id=SELLER, status=CaseStatus.OPEN) == [case_id(4), case_id(1)]
    assert await listed(limit=1) == [case_id(4)]


async def test_a_part_has_one_row_and_what_comes_later_takes_its_place(inline_store: SqlStore) -> None:
    pending = a_held(status=HeldStatus.PENDING, case_id=None)
    later = a_held(hash="f" * 32, body=b"newer", execution_id=execution_id(2), created_at=NOW + MINUTE)
    await inline_store.transact(lambda tx: tx.held_parts.put([pending, a_held(1, OPTION)]))
    await inline_store.transact(lambda tx: tx.held_parts.put([later]))
    found = await inline_store.read(lambda tx: tx.held_parts.held([ItemNo(ITEM + 1), ItemNo(ITEM + 2)]))
    # Looked at without the bodies: those are large.
    assert found == {
        (ITEM + 1, DETAIL): replace(later, body=b""),
        (ITEM + 1, OPTION): replace(a_held(1, OPTION), body=b""),
    }
    assert await inline_store.read(lambda tx: tx.held_parts.of_case(case_id(), ItemNo(0), 1)) in (
        [later],
        [a_held(1, OPTION)],
    )
    assert await inline_store.read(lambda tx: tx.held_parts.held([])) == {}


async def test_what_waits_for_a_runs_judgement_is_found_by_part(inline_store: SqlStore) -> None:
    waiting: dict[str, Any] = {"status": HeldStatus.PENDING, "case_id": None}
    ours = [a_held(1, **waiting), a_held(2, OPTION, **waiting)]
    others = [a_held(3), a_held(4, execution_id=execution_id(2), **waiting)]
    await inline_store.transact(lambda tx: tx.held_parts.put([*ours, *others]))
    read = inline_store.read
    assert await read(lambda tx: tx.held_parts.pending(execution_id(), None)) == ours
    assert await read(lambda tx: tx.held_parts.pending(execution_id(), OPTION)) == ours[1:]
    assert sorted(await read(lambda tx: tx.quarantine.pending_runs())) == [execution_id(1), execution_id(2)]
    await inline_store.transact(lambda tx: tx.held_parts.free([(held.item_no, held.part) for held in ours]))
    assert await read(lambda tx: tx.quarantine.pending_runs()) == [execution_id(2)]


async def test_a_cases_parts_come_in_pages_by_item_and_are_counted(inline_store: SqlStore) -> None:
    parts = [a_held(number) for number in (5, 3, 1, 4, 2)]
    other = [a_held(9, case_id=case_id(2)), a_held(8, status=HeldStatus.DROPPED)]
    await inline_store.transact(lambda tx: tx.held_parts.put([*parts, *other]))
    read = inline_store.read
    first = await read(lambda tx: tx.held_parts.of_case(case_id(), ItemNo(0), 3))
    rest = await read(lambda tx: tx.held_parts.of_case(case_id(), first[-1].item_no, 3))
    assert [*first, *rest] == [a_held(number) for number in (1, 2, 3, 4, 5)]
    assert await read(lambda tx: tx.held_parts.items_of_case(case_id(), 2)) == [ITEM + 1, ITEM + 2]
    counted = await read(lambda tx: tx.held_parts.count_held([case_id(1), case_id(2), case_id(3)]))
    assert counted == {case_id(1): 5, case_id(2): 1}
    assert await read(lambda tx: tx.held_parts.count_held([])) == {}


async def test_a_drop_forgets_the_bodies_of_its_case_and_keeps_their_hashes(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: tx.held_parts.put([a_held(1), a_held(2), a_held(3, case_id=case_id(2))]))
    assert await inline_store.transact(lambda tx: tx.held_parts.drop(case_id())) == 2
    items = [ItemNo(ITEM + number) for number in (1, 2, 3)]
    found = await inline_store.read(lambda tx: tx.held_parts.held(items))
    assert {(held.status, held.hash) for held in found.values()} == {
        (HeldStatus.DROPPED, a_held(1).hash),
        (HeldStatus.DROPPED, a_held(2).hash),
        (HeldStatus.HELD, a_held(3).hash),
    }
    assert await inline_store.read(lambda tx: tx.db.value("SELECT COUNT(raw_json) FROM held_parts")) == 1


async def test_freeing_a_case_deletes_what_is_held_under_it_and_nothing_else(inline_store: SqlStore) -> None:
    dropped = a_held(4, status=HeldStatus.DROPPED)
    parts = [a_held(1), a_held(2), a_held(3, case_id=case_id(2)), dropped]
    await inline_store.transact(lambda tx: tx.held_parts.put(parts))
    assert await inline_store.transact(lambda tx: tx.held_parts.free_case(case_id())) == 2
    items = [ItemNo(ITEM + number) for number in (1, 2, 3, 4)]
    found = await inline_store.read(lambda tx: tx.held_parts.held(items))
    assert [item for item, _ in found] == [ItemNo(ITEM + 3), ItemNo(ITEM + 4)]


async def test_a_removal_comes_back_and_a_seller_has_one_that_is_held(inline_store: SqlStore) -> None:
    first, second = a_removal(), a_removal(2, reason=RemovalReason.EMPTY_LIST)
    await inline_store.transact(lambda tx: tx.removals.add(first))
    assert await inline_store.read(lambda tx: tx.removals.held_of(SELLER)) == first
    over = first.decide("supersede", "scheduler", NOW + MINUTE)

    def work(tx: Transaction) -> None:
        tx.removals.save(over)
        tx.removals.add(second)

    await inline_store.transact(work)
    read = inline_store.read
    assert await read(lambda tx: tx.removals.get(removal_id())) == over
    assert await read(lambda tx: tx.removals.held_of(SELLER)) == second
    assert await read(lambda tx: tx.removals.held_of(seller_id(2))) is None
    assert await read(lambda tx: tx.removals.get(removal_id(9))) is None
    every = await read(lambda tx: tx.removals.page(seller_id=SELLER, status=None, cursor=None, limit=9))
    assert every.content == [second, over]
    held = await read(lambda tx: tx.removals.page(seller_id=None, status=RemovalStatus.HELD, cursor=None, limit=9))
    assert held.content == [second]


async def test_missing_products_are_those_told_and_not_seen_since(inline_store: SqlStore) -> None:
    since = NOW - HOUR
    products = [
        a_complete_product(1, last_seen_at=since - MINUTE),
        a_complete_product(2, last_seen_at=None),
        a_complete_product(3, last_seen_at=since),
        a_complete_product(4, last_seen_at=None, deleted_at=NOW),
        a_complete_product(5, last_seen_at=None, version=0),
        a_complete_product(6, last_seen_at=None, seller_id=seller_id(2)),
    ]
    await inline_store.transact(lambda tx: tx.products.add(products))
    read = inline_store.read
    assert await read(lambda tx: tx.products.unseen_since(SELLER, since, 10)) == products[:2]
    assert await read(lambda tx: tx.products.unseen_since(SELLER, since, 1)) == products[:1]
    assert await read(lambda tx: tx.products.count_unseen_since(SELLER, since)) == 2
    assert await read(lambda tx: tx.product_queries.count()) == 6
    assert await read(lambda tx: tx.product_queries.count(SELLER, ProductState.COMPLETE)) == 4
    assert await read(lambda tx: tx.product_queries.count(None, ProductState.DELETED)) == 1


async def test_an_unknown_field_is_counted_and_keeps_where_it_was_first_met(inline_store: SqlStore) -> None:
    path = "moduleList[].data." + "가" * 300

    def work(tx: Transaction) -> None:
        for number in range(3):
            tx.drift.note("PRODUCT_DETAIL", [path, "x"], ItemNo(ITEM + number), NOW + number * MINUTE)
        tx.drift.note("MINISHOP", ["x"], None, NOW)

    await inline_store.transact(work)
    listed, *details = await inline_store.read(lambda tx: tx.drift.all())
    assert (listed.endpoint, listed.path, listed.times, listed.item_no) == ("MINISHOP", "x", 1, None)
    assert {(f.times, f.item_no, f.first_seen_at, f.last_seen_at) for f in details} == {
        (3, ITEM, NOW, NOW + 2 * MINUTE)
    }
    assert sorted(len(f.path) for f in details) == [1, 255]


async def test_notes_of_a_run_add_up_and_are_cleared_by_kind(inline_store: SqlStore) -> None:
    noted = {(NoteKind.JUDGED, "DETAIL"): 3, (NoteKind.CHANGED, "DETAIL name"): 1, (NoteKind.PAUSED, "why"): 1}
    await inline_store.transact(lambda tx: tx.run_notes.add(execution_id(), noted))
    await inline_store.transact(lambda tx: tx.run_notes.add(execution_id(), {(NoteKind.JUDGED, "DETAIL"): 4}))
    await inline_store.transact(lambda tx: tx.run_notes.add(execution_id(2), noted))
    found = await inline_store.read(lambda tx: tx.run_notes.of(execution_id()))
    assert found == {
        NoteKind.JUDGED: {"DETAIL": 7},
        NoteKind.CHANGED: {"DETAIL name": 1},
        NoteKind.UNREADABLE: {},
        NoteKind.FOREIGN: {},
        NoteKind.PAUSED: {"why": 1},
        NoteKind.UNREAD_TASK: {},
        NoteKind.RECHECK: {},
    }
    assert await inline_store.transact(lambda tx: tx.run_notes.clear(execution_id(), NoteKind.PAUSED)) == 1
    assert (await inline_store.read(lambda tx: tx.run_notes.of(execution_id())))[NoteKind.PAUSED] == {}
    assert (await inline_store.read(lambda tx: tx.run_notes.of(execution_id(2))))[NoteKind.PAUSED] == {"why": 1}


@pytest.mark.parametrize("paused", [False, True])
async def test_a_paused_run_is_running_but_not_at_work(inline_store: SqlStore, paused: bool) -> None:
    def work(tx: Transaction) -> None:
        tx.executions.add(an_execution(1, status=ExecutionStatus.RUNNING))
        tx.run_notes.add(execution_id(1), {(NoteKind.PAUSED if paused else NoteKind.JUDGED, "why"): 1})

    await inline_store.transact(work)
    assert len(await inline_store.read(lambda tx: tx.executions.running())) == 1
    assert len(await inline_store.read(lambda tx: tx.executions.at_work())) == (0 if paused else 1)


async def test_notes_are_removed_one_by_one(inline_store: SqlStore) -> None:
    noted = {(NoteKind.UNREADABLE, "a"): 2, (NoteKind.UNREADABLE, "b"): 1, (NoteKind.RECHECK, "a"): 1}
    await inline_store.transact(lambda tx: tx.run_notes.add(execution_id(), noted))
    await inline_store.transact(lambda tx: tx.run_notes.remove(execution_id(), [(NoteKind.UNREADABLE, "a")]))
    found = await inline_store.read(lambda tx: tx.run_notes.of(execution_id()))
    assert (found[NoteKind.UNREADABLE], found[NoteKind.RECHECK]) == ({"b": 1}, {"a": 1})


async def test_rechecks_are_those_of_running_executions(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        tx.executions.add(an_execution(1, status=ExecutionStatus.RUNNING))
        tx.executions.add(an_execution(2, status=ExecutionStatus.FAILED))
        for number in (1, 2):
            notes = {(NoteKind.PAUSED, "why"): 1, (NoteKind.UNREAD_TASK, f"{task_id(number)} DETAIL x"): 1}
            tx.run_notes.add(execution_id(number), notes)

    await inline_store.transact(work)
    assert await inline_store.read(lambda tx: tx.run_notes.rechecks()) == []
    assert await inline_store.read(lambda tx: tx.run_notes.paused_without_recheck()) == [execution_id(1)]
    for number in (1, 2):
        note = {(NoteKind.RECHECK, task_id(number)): 1}
        await inline_store.transact(lambda tx, n=number, note=note: tx.run_notes.add(execution_id(n), note))  # type: ignore[misc]
    assert await inline_store.read(lambda tx: tx.run_notes.rechecks()) == [task_id(1)]
    assert await inline_store.read(lambda tx: tx.run_notes.paused_without_recheck()) == []


async def test_hashes_of_bodies_are_kept_by_part_and_forgotten_with_the_product(inline_store: SqlStore) -> None:
    one, two = ItemNo(ITEM), ItemNo(ITEM + 1)
    kept = {(one, DETAIL): "a" * 32, (one, OPTION): "b" * 32, (two, OPTION): "c" * 32}
    await inline_store.transact(lambda tx: tx.bodies.keep_body_hashes(kept))
    await inline_store.transact(lambda tx: tx.bodies.keep_body_hashes({(one, DETAIL): "d" * 32}))
    read = inline_store.read
    assert await read(lambda tx: tx.bodies.body_hashes([one, two])) == {**kept, (one, DETAIL): "d" * 32}
    await inline_store.transact(lambda tx: tx.bodies.forget_body_hashes([one]))
    assert await read(lambda tx: tx.bodies.body_hashes([one, two])) == {(two, OPTION): "c" * 32}
    assert await read(lambda tx: tx.bodies.body_hashes([])) == {}
