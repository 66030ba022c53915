"""Absorbing what came back: all of it in one transaction, guarded, and with counts that a recount confirms."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from tests.builders import HOUR, SECOND, at, rng, worker_id
from tests.conftest import ENGINES
from tests.crawling.crawl_world import BROKEN, GONE, ONE, TOO_MANY, TWO, CrawlWorld

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.crawling.absorb_results import Absorbed
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.list_reconciliation import LIST_READINGS, pages_of
from sellerwatch.crawling.task import Purpose, TaskNote, TaskStatus, TaskType
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.sellers.seller import SellerStatus


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


LIST, DETAIL, OPTION = TaskType.MINISHOP, TaskType.PRODUCT_DETAIL, TaskType.PRODUCT_OPTION
NONSENSE = Answer(AnswerKind.OK, 200, b"<html>busy</html>")
WAITING, IN_PROGRESS, RETRY = TaskStatus.WAITING, TaskStatus.IN_PROGRESS, TaskStatus.RETRY
COMPLETED, FAILED = TaskStatus.COMPLETED, TaskStatus.FAILED


async def everything(world: CrawlWorld) -> list[list[tuple[object, ...]]]:
    """All that a crawl writes, but agents, permits and the usage log."""
    tables = ("crawler_tasks", "crawling_schedule_executions", "products", "product_raw_data", "product_outbox")
    return await world.store.read(
        lambda tx: [[tuple(row) for row in tx.db.rows(f"SELECT * FROM {table} ORDER BY id")] for table in tables]  # noqa: S608
    )


async def test_a_page_makes_every_product_and_its_two_tasks(world: CrawlWorld) -> None:
    run = await world.start()
    [page] = await world.claim()
    assert await world.answer(page) == Absorbed(completed=1, failed=0, again=0, events=0, products=3)
    tasks = await world.tasks(run)
    made = {(task.task_type, task.item_no) for task in tasks if task.task_type is not LIST}
    assert made == {(task_type, item) for task_type in (DETAIL, OPTION) for item in world.items()}
    assert all(task.available_at == world.now and task.seller_id == ONE for task in tasks)
    found = await world.recount(run)
    assert (found.status, found.total_tasks_created, found.ended) == (ExecutionStatus.RUNNING, 7, 1)


async def test_a_whole_run_ends_completed_with_the_truth_told_of_every_product(world: CrawlWorld) -> None:
    run = await world.crawl()
    found = await world.recount(run)
    assert (found.status, found.completed_tasks, found.success_rate) == (ExecutionStatus.COMPLETED, 7, 100)
    for item in world.items():
        [(message, event)] = await world.events(item)
        assert (message.execution_id, event.event_type) == (run, ProductEvent.CREATED)
        assert event.product_data == world.world.truth(item)
    assert await world.unanswered() == 0


async def test_a_second_run_of_an_unchanged_world_tells_nothing(world: CrawlWorld) -> None:
    await world.crawl()
    before = await world.events(world.items()[0])
    await world.crawl()
    assert await world.events(world.items()[0]) == before


async def test_an_event_is_due_when_the_last_open_task_of_its_product_ends(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    await world.answer(page)
    world.clock.time += SECOND
    item = world.items()[0]
    taken = {each.task.task_type: each for each in await world.claim() if each.task.item_no == item}
    assert (await world.answer(taken[OPTION])).events == 0
    assert await world.events(item) == []
    assert (await world.answer(taken[DETAIL])).events == 1
    assert len(await world.events(item)) == 1


async def test_a_change_is_told_although_another_part_of_the_product_failed_for_good(world: CrawlWorld) -> None:
    await world.crawl()
    await world.deliver_all()
    item = world.items()[0]
    before = world.world.truth(item)
    assert before is not None
    world.world.change(item, rng(1), "reprice")
    await world.start()
    await world.go_on({(OPTION, item): GONE})
    [_, (message, event)] = await world.events(item)
    assert message.event_type == ProductEvent.UPDATED
    assert event.product_data == world.world.truth(item)
    assert {change.field.partition(".")[0] for change in event.changes} == {"prices"}


async def test_digests_of_an_earlier_build_tell_nothing_although_they_differ(world: CrawlWorld) -> None:
    await world.crawl()
    await world.deliver_all()
    told = [await world.events(item) for item in world.items()]

    def age(tx: Transaction) -> None:
        items = tx.products.of_items(world.items())
        old = {"minishop_hash": "1" * 32, "detail_hash": "2" * 32, "option_hash": "3" * 32}
        tx.products.save([structs.replace(product, **old) for product in items.values()])
        tx.bodies.forget_body_hashes(world.items())

    await world.store.transact(age)
    await world.crawl()
    assert [await world.events(item) for item in world.items()] == told
    known = (await world.store.read(lambda tx: tx.products.of_items(world.items()))).values()
    assert all(product.minishop_hash != "1" * 32 and not product.is_changed for product in known)


async def test_both_parts_changed_in_one_run_are_one_event(world: CrawlWorld) -> None:
    await world.crawl()
    await world.deliver_all()
    item = world.items()[0]
    for how in ("reprice", "retag", "add option"):
        world.world.change(item, rng(1), how)
    await world.crawl()
    [_, (_, event)] = await world.events(item)
    assert event.product_data == world.world.truth(item)
    assert (event.version, len(event.changes) >= 3) == (2, True)


# The guard.


@pytest.mark.parametrize("lost", ["put back", "held by another", "at another attempt", "ended"])
async def test_an_ending_of_a_lost_lease_changes_nothing_but_the_agent_and_its_permit(
    world: CrawlWorld, lost: str
) -> None:
    await world.start()
    [page] = await world.claim()
    ending, now = world.judged(page), world.now
    moved = {
        "put back": page.task.put_back(now),
        "held by another": page.task.put_back(now).publish(now).start(worker_id(2), now),
        "at another attempt": page.task.put_back(now).publish(now).start(worker_id(1), now),
        "ended": page.task.complete(now),
    }[lost]
    await world.store.transact(lambda tx: tx.tasks.save([moved], now))
    before = await everything(world)
    assert await world.absorb([ending]) == Absorbed(0, 0, 0, 0, 0)
    assert await everything(world) == before
    assert await world.unanswered() == 0
    agent = await world.agent(page.candidate.row)
    assert (agent.usage_count, agent.success_count, agent.last_used_at) == (1, 1, now)


async def test_an_answer_that_comes_to_another_worker_is_not_taken_in(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    before = await everything(world)
    await world.absorb([world.judged(page)], worker=2)
    assert await everything(world) == before


async def test_the_same_ending_absorbed_twice_is_absorbed_once(world: CrawlWorld) -> None:
    run = await world.start()
    [page] = await world.claim()
    ending = world.judged(page)
    await world.absorb([ending])
    before = await everything(world)
    assert await world.absorb([ending]) == Absorbed(0, 0, 0, 0, 0)
    assert await everything(world) == before
    await world.recount(run)


async def test_a_task_that_is_gone_from_the_table_is_passed_over(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    await world.store.transact(lambda tx: tx.db.run("DELETE FROM crawler_tasks"))
    assert await world.answer(page) == Absorbed(0, 0, 0, 0, 0)


# Counts.


async def test_the_counts_equal_a_recount_after_every_step(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store, products=6, page_size=4).open()
    run, seeded_rng = await world.start(), rng(4)
    for _ in range(200):
        taken = await world.claim(5)
        if not taken:
            break
        answers = [seeded_rng.choice([None, None, BROKEN, GONE, NONSENSE]) for _ in taken]
        await world.absorb([world.judged(each, answer) for each, answer in zip(taken, answers, strict=True)])
        await world.recount(run)
        world.clock.time += SECOND
    found = await world.recount(run)
    assert found.status is ExecutionStatus.COMPLETED
    assert found.failed_tasks > 0


async def test_endings_of_two_runs_in_one_group_are_counted_each_in_its_own(world: CrawlWorld) -> None:
    one, two = await world.start(ONE), await world.start(TWO)
    taken = await world.claim()
    assert {each.task.execution_id for each in taken} == {one, two}
    await world.absorb(world.judged(each) for each in taken)
    for run in (one, two):
        found = await world.recount(run)
        assert (found.total_tasks_created, found.completed_tasks) == (7, 1)


async def test_a_product_that_stands_on_two_pages_gets_its_tasks_once(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store, products=4, page_size=2).open()
    run = await world.start()
    first, second = await world.claim()
    ending = world.judged(first)
    world.world.bump(world.items()[-1])  # pushes the last of page 0 to page 1
    await world.absorb([ending, world.judged(second)])
    found = await world.recount(run)
    made = await world.tasks(run)
    lists = [each for each in made if each.item_no is None]
    assert found.total_tasks_created == len(lists) + 2 * len({each.item_no for each in made if each.item_no})
    await world.go_on()
    assert (await world.recount(run)).status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize(("total", "pages"), [(0, 0), (1, 1), (499, 1), (500, 1), (501, 2), (3464, 7)])
def test_pages_are_counted_up(total: int, pages: int) -> None:
    assert pages_of(total, 500) == pages


# Reading the list again.


async def test_a_run_whose_list_lacked_a_product_reads_it_again_before_it_ends(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store, products=4, page_size=2).open()
    run = await world.start()
    first, second = await world.claim()
    page_0 = world.judged(first)
    missed = world.items()[2]
    world.world.bump(missed)  # from page 1 to page 0, which was read already: this reading lacks it
    await world.absorb([page_0, world.judged(second)])
    await world.go_on()
    found = await world.recount(run)
    assert found.status is ExecutionStatus.COMPLETED
    assert [event.event_type for _, event in await world.events(missed)] == [ProductEvent.CREATED]
    assert sum(task.task_type is LIST for task in await world.tasks(run)) == 4, "two readings"


async def test_a_list_is_read_at_most_3_times_however_wrong_its_total_stays(world: CrawlWorld) -> None:
    assert LIST_READINGS == 3
    run = await world.start()
    world.renderer = _Overstating(world)  # type: ignore[assignment]
    await world.go_on()
    found = await world.recount(run)
    assert (found.status, found.list_total) == (ExecutionStatus.COMPLETED, 4)
    assert sum(task.task_type is LIST for task in await world.tasks(run)) == 3


class _Overstating:
    """A marketplace that states one product more than it shows."""

    def __init__(self, world: CrawlWorld) -> None:
        self._honest = world.renderer

    def list_page(self, count: int, products: object) -> bytes:
        return self._honest.list_page(count + 1, products)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._honest, name)


async def test_a_list_that_was_whole_is_read_once(world: CrawlWorld) -> None:
    run = await world.crawl()
    assert sum(task.task_type is LIST for task in await world.tasks(run)) == 1


async def test_the_newest_stated_total_is_what_counts(world: CrawlWorld) -> None:
    run = await world.start()
    world.world.appear(ONE)
    await world.go_on()
    found = await world.recount(run)
    assert (found.list_total, found.status) == (4, ExecutionStatus.COMPLETED)
    assert all([await world.events(item) for item in world.items()])


# Failures.


@pytest.mark.parametrize("answer", [BROKEN, Answer(AnswerKind.DROPPED, None, detail="dropped")])
async def test_a_task_that_alone_meets_an_outage_waits_until_the_endpoint_answers_another(
    world: CrawlWorld, answer: Answer
) -> None:
    run = await world.start()
    for _ in range(4):
        [page] = await world.claim()
        assert (await world.answer(page, answer)).failed == 0, "nothing shows yet that the fault is its own"
        world.clock.time += HOUR
    task = await world.task(page.task.task_id)
    assert (task.status, task.requests_made) == (WAITING, 2 if answer is BROKEN else 0)
    assert (await world.recount(run)).failed_tasks == 0


@pytest.mark.parametrize("answer", [NONSENSE])
async def test_a_failure_is_retried_twice_and_the_third_is_final(world: CrawlWorld, answer: Answer) -> None:
    run = await world.start()
    for number in (1, 2):
        [page] = await world.claim()
        assert await world.answer(page, answer) == Absorbed(0, 0, 1, 0, 0)
        task = await world.task(page.task.task_id)
        assert (task.status, task.retry_count, task.failure) == (RETRY, number, None)
        await world.recount(run)
        world.clock.time += SECOND
    [page] = await world.claim()
    assert await world.answer(page, answer) == Absorbed(0, 1, 0, 0, 0)
    task = await world.task(page.task.task_id)
    assert (task.status, task.retry_count, task.completed_at) == (FAILED, 2, world.now)
    assert task.failure


async def test_a_retry_waits_for_its_pause(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    await world.absorb([structs.replace(world.judged(page, BROKEN), wait=timedelta(seconds=7))])
    assert (await world.task(page.task.task_id)).available_at == world.now + timedelta(seconds=7)
    assert await world.claim() == ()


async def test_the_number_of_retries_is_a_setting(world: CrawlWorld) -> None:
    world.rules = replace(world.rules, task_retries=0)
    await world.start()
    [page] = await world.claim()
    assert (await world.answer(page, NONSENSE)).failed == 1


@pytest.mark.parametrize("task_type", [DETAIL, OPTION])
async def test_a_listed_products_404_fails_its_task_at_once_and_the_product_stays_as_it_was(
    world: CrawlWorld, task_type: TaskType
) -> None:
    await world.crawl()
    item = world.items()[0]
    before = await world.store.read(lambda tx: tx.products.of_items([item])[item])
    run = await world.start()
    await world.go_on({(task_type, item): GONE})
    [task] = [each for each in await world.tasks(run) if (each.task_type, each.item_no) == (task_type, item)]
    assert (task.status, task.retry_count, task.attempt) == (FAILED, 0, 1)
    after = await world.store.read(lambda tx: tx.products.of_items([item])[item])
    assert (after.state, after.version, after.detail_hash, after.option_hash) == (
        before.state,
        1,
        before.detail_hash,
        before.option_hash,
    )
    found = await world.recount(run)
    assert (found.status, found.failed_tasks) == (ExecutionStatus.COMPLETED, 1)


async def test_a_404_is_what_a_removal_proof_hoped_for_and_completes_it(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    await world.answer(page)
    await world.store.transact(
        lambda tx: tx.db.run(
            "UPDATE crawler_tasks SET purpose = :proof WHERE item_no IS NOT NULL", {"proof": Purpose.REMOVAL_PROOF}
        )
    )
    world.clock.time += SECOND
    proof = next(each for each in await world.claim() if each.task.task_type is DETAIL)
    assert (await world.answer(proof, GONE)).completed == 1
    assert (await world.task(proof.task.task_id)).status is COMPLETED


async def test_a_429_puts_the_task_back_at_no_cost_and_another_agent_takes_it(world: CrawlWorld) -> None:
    run = await world.start()
    [page] = await world.claim()
    absorbed = await world.answer(page, TOO_MANY)
    assert replace(absorbed, notices=()) == Absorbed(0, 0, 1, 0, 0)
    [notice] = absorbed.notices
    assert (notice.kind, notice.subject) == ("agent.suspended", page.candidate.user_agent_id)
    assert notice.text().endswith(": 429: too many requests."), "and it says until when and why"
    task = await world.task(page.task.task_id)
    assert (task.status, task.retry_count, task.lost_leases, task.requests_made) == (WAITING, 0, 0, 0)
    [again] = await world.claim()
    assert again.task.task_id == page.task.task_id
    assert again.candidate.row != page.candidate.row
    await world.recount(run)


async def test_a_task_that_meets_one_429_after_another_waits_and_fails_never(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store).open(agents=10)
    run = await world.start()
    rows = set()
    for _ in range(8):
        [page] = await world.claim()
        absorbed = await world.answer(page, TOO_MANY)
        assert (absorbed.again, absorbed.failed) == (1, 0)
        rows.add(page.candidate.row)
    task = await world.task(page.task.task_id)
    assert (task.status, task.attempt, task.requests_made, task.retry_count) == (WAITING, 8, 0, 0)
    assert len(rows) == 8, "each by another agent"
    assert (await world.recount(run)).failed_tasks == 0


# Agents.


async def test_agents_are_charged_by_what_they_met(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    row = page.candidate.row
    await world.answer(page, structs.replace(TOO_MANY, wait=3 * HOUR))
    agent = await world.agent(row)
    assert (agent.status, agent.health_score, agent.failure_count) == (AgentStatus.SUSPENDED, 80, 1)
    assert agent.suspended_until == world.now + 3 * HOUR
    candidates = await world.store.read(lambda tx: tx.agents.candidates(at(world.now)))
    assert row not in {candidate.row for candidate in candidates}
    active = "SELECT COUNT(*) FROM user_agent_token WHERE is_active = 1 AND agent_id = :row"
    assert await world.store.read(lambda tx: tx.db.value(active, {"row": row})) == 0, "its token is thrown away"


async def test_a_short_retry_after_does_not_shorten_the_rest(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    await world.answer(page, structs.replace(TOO_MANY, wait=SECOND))
    assert (await world.agent(page.candidate.row)).suspended_until == world.now + HOUR


async def test_endings_of_one_agent_in_a_group_are_folded(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store, products=6, page_size=1).open(agents=1)
    await world.start()
    taken = await world.claim()
    answers = [None, BROKEN, None, GONE, None, BROKEN]
    await world.absorb([world.judged(each, answer) for each, answer in zip(taken, answers, strict=True)])
    agent = await world.agent(1)
    assert (agent.usage_count, agent.success_count, agent.failure_count, agent.requests_per_day) == (6, 3, 2, 6)
    assert agent.health_score == 90, "each success heals only what the failures before it cost"


async def test_every_request_stands_in_the_usage_log(world: CrawlWorld) -> None:
    world.request_seconds = 0.1
    await world.start()
    [page] = await world.claim()
    await world.answer(page, TOO_MANY)
    [again] = await world.claim()
    await world.answer(again)
    log = (
        "SELECT agent_id, http_status_code, is_success, is_429_error, response_time_ms FROM token_usage_log ORDER BY 1"
    )
    rows = await world.store.read(lambda tx: [tuple(row) for row in tx.db.rows(log)])
    assert rows == sorted([(page.candidate.row, 429, 0, 1, 100), (again.candidate.row, 200, 1, 0, 100)])


# Other sellers' items.


async def test_an_item_of_another_seller_on_a_page_is_dropped_with_a_note_and_never_told_as_ones_own(
    world: CrawlWorld,
) -> None:
    stranger = world.items(TWO)[0]
    own = world.items(ONE)
    run = await world.start(ONE)
    [page] = await world.claim()
    products = [world.world.product(item) for item in (*own, stranger)]
    body = world.renderer.list_page(len(own), [product for product in products if product])
    await world.answer(page, Answer(AnswerKind.OK, 200, body))
    world.clock.time += SECOND
    await world.go_on()
    assert await world.events(stranger) == []
    [detail] = [t for t in await world.tasks(run) if (t.task_type, t.item_no) == (DETAIL, stranger)]
    assert detail.status is COMPLETED
    assert detail.note == TaskNote.FOREIGN
    assert (await world.recount(run)).status is ExecutionStatus.COMPLETED
    owner = (await world.store.read(lambda tx: tx.products.of_items([stranger])))[stranger].seller_id
    assert owner == TWO
    await world.crawl(TWO)
    [(message, event)] = await world.events(stranger)
    assert (message.seller_id, event.product_data) == (TWO, world.world.truth(stranger))


async def test_an_item_is_never_taken_from_its_own_seller(world: CrawlWorld) -> None:
    await world.crawl(TWO)
    stranger = world.items(TWO)[0]
    before = await world.store.read(lambda tx: tx.products.of_items([stranger])[stranger])
    run = await world.start(ONE)
    [page] = await world.claim()
    product = world.world.product(stranger)
    assert product is not None
    own = [world.world.product(item) for item in world.items(ONE)]
    body = world.renderer.list_page(3, [*(each for each in own if each), product])
    await world.answer(page, Answer(AnswerKind.OK, 200, body))
    world.clock.time += SECOND
    await world.go_on()
    assert stranger not in {task.item_no for task in await world.tasks(run)}, "not even asked"
    assert await world.store.read(lambda tx: tx.products.of_items([stranger])[stranger]) == before


# Runs that were ended from outside.


async def test_a_page_in_flight_when_its_run_is_cancelled_is_taken_in_and_makes_no_more_work(
    world: CrawlWorld,
) -> None:
    run = await world.start()
    [page] = await world.claim()
    await world.cancel(run)
    absorbed = await world.answer(page)
    assert (absorbed.completed, absorbed.products) == (1, 3)
    found = await world.recount(run)
    assert (found.status, found.total_tasks_created, found.completed_tasks) == (ExecutionStatus.FAILED, 1, 1)


@pytest.mark.parametrize("answer", [BROKEN, TOO_MANY, NONSENSE])
async def test_a_task_that_fails_after_its_run_was_cancelled_is_not_tried_again_and_is_counted(
    world: CrawlWorld, answer: Answer
) -> None:
    # Nobody claims tasks of a run that is over: it would wait for ever.
    run = await world.start()
    [page] = await world.claim()
    await world.cancel(run)
    assert replace(await world.answer(page, answer), notices=()) == Absorbed(0, 1, 0, 0, 0)
    assert (await world.task(page.task.task_id)).status is FAILED
    found = await world.recount(run)
    assert (found.status, found.failed_tasks) == (ExecutionStatus.FAILED, 1)


async def test_what_came_back_before_a_cancel_is_still_told(world: CrawlWorld) -> None:
    run = await world.start()
    [page] = await world.claim()
    await world.answer(page)
    world.clock.time += SECOND
    taken = await world.claim()
    await world.cancel(run)
    await world.absorb([world.judged(each) for each in taken])
    for item in world.items():
        [(_, event)] = await world.events(item)
        assert event.product_data == world.world.truth(item)
    assert (await world.recount(run)).status is ExecutionStatus.FAILED


async def test_one_bad_answer_does_not_spoil_the_group(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    await world.answer(page)
    world.clock.time += SECOND
    taken = await world.claim()
    answers = [NONSENSE if number == 0 else None for number, _ in enumerate(taken)]
    absorbed = await world.absorb([world.judged(c, a) for c, a in zip(taken, answers, strict=True)])
    assert (absorbed.completed, absorbed.again) == (5, 1)


async def test_a_seller_deactivated_in_mid_run_keeps_what_was_read(world: CrawlWorld) -> None:
    run = await world.start()
    [page] = await world.claim()
    now = world.now

    def deactivate(tx: Transaction) -> SellerStatus:
        seller = tx.sellers.get(ONE)
        assert seller is not None
        tx.sellers.save(seller.deactivate(now))
        return seller.status

    await world.store.transact(deactivate)
    await world.cancel(run, FailureCode.SELLER_DEACTIVATED)
    await world.answer(page)
    assert set(await world.store.read(lambda tx: tx.products.of_items(world.items()))) == set(world.items())
    assert ItemNo(1) not in world.items()
