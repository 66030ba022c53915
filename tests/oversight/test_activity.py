"""What happens is written where it happens, told at most so often, and forgotten in time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import NOW, an_execution, execution_id
from tests.conftest import ENGINES
from tests.web.api_world import ApiWorld
from tests.web.conftest import world

from sellerwatch.access.idempotency import KeyClaim
from sellerwatch.access.logins import Failures
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.save_execution import add_execution, record_progress, save_execution
from sellerwatch.kernel.activity import Activity
from sellerwatch.oversight.alerts import Alert, RecordedAlerts
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.service.jobs import forget_traces, recover


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


__all__ = ["world"]

SECOND = timedelta(seconds=1)


async def kinds(store: SqlStore) -> list[str]:
    return [activity.kind for _, activity in await store.read(lambda tx: tx.activity.after(0, 1000))]


async def test_a_run_is_told_when_it_begins_and_ends_and_not_in_between(inline_store: SqlStore) -> None:
    run = an_execution().start(2, NOW)
    await inline_store.transact(lambda tx: add_execution(tx, run))
    half = run.record(NOW, completed=1)
    await inline_store.transact(lambda tx: save_execution(tx, run, half))
    await inline_store.transact(lambda tx: save_execution(tx, half, half.record(NOW + SECOND, failed=1)))
    rows = await inline_store.read(lambda tx: tx.activity.after(0, 10))
    assert [activity.kind for _, activity in rows] == ["execution.running", "execution.completed"]
    assert rows[1][1].data == {
        "sellerId": run.seller_id,
        "status": "COMPLETED",
        "totalTasks": 2,
        "completedTasks": 1,
        "failedTasks": 1,
        "progressRate": 100.0,
    }
    assert rows[1][1].at == NOW + SECOND


async def test_progress_is_told_once_a_second_for_each_run(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        for tenth in range(25):
            for number in (1, 2):
                run = an_execution(number).start(100, NOW)
                record_progress(tx, run, NOW + tenth * SECOND / 10)

    await inline_store.transact(work)
    rows = await inline_store.read(lambda tx: tx.activity.after(0, 1000))
    told = [(a.subject_id, (a.at - NOW) / SECOND) for _, a in rows]
    assert sorted(told) == [(execution_id(n), float(s)) for n in (1, 2) for s in (0, 1, 2)]


async def test_what_people_do_is_told_but_not_who_logs_in(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        record_audit(tx, AuditEntry(NOW, "cli:minji", "limit.set", "setting", "WINDOW_LIMIT", {"value": 1}))
        record_audit(tx, AuditEntry(NOW, "api:minji", "user.login", "user", "minji"))

    await inline_store.transact(work)
    assert await kinds(inline_store) == ["limit.set"]


class Failing:
    async def transact(self, work: object) -> None:
        raise OSError("full")


class Heard:
    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    async def send(self, alert: Alert) -> None:
        self.alerts.append(alert)


async def test_an_alert_is_told_and_sent_and_what_cannot_be_told_is_sent_all_the_same(inline_store: SqlStore) -> None:
    heard, alert = Heard(), Alert("agent.blocked", "17", "Agent 17 is blocked.", NOW)
    await RecordedAlerts(inline_store, heard).send(alert)
    ((_, told),) = await inline_store.read(lambda tx: tx.activity.after(0, 10))
    assert told == Activity(NOW, "agent.blocked", "agent", "17", {"text": "Agent 17 is blocked."})
    await RecordedAlerts(Failing(), heard).send(alert)  # type: ignore[arg-type]
    assert heard.alerts == [alert, alert]


async def test_an_agent_that_is_back_is_told(world: ApiWorld, inline_store: SqlStore) -> None:
    rested = NOW - SECOND
    await inline_store.transact(
        lambda tx: tx.db.run(
            "UPDATE user_agent_pool SET status = 'SUSPENDED', suspended_until = :t WHERE agent_id < 3", {"t": rested}
        )
    )
    assert await recover(world.service.crawl) == 2
    assert await kinds(inline_store) == ["agent.recovered"] * 2


async def test_what_is_kept_for_a_while_is_forgotten_then(world: ApiWorld, inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        for days in (8, 6):
            tx.activity.add(Activity(NOW - timedelta(days=days), f"{days} days"))
        for hours in (25, 23):
            key, at = bytes([hours]) * 32, NOW - timedelta(hours=hours)
            tx.idempotency_keys.claim(KeyClaim(key, key, str(execution_id(hours)), world.service.crawl.worker_id), at)
            tx.logins.put(key, Failures(1, at))

    await inline_store.transact(work)
    assert await forget_traces(world.service.crawl) == 3
    assert await kinds(inline_store) == ["6 days"]
    keys = [bytes([hours]) * 32 for hours in (25, 23)]
    assert list(await inline_store.read(lambda tx: tx.logins.get(keys))) == [keys[1]]
    assert await inline_store.read(lambda tx: [tx.idempotency_keys.get(key) is None for key in keys]) == [True, False]
    lowest, highest = await inline_store.read(lambda tx: tx.activity.span())
    assert lowest == highest > 1
