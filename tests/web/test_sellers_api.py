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


async def register(office: ApiWorld, **more: Any) -> Any:
    done = await office.admin.post("/api/v1/sellers", {**BODY, **more})
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


async def test_a_seller_is_registered_and_found_again(office: ApiWorld) -> None:
    made = await register(office)
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
    found = (await office.viewer.get("/api/v1/sellers/seller_0001")).json
    assert {name: found[name] for name in made} == made
    assert (found["schedule"]["status"], found["lastExecution"], found["productsPresent"]) == ("ACTIVE", None, 0)
    assert found["schedule"]["expression"] == found["schedule"]["scheduleExpression"] == "rate(1 day)"
    assert found["products"] == {"present": 0, "complete": 0, "deleted": 0}
    page = (await office.viewer.get("/api/v1/sellers", status="ACTIVE")).json
    assert page == {
        "content": [made | {"openExecution": None, "freshness": NEVER_READ}],
        "page": 0,
        "size": 20,
        "totalElements": 1,
        "totalPages": 1,
    }


async def test_a_seller_whose_run_waits_says_what_for(office: ApiWorld, inline_store: SqlStore) -> None:
    await office.register_seller()
    await office.add_run(done=1, waiting=1)
    shown = (await office.viewer.get("/api/v1/sellers")).json["content"][0]["openExecution"]
    assert (shown["executionId"], shown["status"], shown["progressRate"]) == (execution_id(), "RUNNING", 50.0)
    assert shown["waiting"] is None
    await open_circuit(inline_store, Endpoint.DETAIL, NOW)
    listed = (await office.viewer.get("/api/v1/sellers")).json["content"][0]
    waiting = listed["openExecution"]["waiting"]
    assert (waiting["code"], waiting["blame"], waiting["facts"]["endpoint"]) == (
        "CIRCUIT_OPEN",
        "MARKETPLACE",
        "detail",
    )
    assert "answered 503" in waiting["message"]
    single = (await office.viewer.get(f"/api/v1/sellers/{listed['sellerId']}")).json
    assert single["openExecution"] == listed["openExecution"]
    runs = (await office.viewer.get("/api/v1/executions")).json["content"]
    run = (await office.viewer.get(f"/api/v1/executions/{execution_id()}")).json
    assert runs[0]["waiting"] == run["waiting"] == waiting


async def test_a_seller_whose_run_was_not_started_says_why_and_when_it_is_tried_again(office: ApiWorld) -> None:
    await office.register_seller()
    await office.add_waiting_run()
    (listed,) = (await office.viewer.get("/api/v1/sellers")).json["content"]
    shown = listed["openExecution"]
    assert (shown["status"], shown["nextStartAt"]) == ("PENDING", stamp(NOW + MINUTE))
    assert shown["waiting"]["code"] == "UNREACHABLE"


async def test_an_hourly_seller_has_no_days(office: ApiWorld) -> None:
    made = await register(office, interval={"amount": 6, "unit": "hours"})
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
async def test_bad_input_is_refused_with_400_and_changes_nothing(office: ApiWorld, body: Any) -> None:
    refused = await office.admin.post("/api/v1/sellers", body)
    assert refused.status == 400
    assert set(refused.json) <= {"errorCode", "message", "timestamp", "path", "details"}
    assert refused.json["path"] == "/api/v1/sellers"
    assert (await office.viewer.get("/api/v1/sellers")).json["totalElements"] == 0


async def test_a_second_of_the_same_id_is_a_conflict(office: ApiWorld) -> None:
    await register(office)
    again = await office.admin.post("/api/v1/sellers", BODY)
    assert (again.status, again.json["errorCode"]) == (409, "SELLER_EXISTS")
    assert again.json["details"] == {"sellerId": "seller_0001"}


async def test_an_unknown_seller_is_not_found_wherever_it_is_named(office: ApiWorld) -> None:
    asked = [
        await office.viewer.get("/api/v1/sellers/nobody"),
        await office.admin.patch("/api/v1/sellers/nobody/interval", {"crawlingIntervalDays": 2}),
        await office.admin.post("/api/v1/sellers/nobody/activate"),
        await office.admin.post("/api/v1/sellers/nobody/deactivate"),
        await office.admin.post("/api/v1/sellers/nobody/crawl"),
        await office.viewer.get("/api/v1/metrics/crawling", sellerId="nobody"),
    ]
    assert {(reply.status, reply.json["errorCode"]) for reply in asked} == {(404, "SELLER_NOT_FOUND")}


