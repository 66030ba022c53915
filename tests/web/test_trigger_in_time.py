"""Whoever starts a run is answered in time, whatever the marketplace takes: EventBridge and a person alike."""

from __future__ import annotations

import asyncio

import pytest

from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.kernel.ids import SellerId
from sellerwatch.web.api import run_start

from .api_world import ApiWorld

PATH = "/api/internal/crawling/trigger"
SELLER = "seller_0001"


async def test_one_that_takes_longer_is_202_with_its_run_and_starts_all_the_same(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_start, "ANSWER_WITHIN", 0.0)
    made = await world.admin.post("/api/v1/sellers", {"sellerId": SELLER, "name": "x", "crawlingIntervalDays": 1})
    assert made.status == 201
    asked = await world.nobody.ask("POST", PATH, {"sellerId": SELLER}, headers=world.internal())
    assert (asked.status, asked.json["taskCount"]) == (202, None)
    await asyncio.gather(*world.service.starting)
    going = await world.read(lambda tx: tx.executions.open_of(SellerId(SELLER)))
    assert going is not None
    assert (going.execution_id, going.status) == (asked.json["executionId"], ExecutionStatus.RUNNING)
    monkeypatch.undo()
    again = await world.nobody.ask("POST", PATH, {"sellerId": SELLER}, headers=world.internal())
    assert (again.status, again.json["details"]["executionId"]) == (409, going.execution_id)
    assert world.service.starting == set()


async def test_a_crawl_that_takes_longer_is_answered_with_its_run_and_starts_all_the_same(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_start, "ANSWER_WITHIN", 0.0)
    await world.admin.post("/api/v1/sellers", {"sellerId": SELLER, "name": "x", "crawlingIntervalDays": 1})
    asked = await world.admin.post(f"/api/v1/sellers/{SELLER}/crawl")
    assert (asked.status, asked.json["taskCount"], asked.json["status"]) == (202, None, "PENDING")
    await asyncio.gather(*world.service.starting)
    going = await world.read(lambda tx: tx.executions.open_of(SellerId(SELLER)))
    assert going is not None
    assert (going.execution_id, going.status) == (asked.json["executionId"], ExecutionStatus.RUNNING)
