"""The endpoints of the papers: sellers, the scheduler's trigger, and a seller's day in numbers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agents.outages import open_circuit
from tests.builders import MINUTE, NOW, SELLER, execution_id

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.kernel.clock import stamp

from .api_world import KEYS, ApiWorld

BODY = {"sellerId": "seller_0001", "name": "럭셔리하우스 👜"}


async def register(world: ApiWorld, **more: Any) -> Any:
    done = await world.admin.post("/api/v1/sellers", {**BODY, **more})
    assert done.status == 201, done.body
    return done.json


NEVER_READ = {
    "state": "never",
    "freshShare": 0.0,
    "oldestPartAt": None,
    "undelivered": 0,
    "freshAsOf": None,
    "cause": None,
}


async def test_a_seller_is_registered_and_found_again(world: ApiWorld) -> None:
    made = await register(world)
    assert made == {
        "sellerId": "seller_0001",
        "name": "럭셔리하우스 👜",
        "status": "ACTIVE",
        "crawlingIntervalDays": 1,
        "interval": {"amount": 1, "unit": "DAYS"},
        "totalProductCount": 0,
        "nextRunAt": made["nextRunAt"],
        "createdAt": made["createdAt"],
        "updatedAt": made["createdAt"],
        "dryRun": False,
    }
    assert made.pop("dryRun") is False
    assert made["createdAt"] == NOW.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    found = (await world.viewer.get("/api/v1/sellers/seller_0001")).json
    assert {name: found[name] for name in made} == made
    assert (found["schedule"]["status"], found["lastExecution"], found["productsPresent"]) == ("ACTIVE", None, 0)
    assert found["schedule"]["expression"] == found["schedule"]["scheduleExpression"] == "rate(1 day)"
    assert found["products"] == {"present": 0, "complete": 0, "deleted": 0}
    page = (await world.viewer.get("/api/v1/sellers", status="ACTIVE")).json
    assert page == {
        "content": [made | {"openExecution": None, "freshness": NEVER_READ}],
        "page": 0,
        "size": 20,
        "totalElements": 1,
        "totalPages": 1,
    }


async def test_a_seller_whose_run_waits_says_what_for(world: ApiWorld, inline_store: SqlStore) -> None:
    await world.register_seller()
    await world.add_run(done=1, waiting=1)
    shown = (await world.viewer.get("/api/v1/sellers")).json["content"][0]["openExecution"]
    assert (shown["executionId"], shown["status"], shown["progressRate"]) == (execution_id(), "RUNNING", 50.0)
    assert shown["waiting"] is None
    await open_circuit(inline_store, Endpoint.DETAIL, NOW)
    listed = (await world.viewer.get("/api/v1/sellers")).json["content"][0]
    waiting = listed["openExecution"]["waiting"]
    assert (waiting["code"], waiting["blame"], waiting["facts"]["endpoint"]) == (
        "CIRCUIT_OPEN",
        "MARKETPLACE",
        "detail",
    )
    assert "answered 503" in waiting["message"]
    single = (await world.viewer.get(f"/api/v1/sellers/{listed['sellerId']}")).json
    assert single["openExecution"] == listed["openExecution"]
    runs = (await world.viewer.get("/api/v1/executions")).json["content"]
    run = (await world.viewer.get(f"/api/v1/executions/{execution_id()}")).json
    assert runs[0]["waiting"] == run["waiting"] == waiting


async def test_a_seller_whose_run_was_not_started_says_why_and_when_it_is_tried_again(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_waiting_run()
    (listed,) = (await world.viewer.get("/api/v1/sellers")).json["content"]
    shown = listed["openExecution"]
    assert (shown["status"], shown["nextStartAt"]) == ("PENDING", stamp(NOW + MINUTE))
    assert shown["waiting"]["code"] == "UNREACHABLE"


async def test_an_hourly_seller_has_no_days(world: ApiWorld) -> None:
    made = await register(world, interval={"amount": 6, "unit": "hours"})
    assert (made["crawlingIntervalDays"], made["interval"]) == (None, {"amount": 6, "unit": "HOURS"})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"sellerId": "x"},
        {**BODY, "crawlingIntervalDays": 0},
        {**BODY, "crawlingIntervalDays": 31},
        {**BODY, "crawlingIntervalDays": "1"},
        {**BODY, "crawlingIntervalDays": True},
        {**BODY, "crawlingIntervalDays": 1, "interval": {"amount": 1, "unit": "DAYS"}},
        {**BODY, "interval": {"amount": 24, "unit": "HOURS"}},
        {**BODY, "interval": {"amount": 1, "unit": "WEEKS"}},
        {**BODY, "name": "  "},
        {**BODY, "sellerId": ""},
        {**BODY, "sellerId": 7},
        {**BODY, "surprise": 1},
        [],
        "text",
    ],
)
async def test_bad_input_is_refused_with_400_and_changes_nothing(world: ApiWorld, body: Any) -> None:
    refused = await world.admin.post("/api/v1/sellers", body)
    assert refused.status == 400
    assert set(refused.json) <= {"errorCode", "message", "timestamp", "path", "details"}
    assert refused.json["path"] == "/api/v1/sellers"
    assert (await world.viewer.get("/api/v1/sellers")).json["totalElements"] == 0


async def test_a_second_of_the_same_id_is_a_conflict(world: ApiWorld) -> None:
    await register(world)
    again = await world.admin.post("/api/v1/sellers", BODY)
    assert (again.status, again.json["errorCode"]) == (409, "SELLER_EXISTS")
    assert again.json["details"] == {"sellerId": "seller_0001"}


async def test_an_unknown_seller_is_not_found_wherever_it_is_named(world: ApiWorld) -> None:
    asked = [
        await world.viewer.get("/api/v1/sellers/nobody"),
        await world.admin.patch("/api/v1/sellers/nobody/interval", {"crawlingIntervalDays": 2}),
        await world.admin.post("/api/v1/sellers/nobody/activate"),
        await world.admin.post("/api/v1/sellers/nobody/deactivate"),
        await world.admin.post("/api/v1/sellers/nobody/crawl"),
        await world.viewer.get("/api/v1/metrics/crawling", sellerId="nobody"),
    ]
    assert {(reply.status, reply.json["errorCode"]) for reply in asked} == {(404, "SELLER_NOT_FOUND")}


async def test_interval_and_state_change_and_what_is_already_so_is_refused(world: ApiWorld) -> None:
    await register(world)
    changed = await world.admin.patch("/api/v1/sellers/seller_0001/interval", {"crawlingIntervalDays": 7})
    assert (changed.status, changed.json["crawlingIntervalDays"]) == (200, 7)
    assert (await world.admin.post("/api/v1/sellers/seller_0001/activate")).status == 409
    off = await world.admin.post("/api/v1/sellers/seller_0001/deactivate")
    assert (off.status, off.json["status"]) == (200, "INACTIVE")
    refused = await world.admin.patch("/api/v1/sellers/seller_0001/interval", {"crawlingIntervalDays": 2})
    assert refused.status == 409
    crawl = await world.admin.post("/api/v1/sellers/seller_0001/crawl")
    assert (crawl.status, crawl.json["errorCode"]) == (409, "SELLER_INACTIVE")
    assert (await world.admin.post("/api/v1/sellers/seller_0001/activate")).json["status"] == "ACTIVE"
    assert (await world.admin.patch("/api/v1/sellers/seller_0001/interval", {})).status == 400


async def test_a_run_is_started_once_and_the_second_is_told_which_is_going(world: ApiWorld) -> None:
    await register(world)
    started = await world.admin.post("/api/v1/sellers/seller_0001/crawl")
    assert (started.status, started.json["taskCount"]) == (202, 1)
    body, key = {"sellerId": "seller_0001"}, {"x-api-key": KEYS[1]}
    again = await world.nobody.ask("POST", "/api/internal/crawling/trigger", body, headers=key)
    assert (again.status, again.json["errorCode"]) == (409, "CRAWL_IN_PROGRESS")
    assert again.json["details"]["executionId"] == started.json["executionId"]
    day = (await world.viewer.get("/api/v1/metrics/crawling", sellerId="seller_0001")).json
    assert day["taskStats"] == {"total": 1, "completed": 0, "failed": 0, "inProgress": 0}
    assert (day["date"], day["successRate"], day["progressRate"]) == (NOW.date().isoformat(), 0.0, 0.0)


@pytest.mark.parametrize("key", [None, "", "first-internal-ke", "first-internal-key ", "FIRST-INTERNAL-KEY"])
async def test_the_internal_endpoint_takes_only_its_keys(world: ApiWorld, key: str | None) -> None:
    headers = {} if key is None else {"x-api-key": key}
    refused = await world.admin.ask("POST", "/api/internal/crawling/trigger", {"sellerId": "x"}, headers=headers)
    assert (refused.status, refused.json["errorCode"]) == (401, "WRONG_API_KEY")


async def test_what_was_done_through_the_api_names_its_caller_on_the_trail(world: ApiWorld) -> None:
    await register(world)
    trail = await world.service.crawl.store.read(lambda tx: tx.audit.newest(limit=10))
    assert "token:admin@practice" in {entry.actor for entry in trail}


async def test_a_dry_run_answers_what_would_be_and_changes_nothing(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=1, waiting=1)
    before, dry = await world.all_rows(), {"dryRun": "true"}
    made = await world.admin.post("/api/v1/sellers", {"sellerId": "other", "name": "x", "crawlNow": True}, **dry)
    assert (made.status, made.json["sellerId"], made.json["dryRun"]) == (201, "other", True)
    seller = f"/api/v1/sellers/{SELLER}"
    changed = await world.admin.ask("PATCH", f"{seller}/interval", {"crawlingIntervalDays": 7}, query=dry)
    assert (changed.json["crawlingIntervalDays"], changed.json["dryRun"]) == (7, True)
    off = (await world.admin.post(f"{seller}/deactivate", **dry)).json
    assert (off["status"], off["nextRunAt"], off["dryRun"]) == ("INACTIVE", None, True)
    assert (off["endedExecution"]["executionId"], off["endedExecution"]["cancelledTasks"]) == (execution_id(), 1)
    assert (await world.admin.post(f"{seller}/activate", **dry)).status == 409
    due = (await world.admin.post(f"/api/v1/schedules/{SELLER}/run-now", **dry)).json
    assert (due["nextRunAt"], due["dryRun"]) == (stamp(NOW), True)
    assert await world.all_rows() == before


async def test_deactivating_answers_the_run_that_was_ended(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=1, waiting=1)
    ended = (await world.admin.post(f"/api/v1/sellers/{SELLER}/deactivate")).json["endedExecution"]
    assert (ended["status"], ended["failure"]["code"]) == ("FAILED", "SELLER_DEACTIVATED")


async def test_sellers_are_found_by_name_and_freshness_in_pages(world: ApiWorld) -> None:
    for number in range(3):
        await register(world, sellerId=f"s{number}", name=f"Shop {number}")
    await world.admin.post("/api/v1/sellers/s1/deactivate")
    never = (await world.viewer.get("/api/v1/sellers", freshness="never", page=1, size=1)).json
    assert ([s["sellerId"] for s in never["content"]], never["totalElements"], never["totalPages"]) == (["s2"], 2, 2)
    assert [s["sellerId"] for s in (await world.viewer.get("/api/v1/sellers", search="p 1")).json["content"]] == ["s1"]


async def test_a_query_parameter_that_sellers_do_not_have_is_refused(world: ApiWorld) -> None:
    for path in ("/api/v1/sellers", "/api/v1/schedules"):
        refused = await world.viewer.get(path, sort="name")
        assert (refused.status, refused.json["errorCode"]) == (400, "INVALID_REQUEST")


async def test_the_plan_says_whether_the_sellers_fit_and_when_their_runs_end(world: ApiWorld) -> None:
    await world.admin.post("/api/v1/sellers", {"sellerId": "seller_0001", "name": "가게"})
    plan = (await world.viewer.get("/api/v1/plan", products=4_000_000, agents=10)).json
    assert (plan["fits"], plan["agents"], plan["unread"]) == (False, 10, 1)
    assert plan["requestsPerDay"] > plan["allowedPerDay"]
    assert plan["agentsNeeded"] > 10
    (run,) = plan["content"]
    assert (run["sellerId"], run["interval"], run["isLate"]) == ("seller_0001", {"amount": 1, "unit": "DAYS"}, True)
    assert (await world.viewer.get("/api/v1/plan", agents=0)).status == 400


@pytest.mark.parametrize("odd", ["a b/c?&", "a/b/", "..", "x' OR '1'='1"])
async def test_a_seller_with_an_id_from_before_the_rule_stays_reachable(world: ApiWorld, odd: str) -> None:
    assert (await world.admin.post("/api/v1/sellers", {"sellerId": odd, "name": "x"})).status == 400
    await register(world)
    for table in ("sellers", "crawling_schedules"):
        statement = f"UPDATE {table} SET seller_id = :odd"  # noqa: S608
        await world.transact(lambda tx, statement=statement: tx.db.run(statement, {"odd": odd}))  # type: ignore[misc]
    path = f"/api/v1/sellers/{odd}"
    assert (await world.viewer.get(path)).json["sellerId"] == odd
    assert (await world.viewer.get(f"/api/v1/schedules/{odd}")).status == 200
    assert (await world.admin.patch(f"{path}/interval", {"crawlingIntervalDays": 2})).status == 200
    stopped = await world.admin.post(f"{path}/deactivate")
    assert (stopped.status, stopped.json["status"]) == (200, "INACTIVE")
    assert (await world.admin.post(f"{path}/activate")).status == 200


async def test_every_503_says_when_to_come_back(world: ApiWorld) -> None:
    refused = await world.nobody.get("/actuator/health")
    assert (refused.status, refused.headers["retry-after"]) == (503, "5")