async def test_interval_and_state_change_and_what_is_already_so_is_refused(office: ApiWorld) -> None:
    await register(office)
    changed = await office.admin.patch("/api/v1/sellers/seller_0001/interval", {"crawlingIntervalDays": 7})
    assert (changed.status, changed.json["crawlingIntervalDays"]) == (200, 7)
    assert (await office.admin.post("/api/v1/sellers/seller_0001/activate")).status == 409
    off = await office.admin.post("/api/v1/sellers/seller_0001/deactivate")
    assert (off.status, off.json["status"]) == (200, "INACTIVE")
    refused = await office.admin.patch("/api/v1/sellers/seller_0001/interval", {"crawlingIntervalDays": 2})
    assert refused.status == 409
    crawl = await office.admin.post("/api/v1/sellers/seller_0001/crawl")
    assert (crawl.status, crawl.json["errorCode"]) == (409, "SELLER_INACTIVE")
    assert (await office.admin.post("/api/v1/sellers/seller_0001/activate")).json["status"] == "ACTIVE"
    assert (await office.admin.patch("/api/v1/sellers/seller_0001/interval", {})).status == 400


async def test_a_run_is_started_once_and_the_second_is_told_which_is_going(office: ApiWorld) -> None:
    await register(office)
    started = await office.admin.post("/api/v1/sellers/seller_0001/crawl")
    assert (started.status, started.json["taskCount"]) == (202, 1)
    body, key = {"sellerId": "seller_0001"}, {"x-api-key": KEYS[1]}
    again = await office.nobody.ask("POST", "/api/internal/crawling/trigger", body, headers=key)
    assert (again.status, again.json["errorCode"]) == (409, "CRAWL_IN_PROGRESS")
    assert again.json["details"]["executionId"] == started.json["executionId"]
    day = (await office.viewer.get("/api/v1/metrics/crawling", sellerId="seller_0001")).json
    assert day["taskStats"] == {"total": 1, "completed": 0, "failed": 0, "inProgress": 0}
    assert (day["date"], day["successRate"], day["progressRate"]) == (NOW.date().isoformat(), 0.0, 0.0)


@pytest.mark.parametrize("key", [None, "", "first-internal-ke", "first-internal-key ", "FIRST-INTERNAL-KEY"])
async def test_the_internal_endpoint_takes_only_its_keys(office: ApiWorld, key: str | None) -> None:
    headers = {} if key is None else {"x-api-key": key}
    refused = await office.admin.ask("POST", "/api/internal/crawling/trigger", {"sellerId": "x"}, headers=headers)
    assert (refused.status, refused.json["errorCode"]) == (401, "WRONG_API_KEY")


async def test_what_was_done_through_the_api_names_its_caller_on_the_trail(office: ApiWorld) -> None:
    await register(office)
    trail = await office.service.crawl.store.read(lambda tx: tx.audit.newest(limit=10))
    assert "token:admin@practice" in {entry.actor for entry in trail}


async def test_a_dry_run_answers_what_would_be_and_changes_nothing(office: ApiWorld) -> None:
    await office.register_seller()
    await office.add_run(done=1, waiting=1)
    before, dry = await office.all_rows(), {"dryRun": "true"}
    made = await office.admin.post("/api/v1/sellers", {"sellerId": "other", "name": "x", "crawlNow": True}, **dry)
    assert (made.status, made.json["sellerId"], made.json["dryRun"]) == (201, "other", True)
    seller = f"/api/v1/sellers/{SELLER}"
    changed = await office.admin.ask("PATCH", f"{seller}/interval", {"crawlingIntervalDays": 7}, query=dry)
    assert (changed.json["crawlingIntervalDays"], changed.json["dryRun"]) == (7, True)
    off = (await office.admin.post(f"{seller}/deactivate", **dry)).json
    assert (off["status"], off["nextRunAt"], off["dryRun"]) == ("INACTIVE", None, True)
    assert (off["endedExecution"]["executionId"], off["endedExecution"]["cancelledTasks"]) == (execution_id(), 1)
    assert (await office.admin.post(f"{seller}/activate", **dry)).status == 409
    due = (await office.admin.post(f"/api/v1/schedules/{SELLER}/run-now", **dry)).json
    assert (due["nextRunAt"], due["dryRun"]) == (stamp(NOW), True)
    assert await office.all_rows() == before


