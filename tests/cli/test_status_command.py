"""`sellerwatch status` and `sellerwatch why`: one screen of the whole service, and the trace of one thing."""

from __future__ import annotations

from tests.builders import NOW, SELLER

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.execution import Execution
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.reports.attention import ACTIONS
from sellerwatch.reports.checks import AttentionKind
from sellerwatch.texts import family

from .cli_world import CliWorld, execution_id, outbox_id, task_id, task_number
from .conftest import refused


def test_a_service_without_trouble_says_so(world: CliWorld) -> None:
    assert "Nothing needs attention." in world.said("status")
    assert world.json("status")["attention"] == []


def test_what_is_stuck_is_shown_with_what_to_do(world: CliWorld) -> None:
    # Registered and crawled some days before the program's clock, and nothing runs: so the seller is late too.
    world.register()
    world.run_of(done=1, failed=2, waiting=1)
    world.failed_message()
    said = world.said("status")
    for part in (
        "1 event could not be delivered",
        "sellerwatch outbox list --status FAILED",
        "No process crawls",
        "Runs in progress (1)",
        "75 %",
    ):
        assert part in said
    found = world.json("status")
    assert [each["kind"] for each in found["attention"]] == ["no_worker", "failed_events"]
    assert [run["executionId"] for run in found["runs"]] == [execution_id()]
    assert "전달에 실패한 이벤트가 1건" in world("status", LANGUAGE="ko").stdout


def test_every_kind_of_attention_has_an_action_and_a_sentence_in_both_languages() -> None:
    assert set(ACTIONS) == set(AttentionKind)
    assert set(family("attention")) == {kind.value for kind in AttentionKind}


def test_why_traces_a_task_and_an_event(world: CliWorld) -> None:
    world.register()
    world.run_of(done=1, failed=1)
    world.failed_message()
    failed = task_id(task_number() + 1)
    assert world.json("why", failed)["kind"] == "task"
    said = world.said("why", failed)
    assert execution_id() in said
    assert "answered 503" in said
    assert world.json("why", outbox_id())["kind"] == "event"
    assert "이벤트" in world("why", outbox_id(), LANGUAGE="ko").stdout


def test_why_says_of_a_run_that_waits_to_be_started_that_it_is_tried_again(world: CliWorld) -> None:
    world.register()

    def work(tx: Transaction) -> None:
        schedule = tx.schedules.of_seller(SELLER)
        assert schedule is not None
        run = Execution.create(execution_id(), schedule.schedule_id, SELLER, NOW)
        tx.executions.add(run.wait_to_start(Failure.of(FailureCode.TOO_MANY_REQUESTS, NOW), NOW))

    world.do(work)
    assert "Not yet: it is tried again." in world.said("why", execution_id())


def test_an_id_that_names_nothing_is_one_sentence(world: CliWorld) -> None:
    assert task_id(9) in refused(world("why", task_id(9)), 1)
    assert "neither an item number" in refused(world("why", "x"), 2)
