"""Idempotency-Key: one effect and one answer, however often a request is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi import APIRouter
from tests.builders import worker_id
from tests.world import all_rows

from sellerwatch.access.idempotency import (
    KeyClaim,
    OutcomeUnknown,
    claim_key,
    fingerprint_of,
    key_of,
    store_response,
)
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.web.api.app import make_app
from sellerwatch.web.api.credentials import Role

from .api_world import KEYS, ApiWorld
from .caller import Api, Reply

BODY = {"sellerId": "seller_0001", "name": "가게"}


async def post(api: Api, key: str, body: Any = BODY, path: str = "/api/v1/sellers", **headers: str) -> Reply:
    return await api.ask("POST", path, body, headers={"idempotency-key": key, **headers})


async def test_the_second_gets_the_first_ones_answer_and_does_nothing(world: ApiWorld, inline_store: SqlStore) -> None:
    first = await post(world.admin, "k1")
    before = await inline_store.read(all_rows)
    second = await post(world.admin, "k1")
    assert (second.status, second.body) == (first.status, first.body) == (201, first.body)
    assert (first.headers.get("idempotency-replayed"), second.headers["idempotency-replayed"]) == (None, "true")
    assert second.headers["content-type"] == first.headers["content-type"]
    assert second.headers["x-content-type-options"] == "nosniff"
    assert await inline_store.read(all_rows) == before


async def test_the_answer_is_the_same_after_a_restart_and_for_the_callers_next_token(world: ApiWorld) -> None:
    first = await post(world.admin, "k1")
    renewed = world.credentials.issue("admin@practice", Role.ADMIN, timedelta(hours=2), world.clock.now())
    restarted = make_app(replace(world.parts))
    assert (await post(Api(restarted, renewed), "k1")).body == first.body


async def test_many_at_once_are_one_effect(world: ApiWorld) -> None:
    replies = await asyncio.gather(*(post(world.admin, "k1") for _ in range(10)))
    assert {reply.status for reply in replies} <= {201, 409}
    assert {r.json["errorCode"] for r in replies if r.status == 409} <= {"REQUEST_UNDER_WAY"}
    assert (await world.viewer.get("/api/v1/sellers")).json["totalElements"] == 1
    assert (await post(world.admin, "k1")).status == 201


class Gate:
    """A route that stands still until it is let go, to be caught in the middle."""

    def __init__(self) -> None:
        self.entered, self.leave, self.times, self.breaks = asyncio.Event(), asyncio.Event(), 0, False
        self.router = APIRouter(prefix="/api/v1")
        self.router.post("/gate")(self.pass_through)

    async def pass_through(self) -> dict[str, int]:
        self.times += 1
        self.entered.set()
        await self.leave.wait()
        if self.breaks:
            raise RuntimeError("in the middle")
        return {"times": self.times}


@pytest.fixture
async def gate(world: ApiWorld) -> AsyncIterator[Gate]:
    made = Gate()
    world.admin.app.include_router(made.router)
    yield made
    made.leave.set()


async def test_one_that_is_being_worked_on_is_asked_to_come_back(world: ApiWorld, gate: Gate) -> None:
    first = asyncio.create_task(post(world.admin, "k1", None, "/api/v1/gate"))
    await gate.entered.wait()
    second = await post(world.admin, "k1", None, "/api/v1/gate")
    assert (second.status, second.json["errorCode"], second.headers["retry-after"]) == (409, "REQUEST_UNDER_WAY", "1")
    gate.leave.set()
    assert (await first).json == (await post(world.admin, "k1", None, "/api/v1/gate")).json == {"times": 1}


async def test_one_that_broke_in_the_middle_is_not_done_again(world: ApiWorld, gate: Gate) -> None:
    gate.breaks = True
    gate.leave.set()
    assert (await post(world.admin, "k1", None, "/api/v1/gate")).status == 500
    again = await post(world.admin, "k1", None, "/api/v1/gate")
    assert (again.status, again.json["errorCode"], gate.times) == (409, "OUTCOME_UNKNOWN", 1)


@pytest.mark.parametrize(("beats", "code"), [(True, "REQUEST_UNDER_WAY"), (False, "OUTCOME_UNKNOWN")])
async def test_one_whose_process_is_gone_is_not_done_again(world: ApiWorld, gate: Gate, beats: bool, code: str) -> None:
    """Another process has it: as long as that is heard of it is under way, then nobody knows."""
    now = world.clock.now()
    other = replace(world.service.crawl, worker_id=worker_id(7))
    app = make_app(replace(world.parts, service=replace(world.service, crawl=other)))
    app.include_router(gate.router)
    beat_at = now if beats else now - timedelta(hours=1)
    await world.transact(lambda tx: tx.workers.enter(WorkerInfo(worker_id(7), "service", "there", 1, now, beat_at)))
    first = asyncio.create_task(post(Api(app, world.admin.token), "k1", None, "/api/v1/gate"))
    await gate.entered.wait()
    second = await post(world.admin, "k1", None, "/api/v1/gate")
    assert (second.status, second.json["errorCode"], gate.times) == (409, code, 1)
    gate.leave.set()
    await first


@pytest.mark.parametrize(
    ("body", "path"),
    [({**BODY, "name": "다른 가게"}, "/api/v1/sellers"), (BODY, "/api/v1/sellers/seller_0001/deactivate")],
)
async def test_the_same_key_for_another_request_is_refused(
    world: ApiWorld, inline_store: SqlStore, body: Any, path: str
) -> None:
    await post(world.admin, "k1")
    before = await inline_store.read(all_rows)
    refused = await post(world.admin, "k1", body, path)
    assert (refused.status, refused.json["errorCode"]) == (409, "IDEMPOTENCY_KEY_USED")
    assert await inline_store.read(all_rows) == before


async def test_callers_do_not_share_keys(world: ApiWorld) -> None:
    assert (await post(world.admin, "k1")).status == 201
    refused = await post(world.viewer, "k1")
    assert (refused.status, refused.json["errorCode"]) == (403, "ROLE_NEEDED")
    trigger = "/api/internal/crawling/trigger"
    done = await post(world.nobody, "k1", {"sellerId": "seller_0001"}, trigger, **{"x-api-key": KEYS[0]})
    again = await post(world.nobody, "k1", {"sellerId": "seller_0001"}, trigger, **{"x-api-key": KEYS[1]})
    assert (done.status, again.body) == (200, done.body)


async def test_who_may_not_ask_gets_no_kept_answer(world: ApiWorld) -> None:
    await post(world.admin, "k1")
    for api in (world.nobody, world.with_token("rubbish")):
        assert (await post(api, "k1")).status == 401


async def test_a_refusal_that_did_nothing_frees_the_key(world: ApiWorld) -> None:
    assert (await post(world.admin, "k1", {"sellerId": "x"})).status == 400
    assert (await post(world.admin, "k1", path="/api/v1/sellers/seller_0001/activate")).status == 404
    assert (await post(world.admin, "k1")).status == 201


@pytest.mark.parametrize(("status", "is_free"), [(503, True), (429, True), (500, False), (502, False)])
async def test_no_failure_is_kept_and_one_that_did_nothing_frees_the_key(
    world: ApiWorld, status: int, is_free: bool
) -> None:
    claim = KeyClaim(key_of("api:minji", "k"), fingerprint_of("/", b"", b""), "first", worker_id())
    assert await world.command(claim_key, claim, timedelta(seconds=30)) is None
    await world.command(store_response, claim, status, {}, b"the answer")
    again = world.command(claim_key, replace(claim, claim_id="second"), timedelta(seconds=30))
    if is_free:
        assert await again is None
    else:
        with pytest.raises(OutcomeUnknown):
            await again


async def test_a_key_is_good_for_a_day_and_then_forgotten(world: ApiWorld, inline_store: SqlStore) -> None:
    await post(world.admin, "k1")
    world.clock.time += timedelta(hours=23)
    token = world.credentials.issue("admin@practice", Role.ADMIN, timedelta(days=2), world.clock.now())
    later = world.with_token(token)
    assert (await post(later, "k1")).status == 201
    world.clock.time += timedelta(hours=1)
    assert (await post(later, "k1")).status == 409, "the seller is there: it was done anew"


@pytest.mark.parametrize("key", ["", "x" * 201, "é", "a\tb"])
async def test_a_key_that_is_none_is_refused(world: ApiWorld, inline_store: SqlStore, key: str) -> None:
    before = await inline_store.read(all_rows)
    refused = await post(world.admin, key)
    assert (refused.status, refused.json["errorCode"]) == (400, "INVALID_IDEMPOTENCY_KEY")
    assert await inline_store.read(all_rows) == before


async def test_a_log_in_is_never_kept(world: ApiWorld, inline_store: SqlStore) -> None:
    await post(world.admin, "k1", {"user": "x", "password": "x"}, "/api/v1/auth/login")
    assert (await inline_store.read(all_rows))["idempotency_keys"] == []


class Forgetful:
    """A store that loses the second transaction: the effect is there, its answer cannot be kept."""

    def __init__(self, store: SqlStore) -> None:
        self._store, self.times, self.commits = store, 0, store.commits

    async def transact(self, work: Any) -> Any:
        self.times += 1
        if self.times > 1:
            raise OSError("full")
        return await self._store.transact(work)


async def test_an_answer_that_could_not_be_kept_is_unknown_and_not_under_way_for_ever(
    world: ApiWorld, gate: Gate, inline_store: SqlStore
) -> None:
    gate.leave.set()
    losing = replace(world.service, store=Forgetful(inline_store))  # type: ignore[arg-type]
    app = make_app(replace(world.parts, service=losing))
    app.include_router(gate.router)
    assert (await post(Api(app, world.admin.token), "k1", None, "/api/v1/gate")).status == 500
    again = await post(world.admin, "k1", None, "/api/v1/gate")
    assert (again.json["errorCode"], gate.times) == ("OUTCOME_UNKNOWN", 1)
