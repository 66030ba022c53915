"""/api/v1/marketplace: requests are paused and resumed, and the state of each endpoint has its cause."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agents.outages import open_circuit
from tests.builders import NOW

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.kernel.ids import SellerId

from .api_world import ApiWorld

PATH = "/api/v1/marketplace"
SELLER = "seller_0001"


async def register(world: ApiWorld) -> None:
    made = await world.admin.post("/api/v1/sellers", {"sellerId": SELLER, "name": "가게"})
    assert made.status == 201


async def test_a_calm_marketplace_has_four_closed_circuits(world: ApiWorld) -> None:
    told = await world.viewer.get(f"{PATH}/status")
    assert told.status == 200
    shown = told.json
    circuits = shown.pop("circuits")
    assert shown == {"paused": False, "pausedBy": None, "pausedAt": None, "sellers": []}
    assert [(each["endpoint"], each["state"]) for each in circuits] == [
        (endpoint, "CLOSED") for endpoint in ("list", "detail", "options", "token")
    ]


async def test_all_requests_are_paused_and_resumed_once(world: ApiWorld) -> None:
    paused = await world.admin.post(f"{PATH}/pause", {})
    assert (paused.status, paused.json["paused"], paused.json["pausedBy"]) == (200, True, "token:admin@practice")
    again = await world.admin.post(f"{PATH}/pause")
    assert (again.status, again.json["errorCode"]) == (409, "MARKETPLACE_ALREADY_PAUSED")
    assert (await world.viewer.get(f"{PATH}/status")).json | {"executions": 0, "dryRun": False} == paused.json
    assert (await world.admin.post(f"{PATH}/resume")).json["paused"] is False
    not_paused = await world.admin.post(f"{PATH}/resume", {"sellerId": None})
    assert (not_paused.status, not_paused.json["errorCode"]) == (409, "MARKETPLACE_NOT_PAUSED")


async def test_a_dry_run_of_a_pause_stops_nothing(world: ApiWorld) -> None:
    would = (await world.admin.post(f"{PATH}/pause", {}, dryRun="true")).json
    assert (would["paused"], would["dryRun"]) == (True, True)
    assert (await world.viewer.get(f"{PATH}/status")).json["paused"] is False
    assert not world.service.crawl.pause.everything


async def test_a_seller_is_paused_alone(world: ApiWorld) -> None:
    await register(world)
    paused = (await world.admin.post(f"{PATH}/pause", {"sellerId": SELLER})).json
    assert (paused["paused"], [each["sellerId"] for each in paused["sellers"]]) == (False, [SELLER])
    again = await world.admin.post(f"{PATH}/pause", {"sellerId": SELLER})
    assert (again.status, again.json["errorCode"]) == (409, "SELLER_ALREADY_PAUSED")
    everything = await world.admin.post(f"{PATH}/resume")
    assert everything.json["errorCode"] == "MARKETPLACE_NOT_PAUSED"
    assert (await world.admin.post(f"{PATH}/resume", {"sellerId": SELLER})).json["sellers"] == []
    twice = await world.admin.post(f"{PATH}/resume", {"sellerId": SELLER})
    assert (twice.status, twice.json["errorCode"]) == (409, "SELLER_NOT_PAUSED")


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize(
    ("body", "status"),
    [({"sellerId": "nobody"}, 404), ({"sellerId": ""}, 400), ({"sellerId": 7}, 400), ({"seller": "x"}, 400)],
)
async def test_a_body_that_names_no_seller_of_ours_is_refused(
    world: ApiWorld, verb: str, body: Any, status: int
) -> None:
    assert (await world.admin.post(f"{PATH}/{verb}", body)).status == status
    assert not (await world.viewer.get(f"{PATH}/status")).json["paused"]


async def test_a_viewer_looks_and_changes_nothing(world: ApiWorld) -> None:
    assert (await world.nobody.get(f"{PATH}/status")).status == 401
    for verb in ("pause", "resume"):
        assert (await world.viewer.post(f"{PATH}/{verb}")).status == 403


async def test_this_process_obeys_before_it_answers(world: ApiWorld) -> None:
    await register(world)
    pause = world.service.crawl.pause
    await world.admin.post(f"{PATH}/pause", {"sellerId": SELLER})
    assert vars(pause) == {"everything": False, "sellers": frozenset({SellerId(SELLER)})}
    await world.admin.post(f"{PATH}/pause")
    assert vars(pause)["everything"]
    await world.admin.post(f"{PATH}/resume")
    await world.admin.post(f"{PATH}/resume", {"sellerId": SELLER})
    assert vars(pause) == {"everything": False, "sellers": frozenset()}


async def test_an_open_circuit_has_its_cause_in_the_readers_language(world: ApiWorld, inline_store: SqlStore) -> None:
    await open_circuit(inline_store, Endpoint.DETAIL, NOW)
    english = (await world.viewer.get(f"{PATH}/status")).json["circuits"][1]
    assert (english["state"], english["since"]) == ("OPEN", "2026-11-15T06:04:05.123456Z")
    assert english["reason"] == "The marketplace answered 503: an error on its side."
    assert english["notBefore"] == "2026-11-15T06:04:35.123456Z"
    failure = {"code": "SERVER_ERROR", "blame": "MARKETPLACE", "facts": {"status": 503}, "at": english["since"]}
    assert english["failure"] == failure
    korean = await world.viewer.ask("GET", f"{PATH}/status", headers={"accept-language": "ko-KR"})
    assert korean.json["circuits"][1]["reason"] == "마켓플레이스 응답 503: 서버 오류입니다."


async def test_health_is_down_while_an_endpoint_does_not_answer(world: ApiWorld, inline_store: SqlStore) -> None:
    parts = (await world.viewer.get("/actuator/health")).json["components"]
    closed = {"list": "CLOSED", "detail": "CLOSED", "options": "CLOSED", "token": "CLOSED"}
    calm = {"state": "CLOSED", "circuits": closed, "pausedBy": None, "pausedSellers": 0}
    assert parts["marketplace"] == {"status": "UP", "details": calm}
    await open_circuit(inline_store, Endpoint.TOKEN, NOW)
    told = await world.viewer.get("/actuator/health")
    assert told.status == 503
    assert told.json["components"]["marketplace"] == {
        "status": "DOWN",
        "details": calm | {"state": "OPEN", "circuits": closed | {"token": "OPEN"}},
    }
    ready = (await world.viewer.get("/actuator/health/readiness")).json
    assert "marketplace" not in ready["components"]


async def test_health_is_down_while_all_requests_are_paused_and_up_while_one_sellers_are(world: ApiWorld) -> None:
    await register(world)
    await world.admin.post(f"{PATH}/pause", {"sellerId": SELLER})
    part = (await world.viewer.get("/actuator/health")).json["components"]["marketplace"]
    assert (part["status"], part["details"]["pausedSellers"]) == ("UP", 1)
    await world.admin.post(f"{PATH}/pause")
    part = (await world.viewer.get("/actuator/health")).json["components"]["marketplace"]
    assert (part["status"], part["details"]["state"]) == ("DOWN", "PAUSED")
    assert part["details"]["pausedBy"] == "token:admin@practice"


async def test_metrics_have_every_circuit_and_what_is_paused(world: ApiWorld, inline_store: SqlStore) -> None:
    await register(world)
    await world.admin.post(f"{PATH}/pause", {"sellerId": SELLER})
    await world.admin.post(f"{PATH}/pause")
    await open_circuit(inline_store, Endpoint.LIST, NOW)
    lines = (await world.viewer.get("/metrics")).body.decode().splitlines()
    assert 'sellerwatch_marketplace_circuit{endpoint="list",state="OPEN"} 1.0' in lines
    assert 'sellerwatch_marketplace_circuit{endpoint="list",state="CLOSED"} 0.0' in lines
    assert 'sellerwatch_marketplace_circuit{endpoint="detail",state="CLOSED"} 1.0' in lines
    assert len([line for line in lines if line.startswith("sellerwatch_marketplace_circuit{")]) == 12
    assert "sellerwatch_marketplace_paused 1.0" in lines
    assert "sellerwatch_marketplace_paused_sellers 1.0" in lines
