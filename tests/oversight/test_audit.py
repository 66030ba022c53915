"""The audit trail: written with the deed, kept in order, found again, never changed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import NOW
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.oversight.ports import AuditTrail


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ENTRY = AuditEntry(
    at=NOW,
    actor="cli:민지",
    action="sellers.rename",
    subject_type="seller",
    subject_id="seller_12345",
    before={"name": "옛 이름", "count": 3},
    after={"name": "새 이름 🧥", "count": 4},
    note="asked by the shop",
)
BARE = AuditEntry(NOW + timedelta(seconds=1), "scheduler", "crawl.start", "execution", "e1")


async def test_an_entry_comes_back_whole(store: SqlStore) -> None:
    await store.transact(lambda tx: tx.audit.record(ENTRY))
    assert await store.read(lambda tx: tx.audit.newest(limit=10)) == [ENTRY]


async def test_what_was_not_said_stays_unsaid(store: SqlStore) -> None:
    await store.transact(lambda tx: tx.audit.record(BARE))
    (found,) = await store.read(lambda tx: tx.audit.newest(limit=10))
    assert found == BARE
    assert (found.before, found.after, found.note) == (None, None, None)


async def test_an_entry_goes_with_the_deed_it_tells_of(store: SqlStore) -> None:
    def fails(tx: Transaction) -> None:
        tx.audit.record(ENTRY)
        raise LookupError

    with pytest.raises(LookupError):
        await store.transact(fails)
    assert await store.read(lambda tx: tx.audit.newest(limit=10)) == []


async def test_the_newest_come_first_and_no_more_than_asked_for(store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        tx.audit.record(ENTRY)
        tx.audit.record(BARE)

    await store.transact(work)
    assert await store.read(lambda tx: tx.audit.newest(limit=10)) == [BARE, ENTRY]
    assert await store.read(lambda tx: tx.audit.newest(limit=1)) == [BARE]


async def test_entries_are_found_by_subject_and_by_actor(store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        tx.audit.record(ENTRY)
        tx.audit.record(BARE)

    def look(tx: Transaction) -> None:
        trail: AuditTrail = tx.audit
        assert trail.newest(limit=9, subject_type="seller") == [ENTRY]
        assert trail.newest(limit=9, subject_type="execution", subject_id="e1") == [BARE]
        assert trail.newest(limit=9, subject_type="seller", subject_id="e1") == []
        assert trail.newest(limit=9, actor="scheduler") == [BARE]

    await store.transact(work)
    await store.read(look)


def test_no_verb_changes_or_removes_an_entry() -> None:
    assert {name for name in vars(AuditTrail) if not name.startswith("_")} == {"record", "get", "newest", "page"}
