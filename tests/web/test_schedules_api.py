"""/api/v1/schedules and /api/v1/audit: when sellers are crawled, and who did what."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import NOW, SELLER, seller_id, worker_id
from tests.world import due_messages

from sellerwatch.adapters.sql import paging
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.oversight.audit import AuditEntry

from .api_world import BAD_CURSORS, ApiWorld

SCHEDULES, AUDIT = "/api/v1/schedules", "/api/v1/audit"


async def test_schedules_are_paged_by_seller_with_their_next_times(world: ApiWorld) -> None:
    for number in range(3):
        await world.register_seller(seller_id(number))
    pages = [(await world.viewer.get(SCHEDULES, page=page, size=2)).json for page in range(2)]
    assert [s["sellerId"] for page in pages for s in page["content"]] == [seller_id(n) for n in range(3)]
    assert (pages[0]["totalElements"], pages[0]["totalPages"]) == (3, 2)
    shown = (await world.viewer.get(f"{SCHEDULES}/{seller_id(0)}")).json
    assert shown == pages[0]["content"][0]
    assert (len(shown["nextStarts"]), shown["interval"]) == (5, {"amount": 1, "unit": "DAYS"})
    assert shown["nextStarts"] == sorted(shown["nextStarts"])


async def test_a_schedule_runs_now_and_an_inactive_sellers_does_not(world: ApiWorld) -> None:
    await world.register_seller()
    moved = (await world.admin.post(f"{SCHEDULES}/{SELLER}/run-now")).json
    assert moved["nextStarts"][0] == NOW.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert [(e.action, e.subject_id) for e in await world.api_trail()] == [("schedule.run_now", SELLER)]
    await world.admin.post(f"/api/v1/sellers/{SELLER}/deactivate")
    refused = await world.admin.post(f"{SCHEDULES}/{SELLER}/run-now")
    assert (refused.status, refused.json["errorCode"]) == (409, "SELLER_INACTIVE")


async def test_a_schedule_that_could_not_be_told_is_told_once_more(world: ApiWorld) -> None:
    await world.register_seller()
    nothing = await world.admin.post(f"{SCHEDULES}/{SELLER}/retry")
    assert (nothing.status, nothing.json["errorCode"]) == (409, "NOTHING_TO_TELL")

    def refuse(tx: Transaction) -> None:
        due = due_messages(tx, OutboxKind.SCHEDULER, NOW, 10)
        tx.scheduler_outbox.move([message.send(worker_id()).refuse("없는 규칙") for message in due], NOW)

    await world.transact(refuse)
    told = (await world.admin.post(f"{SCHEDULES}/{SELLER}/retry")).json
    assert (told["messages"], told["sellerId"]) == (1, SELLER)


async def test_what_is_not_there_or_not_allowed_is_refused(world: ApiWorld) -> None:
    await world.register_seller()
    before = await world.all_rows()
    for verb in ("run-now", "retry"):
        assert (await world.viewer.post(f"{SCHEDULES}/{SELLER}/{verb}")).status == 403
        assert (await world.admin.post(f"{SCHEDULES}/nobody/{verb}")).json["errorCode"] == "SELLER_NOT_FOUND"
        assert (await world.admin.post(f"{SCHEDULES}/{'x' * 101}/{verb}")).status == 400
    assert (await world.viewer.get(f"{SCHEDULES}/nobody")).status == 404
    assert (await world.viewer.get(SCHEDULES, page=-1)).status == 400
    assert await world.all_rows() == before


async def entries(world: ApiWorld, number: int = 9) -> None:
    def work(tx: Transaction) -> None:
        for n in range(number):
            at, who, what = NOW + timedelta(hours=n), f"cli:민지{n % 2}", ("seller.add", "seller.change")[n % 3 == 0]
            tx.audit.record(AuditEntry(at, who, what, "seller", f"셀러 {n % 4} 🛍", None, {"n": n}))

    await world.transact(work)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"actor": "cli:민지0"},
        {"action": "seller.add"},
        {"actor": "cli:민지1", "action": "seller.add"},
        {"subjectType": "seller"},
        {"subjectId": "셀러 1 🛍"},
        {"subjectType": "seller", "subjectId": "셀러 1 🛍"},
        {"subjectType": "seller", "subjectId": "셀러 1 🛍", "actor": "cli:민지1"},
        {"since": (NOW + timedelta(hours=3)).isoformat()},
        {"until": (NOW + timedelta(hours=3)).isoformat(), "actor": "cli:민지0"},
        {"since": (NOW + timedelta(hours=2)).isoformat(), "until": (NOW + timedelta(hours=6)).isoformat()},
        {"actor": "nobody"},
        {"action": "' OR 1=1 --"},
    ],
)
async def test_the_trail_is_read_to_the_end_by_every_filter(
    world: ApiWorld, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await entries(world)
    everyone = (await world.viewer.get(AUDIT, size=100)).json["content"]
    assert len(everyone) == 9
    since, until = (query.get(name) for name in ("since", "until"))
    fields = {name: value for name, value in query.items() if name not in ("since", "until")}
    wanted = [
        e
        for e in everyone
        if all(e[name] == value for name, value in fields.items())
        and (since is None or e["at"] >= since.replace("+00:00", "Z"))
        and (until is None or e["at"] < until.replace("+00:00", "Z"))
    ]
    monkeypatch.setattr(paging, "MAX_ROWS_SCANNED", 2)
    for size in (1, 4, 100):
        assert await world.viewer.all_pages(AUDIT, size, **query) == wanted


async def test_the_trail_is_for_those_who_are_known_and_read_only(world: ApiWorld) -> None:
    assert (await world.nobody.get(AUDIT)).status == 401
    assert (await world.admin.post(AUDIT, {})).status == 405
    assert (await world.viewer.get(AUDIT, since="once")).status == 400
    for cursor in BAD_CURSORS:
        assert (await world.viewer.get(AUDIT, cursor=cursor)).status == 400


async def test_a_query_parameter_that_a_route_does_not_have_is_refused(world: ApiWorld) -> None:
    refused = await world.viewer.get(AUDIT, sort="actor")
    assert (refused.status, refused.json["errorCode"]) == (400, "INVALID_REQUEST")
    assert "sort: is not a parameter of this route" in refused.json["message"]
