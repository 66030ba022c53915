"""/api/v1/status and /api/v1/why: the whole service on one screen, and the trace of one thing."""

from __future__ import annotations

from tests.agents.outages import answer_503
from tests.builders import NOW, SELLER, execution_id, task_id, worker_id

from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.ports import NoteKind, WorkerInfo

from .api_world import UNKNOWN_ID, ApiWorld, task_number

STATUS, WHY = "/api/v1/status", "/api/v1/why"


async def test_a_new_service_needs_nobody(world: ApiWorld) -> None:
    found = (await world.viewer.get(STATUS)).json
    assert (found["attention"], found["running"], found["runs"], found["pendingRuns"]) == ([], 0, [], [])
    assert found["sellers"] == {"total": 0, "active": 0, "fresh": 0, "never": 0, "late": 0, "incomplete": 0}
    assert (found["marketplace"]["paused"], found["hasReceiver"]) == (False, True)


async def at_work(world: ApiWorld) -> None:
    """A process that crawls and starts runs is heard of."""
    info = WorkerInfo(worker_id(), "service", "here", 1, world.clock.now(), world.clock.now())
    await world.transact(lambda tx: tx.workers.enter(info))


async def test_what_is_stuck_is_shown_with_its_cause_and_worst_first(world: ApiWorld) -> None:
    await world.register_seller()
    await at_work(world)
    await world.add_run(done=1, failed=2, waiting=1)
    await world.failed_messages(3)
    await world.transact(lambda tx: answer_503(tx, Endpoint.DETAIL, NOW))
    found = (await world.viewer.get(STATUS)).json
    assert [(each["kind"], each["severity"], each["count"]) for each in found["attention"]] == [
        ("endpoints_away", "error", 1),
        ("failed_events", "error", 3),
    ]
    assert found["attention"][0]["actions"][0] == {
        "command": "sellerwatch marketplace status",
        "route": "GET /api/v1/marketplace/status",
        "page": "/#marketplace",
    }
    assert (await world.viewer.get("/api/v1/attention")).json["content"] == found["attention"]
    assert found["attention"][1]["sentence"] == "3 events could not be delivered: replay or discard"
    (run,) = found["runs"]
    assert run["waiting"]["code"] == "CIRCUIT_OPEN"
    assert {each["blame"]: each["count"] for each in found["failures"]} == {"RECEIVER": 3, "MARKETPLACE": 2}
    assert found["stalestSellers"][0]["sellerId"] == SELLER
    korean = (await world.viewer.ask("GET", STATUS, headers={"accept-language": "ko"})).json
    assert korean["attention"][1]["sentence"].startswith("전달에 실패한 이벤트가 3건")


async def test_runs_that_are_paused_or_wait_to_start_are_shown(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_waiting_run()
    found = (await world.viewer.get(STATUS)).json
    assert (found["pending"], found["running"]) == (1, 0)
    assert found["pendingRuns"][0]["startTries"] == 2


async def test_sellers_that_no_process_crawls_need_attention_once(world: ApiWorld) -> None:
    await world.register_seller()
    (needed,) = (await world.viewer.get("/api/v1/attention")).json["content"]
    assert (needed["kind"], needed["severity"], needed["sentence"]) == ("no_worker", "error", "No process crawls")


async def test_a_run_that_could_not_be_started_needs_attention(world: ApiWorld) -> None:
    await world.register_seller()
    await at_work(world)
    await world.add_waiting_run()
    (needed,) = (await world.viewer.get(STATUS)).json["attention"]
    assert (needed["kind"], needed["severity"], needed["count"]) == ("failing_starts", "error", 1)


async def test_a_paused_run_needs_attention(world: ApiWorld) -> None:
    await world.register_seller()
    await at_work(world)
    await world.add_run(waiting=1)
    await world.transact(lambda tx: tx.run_notes.add(execution_id(), {(NoteKind.PAUSED, "why"): 1}))
    (needed,) = (await world.viewer.get(STATUS)).json["attention"]
    assert (needed["kind"], needed["severity"]) == ("paused_runs", "warning")
    assert needed["sentence"].startswith("1 run is paused")


async def test_a_task_is_traced_by_its_id_alone(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=1, failed=1)
    failed = task_id(task_number() + 1)
    found = (await world.viewer.get(f"{WHY}/{failed}")).json
    assert (found["kind"], found["sellerId"]) == ("task", SELLER)
    assert found["execution"]["executionId"] == execution_id()
    assert found["tasks"][0]["task"]["failure"]["code"] == "SERVER_ERROR"


async def test_a_product_is_traced_by_its_number_and_a_version(world: ApiWorld) -> None:
    await world.crawled()
    (product, *_) = (await world.viewer.get("/api/v1/products")).json["content"]
    found = (await world.viewer.get(f"{WHY}/{product['itemNo']}", version=1)).json
    assert (found["kind"], found["itemNo"], found["changes"][0]["version"]) == ("product", product["itemNo"], 1)
    (event,) = found["events"]
    assert (event["version"], event["status"]) == (1, "COMPLETED")
    assert (await world.viewer.get(f"{WHY}/{event['outboxId']}")).json["kind"] == "event"


async def test_an_id_that_names_nothing_is_refused(world: ApiWorld) -> None:
    missing = await world.viewer.get(f"{WHY}/{UNKNOWN_ID}")
    assert (missing.status, missing.json["errorCode"]) == (404, "TRACE_NOT_FOUND")
    assert (await world.viewer.get(f"{WHY}/900")).status == 404
    for given in ("x", "0", "%EF%BC%91"):
        assert (await world.viewer.get(f"{WHY}/{given}")).status == 400
    assert (await world.nobody.get(f"{WHY}/{UNKNOWN_ID}")).status == 401
    assert (await world.nobody.get(STATUS)).status == 401
