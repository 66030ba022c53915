"""/api/v1/executions: lists to the end, live progress, cancel and retry."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import structs
from tests.builders import MINUTE, NOW, SELLER, execution_id

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.clock import stamp

from .api_world import BAD_CURSORS, UNKNOWN_ID, ApiWorld

PATH = "/api/v1/executions"


async def test_runs_are_listed_newest_first_to_the_end_without_gaps_or_repeats(world: ApiWorld) -> None:
    await world.register_seller()
    for number in range(1, 8):
        await world.add_run(number, done=1)
    newest_first = [execution_id(number) for number in range(7, 0, -1)]
    for size in (1, 2, 3, 7, 100):
        found = await world.viewer.all_pages(PATH, size)
        assert [run["executionId"] for run in found] == newest_first
    of_seller = await world.viewer.all_pages(PATH, 2, sellerId=SELLER, status="COMPLETED")
    assert [run["executionId"] for run in of_seller] == newest_first
    assert await world.viewer.all_pages(PATH, 2, status="FAILED") == []


async def test_a_run_shows_its_progress_its_errors_and_why_it_is_paused(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=2, failed=1, waiting=1)
    notes = {(NoteKind.PAUSED, "MISSING where=items"): 10, (NoteKind.CHANGED, "DETAIL prices.selling"): 3}
    await world.transact(lambda tx: tx.run_notes.add(execution_id(), notes))
    shown = (await world.viewer.get(f"{PATH}/{execution_id()}")).json
    assert shown["tasks"] == {"PRODUCT_DETAIL": {"COMPLETED": 2, "FAILED": 1, "WAITING": 1}}
    assert (shown["progressRate"], shown["successRate"], shown["status"]) == (75.0, 66.67, "RUNNING")
    unwell = "The marketplace answered 503: an error on its side."
    assert shown["errors"] == [{"code": "SERVER_ERROR", "blame": "MARKETPLACE", "message": unwell, "count": 1}]
    assert (shown["errorMessage"], shown["failure"], shown["startTries"], shown["nextStartAt"]) == (None, None, 0, None)
    assert shown["paused"] == "The run is paused; answers that could not be read: 10 (items: missing)."
    korean = (await world.viewer.ask("GET", f"{PATH}/{execution_id()}", headers={"accept-language": "ko"})).json
    sentence = "읽을 수 없는 응답이 10건 있어 실행이 일시 중지되었습니다(items: 값이 없습니다)."
    assert (korean["paused"], korean["waiting"]["message"]) == (sentence, sentence)
    assert shown["changedFields"] == [{"part": "DETAIL", "field": "prices.selling", "products": 3}]
    assert shown["createdAt"].endswith("Z")


async def test_a_run_that_waits_to_start_says_why_and_when_in_the_callers_language(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_waiting_run()
    path = f"{PATH}/{execution_id()}"
    english = (await world.viewer.ask("GET", path, headers={"accept-language": "en"})).json
    korean = (await world.viewer.ask("GET", path, headers={"accept-language": "ko-KR"})).json
    assert english["errorMessage"] == "The marketplace cannot be reached (connection refused)."
    assert korean["errorMessage"] == "마켓플레이스에 연결할 수 없습니다(connection refused)."
    assert (english["startTries"], english["nextStartAt"]) == (2, stamp(NOW + MINUTE))
    for shown in (english, korean):
        assert shown["failure"] == {
            "code": "UNREACHABLE",
            "blame": "MARKETPLACE",
            "facts": {"detail": "connection refused"},
            "at": stamp(NOW),
        }
    (listed,) = (await world.viewer.ask("GET", PATH, headers={"accept-language": "ko"})).json["content"]
    assert (listed["errorMessage"], listed["failure"]) == (korean["errorMessage"], korean["failure"])


async def test_a_paused_run_says_when_it_is_checked_again(world: ApiWorld) -> None:
    await world.register_seller()
    run = await world.add_run(waiting=2)
    assert (await world.viewer.get(f"{PATH}/{run.execution_id}")).json["recheckAt"] is None

    def pause(tx: Transaction) -> datetime:
        task, *_ = tx.run_tasks.open_of(run.execution_id, [TaskStatus.WAITING])
        notes = {(NoteKind.PAUSED, "why"): 1, (NoteKind.RECHECK, task.task_id): 1}
        tx.run_notes.add(run.execution_id, notes)
        tx.tasks.save([structs.replace(task, available_at=NOW + timedelta(minutes=5))], NOW)
        return NOW + timedelta(minutes=5)

    due = await world.transact(pause)
    shown = (await world.viewer.get(f"{PATH}/{run.execution_id}")).json
    assert (shown["paused"], datetime.fromisoformat(shown["recheckAt"])) == (shown["waiting"]["message"], due)


async def test_a_run_is_cancelled_once_and_the_trail_names_who_did_it(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=1, waiting=2)
    ended = (await world.admin.post(f"{PATH}/{execution_id()}/cancel")).json
    assert (ended["status"], ended["cancelledTasks"], ended["tasksInFlight"]) == ("FAILED", 2, 0)
    again = await world.admin.post(f"{PATH}/{execution_id()}/cancel")
    assert (again.status, again.json["errorCode"]) == (409, "EXECUTION_OVER")
    assert [(entry.action, entry.subject_id) for entry in await world.api_trail()] == [
        ("execution.cancel", execution_id())
    ]


async def test_failed_tasks_of_a_run_are_done_after_all(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=1, failed=2)
    again = (await world.admin.post(f"{PATH}/{execution_id()}/retry")).json
    assert (again["status"], again["reopenedTasks"], again["failedTasks"]) == ("RUNNING", 2, 0)
    refused = await world.admin.post(f"{PATH}/{execution_id()}/retry")
    assert (refused.status, refused.json["errorCode"]) == (409, "NOTHING_TO_RETRY")


async def test_what_is_not_there_or_no_id_is_refused_and_changes_nothing(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(waiting=1)
    before = await world.all_rows()
    for verb in ("cancel", "retry"):
        assert (await world.admin.post(f"{PATH}/{UNKNOWN_ID}/{verb}")).status == 404
        assert (await world.admin.post(f"{PATH}/no-id/{verb}")).status == 400
        assert (await world.viewer.post(f"{PATH}/{execution_id()}/{verb}")).status == 403
        assert (await world.nobody.post(f"{PATH}/{execution_id()}/{verb}")).status == 401
    assert (await world.viewer.get(f"{PATH}/{UNKNOWN_ID}")).json["errorCode"] == "EXECUTION_NOT_FOUND"
    assert (await world.viewer.get(f"{PATH}/1'; DROP TABLE sellers")).status == 400
    assert (await world.viewer.get(PATH, sellerId="nobody")).status == 404
    assert (await world.viewer.get(PATH, status="SLEEPING")).status == 400
    assert (await world.viewer.get(PATH, size=0)).status == 400
    assert (await world.nobody.get(PATH)).status == 401
    for cursor in BAD_CURSORS:
        assert (await world.viewer.get(PATH, cursor=cursor)).status == 400
    assert await world.all_rows() == before
