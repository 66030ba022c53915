"""How runs are shown: open or over, paused or waiting, and which of those that are followed are at work."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import NOW, a_context, a_failure, an_execution, execution_id
from tests.crawling.crawl_world import CrawlWorld

from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.queries import follow_runs
from sellerwatch.crawling.views import (
    ExecutionView,
    FoundProductsView,
    ListedExecutionView,
    OpenExecutionView,
    found_products,
)
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import ExecutionId


@pytest.mark.parametrize("status", ExecutionStatus)
def test_a_run_is_open_while_it_waits_or_runs(status: ExecutionStatus) -> None:
    view = ExecutionView.of(an_execution(status=status), "en")
    assert view.is_open is (status.value in ("PENDING", "RUNNING"))


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (FailureCode.MARKETPLACE_PAUSED, "PAUSED"),
        (FailureCode.RUN_PAUSED, "PAUSED"),
        (FailureCode.NO_FREE_AGENT, "RUNNING"),
        (None, "RUNNING"),
    ],
)
def test_a_run_that_a_person_or_unreadable_answers_paused_is_shown_as_paused(
    code: FailureCode | None, shown: str
) -> None:
    run = an_execution(status=ExecutionStatus.RUNNING)
    cause = None if code is None else a_failure(code, NOW)
    assert ListedExecutionView.of_waiting(run, cause, "en").shown_status == shown
    assert OpenExecutionView.of(run, cause, "en").shown_status == shown


def test_a_run_says_what_it_found_once_all_of_it_is_counted() -> None:
    run = an_execution(new_products=1, changed_products=0, gone_products=2, unchanged_products=3)
    assert found_products(run) == FoundProductsView(1, 0, 2, 3)
    assert found_products(replace(run, gone_products=None)) is None


async def test_a_progress_display_knows_whether_any_of_its_runs_is_at_work(world: CrawlWorld) -> None:
    run = await world.start()

    async def followed(*ids: ExecutionId) -> tuple[list[ExecutionId], bool]:
        found = await world.store.read(lambda tx: follow_runs(tx, a_context(), ids))
        return [each.execution_id for each in found.runs], found.is_any_working

    assert await followed(run, execution_id(99)) == ([run], True), "one that is gone is left out"
    assert await followed(execution_id(99)) == ([], False)
