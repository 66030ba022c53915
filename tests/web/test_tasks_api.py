"""/api/v1/tasks: lists to the end by every filter, one of them, and trying failed ones again."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec import structs
from tests.builders import NOW, SELLER, execution_id, seller_id, task_id

from sellerwatch.adapters.sql import paging
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.task import TaskNote
from sellerwatch.kernel.clock import stamp

from .api_world import BAD_CURSORS, UNKNOWN_ID, ApiWorld, task_number

PATH = "/api/v1/tasks"
OTHER = seller_id(77)


async def stock(world: ApiWorld) -> None:
    await world.register_seller()
    await world.register_seller(OTHER)
    await world.add_run(1, done=3, failed=2)
    await world.add_run(2, OTHER, done=1, failed=3)
    await world.add_run(3, done=2, waiting=2)


FILTERS = [
    {"executionId": run, "sellerId": seller, "status": status, "taskType": kind}
    for run, seller, status, kind in product(
        (None, execution_id(1)), (None, SELLER), (None, "FAILED", "COMPLETED"), (None, "PRODUCT_DETAIL", "MINISHOP")
    )
]


@pytest.mark.parametrize("chosen", FILTERS)
async def test_every_filter_gives_what_a_plain_look_gives_slice_by_slice(
    world: ApiWorld, chosen: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    await stock(world)
    everyone = (await world.viewer.get(PATH, size=100)).json["content"]
    assert len(everyone) == 13
    wanted = [t["taskId"] for t in everyone if all(v is None or t[name] == v for name, v in chosen.items())]
    # However few rows a slice may look at, all of them are found, each once.
    monkeypatch.setattr(paging, "MAX_ROWS_SCANNED", 2)
    for size in (1, 2, 100):
        found = [task["taskId"] for task in await world.viewer.all_pages(PATH, size, **chosen)]
        assert sorted(found) == sorted(wanted)


async def test_tasks_are_listed_newest_first_and_one_is_shown_whole(world: ApiWorld) -> None:
    await stock(world)
    found = await world.viewer.all_pages(PATH, 4)
    ids = [task["taskId"] for task in found]
    assert ids == sorted(ids, reverse=True)
    shown = (await world.viewer.get(f"{PATH}/{ids[-1]}")).json
    assert shown == found[-1]
    assert (shown["status"], shown["taskType"], shown["purpose"]) == ("COMPLETED", "PRODUCT_DETAIL", "CRAWL")
    assert "agentRow" not in shown


async def test_why_a_task_failed_and_what_one_left_out_is_said_in_the_callers_language(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=2, failed=1)
    done, old, failed = (task_id(task_number() + place) for place in range(3))

    def noted(tx: Transaction) -> None:
        found = tx.tasks.get_many([done, old])
        notes = {done: TaskNote.STILL_ANSWERS, old: "as an earlier version wrote it"}
        tx.tasks.save([structs.replace(found[name], note=note) for name, note in notes.items()], NOW)

    await world.transact(noted)
    for language, error, note in (
        ("en", "The marketplace answered 503: an error on its side.", "The product is not on the list, but"),
        ("ko", "마켓플레이스 응답 503: 서버 오류입니다.", "목록에는 없지만"),
    ):
        listed = (await world.viewer.ask("GET", PATH, headers={"accept-language": language})).json["content"]
        tasks = {task["taskId"]: task for task in listed}
        failure = {"code": "SERVER_ERROR", "blame": "MARKETPLACE", "facts": {"status": 503}, "at": stamp(NOW)}
        assert (tasks[failed]["errorMessage"], tasks[failed]["failure"]) == (error, failure)
        assert (tasks[failed]["note"], tasks[failed]["noteCode"]) == (None, None)
        assert (tasks[done]["errorMessage"], tasks[done]["failure"]) == (None, None)
        assert tasks[done]["note"].startswith(note)
        assert tasks[done]["noteCode"] == "STILL_ANSWERS"
        assert (tasks[old]["note"], tasks[old]["noteCode"]) == ("as an earlier version wrote it", None)


async def test_a_failed_task_is_done_after_all_and_any_other_is_refused(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=1, failed=1)
    done, failed = task_id(task_number()), task_id(task_number() + 1)
    again = await world.admin.post(f"{PATH}/{failed}/retry")
    assert (again.status, again.json["status"], again.json["retryCount"]) == (200, "RETRY", 0)
    refused = await world.admin.post(f"{PATH}/{done}/retry")
    assert (refused.status, refused.json["errorCode"]) == (409, "ILLEGAL_MOVE")
    assert [(e.action, e.subject_id) for e in await world.api_trail()] == [("task.retry", failed)]


async def test_many_are_tried_again_by_a_choice_after_a_look_at_the_numbers(world: ApiWorld) -> None:
    await stock(world)
    before = await world.all_rows()
    numbers = (await world.admin.post(f"{PATH}/retry", {"allFailed": True}, dryRun="true")).json
    assert (numbers["tasks"], numbers["bySeller"]) == (5, {SELLER: 2, OTHER: 3})
    assert (numbers["byType"], numbers["done"], numbers["dryRun"]) == ({"PRODUCT_DETAIL": 5}, [], True)
    assert await world.all_rows() == before
    done = (await world.admin.post(f"{PATH}/retry", {"allFailed": True})).json
    assert (len(done["done"]), done["next"], done["bySeller"]) == (3, None, {OTHER: 3})
    # The third run of the first seller is going: its first one cannot be opened again.
    assert {one["errorCode"] for one in done["refused"]} == {"CRAWL_IN_PROGRESS"}
    assert len(await world.api_trail()) == 3


async def test_many_are_tried_again_by_their_ids_and_each_has_its_answer(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=1, failed=2)
    done, failed = task_id(task_number()), task_id(task_number() + 1)
    answer = (await world.admin.post(f"{PATH}/retry", {"taskIds": [failed, done, UNKNOWN_ID]})).json
    assert answer["done"] == [failed]
    assert {one["id"]: one["errorCode"] for one in answer["refused"]} == {
        done: "ILLEGAL_MOVE",
        UNKNOWN_ID: "TASK_NOT_FOUND",
    }


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"allFailed": False},
        {"allFailed": 1},
        {"taskIds": []},
        {"taskIds": ["x"]},
        {"taskIds": [task_id()], "allFailed": True},
        {"taskIds": [task_id()] * 501},
        {"sellerId": "  "},
        {"taskType": "DREAM"},
        {"executionId": "'; DROP TABLE crawler_tasks; --"},
        {"surprise": 1},
        [],
    ],
)
async def test_a_choice_that_cannot_be_read_is_refused_and_changes_nothing(world: ApiWorld, body: object) -> None:
    await world.register_seller()
    await world.add_run(failed=2)
    before = await world.all_rows()
    assert (await world.admin.post(f"{PATH}/retry", body)).status == 400
    assert await world.all_rows() == before


async def test_what_is_not_there_or_not_allowed_is_refused(world: ApiWorld) -> None:
    await stock(world)
    failed = task_id(task_number() + 3)
    assert (await world.viewer.post(f"{PATH}/{failed}/retry")).status == 403
    assert (await world.viewer.post(f"{PATH}/retry", {"allFailed": True})).status == 403
    assert (await world.viewer.get(f"{PATH}/{UNKNOWN_ID}")).status == 404
    assert (await world.viewer.get(f"{PATH}/7")).status == 400
    assert (await world.viewer.get(PATH, executionId=UNKNOWN_ID)).json["errorCode"] == "EXECUTION_NOT_FOUND"
    assert (await world.viewer.get(PATH, executionId="x")).status == 400
    for cursor in BAD_CURSORS:
        refused = await world.viewer.get(PATH, cursor=cursor)
        assert (refused.status, refused.json["errorCode"]) == (400, "INVALID_CURSOR")