async def test_deactivating_answers_the_run_that_was_ended(office: ApiWorld) -> None:
    await office.register_seller()
    await office.add_run(done=1, waiting=1)
    ended = (await office.admin.post(f"/api/v1/sellers/{SELLER}/deactivate")).json["endedExecution"]
    assert (ended["status"], ended["failure"]["code"]) == ("FAILED", "SELLER_DEACTIVATED")


async def test_sellers_are_found_by_name_and_freshness_in_pages(office: ApiWorld) -> None:
    for number in range(3):
        await register(office, sellerId=f"s{number}", name=f"Shop {number}")
    await office.admin.post("/api/v1/sellers/s1/deactivate")
    never = (await office.viewer.get("/api/v1/sellers", freshness="never", page=1, size=1)).json
    assert ([s["sellerId"] for s in never["content"]], never["totalElements"], never["totalPages"]) == (["s2"], 2, 2)
    assert [s["sellerId"] for s in (await office.viewer.get("/api/v1/sellers", search="p 1")).json["content"]] == ["s1"]


async def test_a_query_parameter_that_sellers_do_not_have_is_refused(office: ApiWorld) -> None:
    for path in ("/api/v1/sellers", "/api/v1/schedules"):
        refused = await office.viewer.get(path, sort="name")
        assert (refused.status, refused.json["errorCode"]) == (400, "INVALID_REQUEST")


async def test_the_plan_says_whether_the_sellers_fit_and_when_their_runs_end(office: ApiWorld) -> None:
    await office.admin.post("/api/v1/sellers", {"sellerId": "seller_0001", "name": "가게"})
    plan = (await office.viewer.get("/api/v1/plan", products=4_000_000, agents=10)).json
    assert (plan["fits"], plan["agents"], plan["unread"]) == (False, 10, 1)
    assert plan["requestsPerDay"] > plan["allowedPerDay"]
    assert plan["agentsNeeded"] > 10
    (run,) = plan["content"]
    assert (run["sellerId"], run["interval"], run["isLate"]) == ("seller_0001", {"amount": 1, "unit": "DAYS"}, True)
    assert (await office.viewer.get("/api/v1/plan", agents=0)).status == 400


@pytest.mark.parametrize("odd", ["a b/c?&", "a/b/", "..", "x' OR '1'='1"])
async def test_a_seller_with_an_id_from_before_the_rule_stays_reachable(office: ApiWorld, odd: str) -> None:
    assert (await office.admin.post("/api/v1/sellers", {"sellerId": odd, "name": "x"})).status == 400
    await register(office)
    for table in ("sellers", "crawling_schedules"):
        statement = f"UPDATE {table} SET seller_id = :odd"  # noqa: S608
        await office.transact(lambda tx, statement=statement: tx.db.run(statement, {"odd": odd}))  # type: ignore[misc]
    path = f"/api/v1/sellers/{odd}"
    assert (await office.viewer.get(path)).json["sellerId"] == odd
    assert (await office.viewer.get(f"/api/v1/schedules/{odd}")).status == 200
    assert (await office.admin.patch(f"{path}/interval", {"crawlingIntervalDays": 2})).status == 200
    stopped = await office.admin.post(f"{path}/deactivate")
    assert (stopped.status, stopped.json["status"]) == (200, "INACTIVE")
    assert (await office.admin.post(f"{path}/activate")).status == 200


async def test_every_503_says_when_to_come_back(office: ApiWorld) -> None:
    refused = await office.nobody.get("/actuator/health")
    assert (refused.status, refused.headers["retry-after"]) == (503, "5")
