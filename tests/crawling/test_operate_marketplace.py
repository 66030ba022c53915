"""Requests to the marketplace are paused and resumed by hand: all of them, or those for one seller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest
from tests.agents.outages import RULES, open_circuit
from tests.builders import DAY, HOUR, MINUTE, NOW, a_context, a_seller, an_execution, execution_id, seller_id, worker_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.agents.marketplace_status import MarketplaceStatusView, marketplace_status, show_marketplace
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.views import view_json
from sellerwatch.operations import marketplace
from sellerwatch.operations.marketplace import (
    ChangedPauseView,
    MarketplaceAlreadyPaused,
    MarketplaceNotPaused,
    SellerAlreadyPaused,
    SellerNotPaused,
    pause_notice,
)
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.sellers.seller import SellerNotFound

ME = "cli:민지"
ONE, TWO = seller_id(1), seller_id(2)


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(inline_store: SqlStore) -> SqlStore:
    """Two sellers, each with a run that began now and must end within a day."""

    def work(tx: Transaction) -> None:
        for number, seller in enumerate((ONE, TWO), start=1):
            tx.sellers.add(a_seller(number))
            run = an_execution(number, seller_id=seller).start(5, NOW)
            tx.executions.add(replace(run, deadline_at=NOW + DAY))

    await inline_store.transact(work)
    return inline_store


async def pause(store: SqlStore, seller: SellerId | None = None, now: datetime = NOW) -> ChangedPauseView:
    return await store.transact(lambda tx: marketplace.pause(tx, a_context(now, actor=ME), seller))


async def resume(store: SqlStore, seller: SellerId | None = None, now: datetime = NOW) -> ChangedPauseView:
    return await store.transact(lambda tx: marketplace.resume(tx, a_context(now, actor=ME), seller))


async def trail(store: SqlStore) -> Sequence[AuditEntry]:
    """What was done, newest first."""
    return await store.read(lambda tx: tx.audit.newest(limit=100, actor=ME))


async def deadlines(store: SqlStore) -> list[datetime | None]:
    runs = await store.read(lambda tx: [tx.executions.get(execution_id(number)) for number in (1, 2)])
    return [None if run is None else run.deadline_at for run in runs]


async def test_a_pause_of_everything_says_who_paused_and_when(store: SqlStore) -> None:
    found = await pause(store)
    assert (found.paused, found.paused_by, found.paused_at) == (True, ME, NOW)
    assert vars(found).items() >= vars(await store.read(lambda tx: show_marketplace(tx, a_context()))).items()


async def test_a_pause_of_a_seller_stops_nobody_else(store: SqlStore) -> None:
    found = await pause(store, ONE)
    assert not found.paused
    assert [paused.seller_id for paused in found.sellers] == [ONE]
    status = await store.read(marketplace_status)
    assert status.pause_of(ONE) is not None
    assert status.pause_of(TWO) is None


async def test_the_effect_of_a_pause_is_the_number_of_open_runs(store: SqlStore) -> None:
    assert (await pause(store)).executions == 2
    assert (await pause(store, ONE)).executions == 1


async def test_a_pause_and_its_end_alert_operators(store: SqlStore) -> None:
    paused, resumed = a_context(actor=ME), a_context(actor=ME)
    await store.transact(lambda tx: marketplace.pause(tx, paused, None))
    await store.transact(lambda tx: marketplace.resume(tx, resumed, None))
    assert {notice.kind for notice in paused.notices} == {"marketplace.paused"}
    assert {notice.kind for notice in resumed.notices} == {"marketplace.resumed"}


async def test_pausing_twice_is_refused_and_names_who_paused(store: SqlStore) -> None:
    await pause(store)
    await pause(store, ONE)
    with pytest.raises(MarketplaceAlreadyPaused, match=f"already paused, by {ME}"):
        await pause(store)
    with pytest.raises(SellerAlreadyPaused, match=f"seller {ONE} are already paused, by {ME}"):
        await pause(store, ONE)


async def test_resuming_what_is_not_paused_is_refused(store: SqlStore) -> None:
    await pause(store, ONE)
    with pytest.raises(MarketplaceNotPaused, match="nothing to resume"):
        await resume(store)
    with pytest.raises(SellerNotPaused, match=f"seller {TWO} are not paused"):
        await resume(store, TWO)


async def test_a_seller_that_does_not_exist_is_neither_paused_nor_resumed(store: SqlStore) -> None:
    with pytest.raises(SellerNotFound):
        await pause(store, SellerId("nobody"))
    with pytest.raises(SellerNotFound):
        await resume(store, SellerId("nobody"))


async def test_both_are_on_the_trail_and_wake_other_processes(store: SqlStore) -> None:
    before = await store.read(lambda tx: tx.activity.span())
    await pause(store)
    await resume(store, now=NOW + HOUR)
    await pause(store, ONE)
    one, resumed, paused = await trail(store)
    assert (paused.action, paused.subject_type, paused.subject_id) == ("marketplace.pause", "marketplace", "requests")
    assert paused.after == {"isPaused": True, "pausedAt": "2026-11-15T06:04:05.123456Z", "pausedBy": ME}
    assert (resumed.action, resumed.before, resumed.after) == (
        "marketplace.resume",
        paused.after,
        {"isPaused": False},
    )
    assert (one.action, one.subject_type, one.subject_id) == ("marketplace.pause", "seller", ONE)
    assert (await store.read(lambda tx: tx.activity.span()))[1] > before[1]


async def test_time_paused_does_not_count_for_the_deadlines_of_runs(store: SqlStore) -> None:
    await pause(store, now=NOW + MINUTE)
    await resume(store, now=NOW + MINUTE + 3 * HOUR)
    assert await deadlines(store) == [NOW + DAY + 3 * HOUR] * 2


async def test_a_sellers_pause_moves_the_deadline_of_its_run_alone(store: SqlStore) -> None:
    await pause(store, TWO, now=NOW + MINUTE)
    await resume(store, TWO, now=NOW + MINUTE + HOUR)
    assert await deadlines(store) == [NOW + DAY, NOW + DAY + HOUR]


@pytest.mark.parametrize("first", [None, ONE])
@pytest.mark.parametrize("is_first_ended_first", [True, False])
async def test_time_covered_by_two_pauses_counts_once(
    store: SqlStore, first: SellerId | None, is_first_ended_first: bool
) -> None:
    second = ONE if first is None else None
    await pause(store, first, now=NOW + 1 * HOUR)
    await pause(store, second, now=NOW + 2 * HOUR)
    ends = (first, second) if is_first_ended_first else (second, first)
    await resume(store, ends[0], now=NOW + 4 * HOUR)
    await resume(store, ends[1], now=NOW + 7 * HOUR)
    assert (await deadlines(store))[0] == NOW + DAY + 6 * HOUR


async def test_an_outage_that_goes_on_is_left_to_its_own_end(store: SqlStore) -> None:
    await pause(store, now=NOW + HOUR)
    await open_circuit(store, Endpoint.DETAIL, NOW + 2 * HOUR)
    await resume(store, now=NOW + 5 * HOUR)
    assert await deadlines(store) == [NOW + DAY + HOUR] * 2


async def test_a_run_that_began_during_the_pause_gets_no_more_than_it_waited(store: SqlStore) -> None:
    await pause(store, now=NOW - HOUR)
    await resume(store, now=NOW + HOUR)
    assert await deadlines(store) == [NOW + DAY + HOUR] * 2


async def test_the_state_of_an_endpoint_has_its_cause_in_both_languages(store: SqlStore) -> None:
    failure = await open_circuit(store, Endpoint.OPTIONS, NOW)
    found = await store.read(marketplace_status)
    (away,) = found.away
    assert (away.endpoint, away.since, away.not_before) == (Endpoint.OPTIONS, NOW, NOW + RULES.open_for)
    assert away.failure == failure
    assert away.reason("en") == "The marketplace answered 503: an error on its side."
    assert "503" in str(away.reason("ko"))
    shown = view_json(MarketplaceStatusView.of(found, "en"))
    assert [circuit["endpoint"] for circuit in shown["circuits"]] == ["list", "detail", "options", "token"]
    assert shown["circuits"][2] == {
        "endpoint": "options",
        "state": "OPEN",
        "since": "2026-11-15T06:04:05.123456Z",
        "reason": "The marketplace answered 503: an error on its side.",
        "failure": {
            "code": "SERVER_ERROR",
            "blame": "MARKETPLACE",
            "facts": {"status": 503},
            "at": "2026-11-15T06:04:05.123456Z",
        },
        "notBefore": "2026-11-15T06:04:35.123456Z",
    }
    assert shown["circuits"][0] == {
        "endpoint": "list",
        "state": "CLOSED",
        "since": None,
        "reason": None,
        "failure": None,
        "notBefore": None,
    }


async def test_an_endpoint_that_is_back_shows_no_cause(store: SqlStore) -> None:
    await open_circuit(store, Endpoint.OPTIONS, NOW)

    def close(tx: Transaction) -> None:
        circuit = tx.marketplace.hold(Endpoint.OPTIONS, NOW)
        tx.marketplace.save(circuit.probe(worker_id(), RULES, NOW).probe_succeeded(NOW), NOW)

    await store.transact(close)
    found = await store.read(marketplace_status)
    assert (found.away, found.endpoints[2].failure) == ((), None)


def test_the_notice_says_who_did_what() -> None:
    notice = pause_notice(None, ME, is_pause=True)
    assert (notice.kind, notice.text()) == ("marketplace.paused", f"{ME} paused all requests to the marketplace.")
    of_one = pause_notice(ONE, ME, is_pause=False)
    assert (of_one.kind, of_one.subject) == ("marketplace.resumed", ONE)
    assert of_one.text() == f"{ME} resumed the requests for seller {ONE}."
