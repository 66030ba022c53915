"""The world for the steps of a crawl: the real store, a few agents, and the simulator's products to be read.

There is no worker and no network here: a test claims, says how the marketplace answered, and has it absorbed.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import orjson
from msgspec import structs
from tests.builders import DAY, HOUR, NOW, StoppedClock, a_failure, a_session, a_token, at, ids, worker_id
from tests.world import StoreWorld, due_messages, enter_worker

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.lending import LendingRules
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.token import Token
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.absorb_results import Absorbed, absorb
from sellerwatch.crawling.claim import Claim, Claims, claim
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.judged_result import JudgedResult, judge
from sellerwatch.crawling.list_reconciliation import list_tasks, pages_of
from sellerwatch.crawling.put_back import cancel_execution
from sellerwatch.crawling.save_execution import add_execution
from sellerwatch.crawling.task import Task, TaskStatus, TaskType
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem
from sellerwatch.outbox.event import Event, read_event
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.simulator.rendering import Renderer
from sellerwatch.simulator.world import World

ONE, TWO = SellerId("seller_0001"), SellerId("seller_0002")
#: A thousand a second, so that a test does not wait for the rate where it is about something else.
QUICK = Limits(per_second=1000, margin=timedelta(0))
GONE = Answer(AnswerKind.GONE, 404)
BROKEN = Answer(AnswerKind.SERVER_ERROR, 503)
TOO_MANY = Answer(AnswerKind.TOO_MANY, 429)


class NoNetwork:
    """The transport of a marketplace that is only read from."""

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        raise TransportFailed(TransportProblem.UNREACHABLE, "there is no network here")


def a_marketplace() -> MustitMarketplace:
    return MustitMarketplace(NoNetwork(), "https://market.test", a_session)


class CrawlWorld(StoreWorld):
    """Time stands until a test moves it; it begins an hour after the database was made, so every agent is rested."""

    clock: StoppedClock

    def __init__(self, store: SqlStore, *, products: int = 3, page_size: int = 500, limits: Limits = QUICK) -> None:
        clock = StoppedClock(NOW + HOUR)
        super().__init__(store, clock, ids(7, clock))
        self.world = World(1, 2, products, 5)
        self.renderer = Renderer(1)
        self.market = a_marketplace()
        # Most of the pool is blocked here so that few agents are left: no reason to stop.
        self.rules = CrawlRules(self.market, page_size=page_size, breaker=BreakerRules(min_percent=0))
        self.limits = limits
        self.host = Host(concurrency=1000)
        self.turn = 0
        self.request_seconds = 0.0

    async def open(self, agents: int = 3, workers: int = 1) -> CrawlWorld:
        """Some agents with a token each (the others are blocked), some workers, and the world's sellers registered."""
        now = self.now

        def work(tx: Transaction) -> None:
            pool = tx.agents.get_rows(range(agents + 1, 101))
            tx.agents.save({row: agent.block(now, "not part of this test") for row, agent in pool.items()})
            for row in range(1, agents + 1):
                tx.tokens.keep(row, token_of(row, now), now + DAY)
            for number in range(1, workers + 1):
                enter_worker(tx, number, now)

        await self.transact(work)
        await self.register((ONE, TWO))
        return self

    async def start(self, seller_id: SellerId = ONE, *, total: int | None = None) -> ExecutionId:
        """A run with its list pages, as the trigger makes it."""
        now, schedule = self.now, await self.schedule(seller_id)
        stated = self.world.count(seller_id) if total is None else total

        def work(tx: Transaction, ids: Iterator[str]) -> ExecutionId:
            pages = pages_of(stated, self.rules.page_size)
            run = Execution.create(ExecutionId(next(ids)), schedule.schedule_id, seller_id, now)
            begun = replace(run.start(pages, now), list_total=stated, deadline_at=now + DAY, started_by="test")
            add_execution(tx, begun)
            tx.tasks.add(list_tasks(run.execution_id, seller_id, range(pages), ids, self.rules, now))
            return run.execution_id

        return await self.transact_with_ids(work)

    async def cancel(self, run: ExecutionId, code: FailureCode = FailureCode.CANCELLED) -> Execution:
        now, failure = self.now, a_failure(code)
        return await self.transact_with_ids(lambda tx, ids: cancel_execution(tx, run, failure, self.rules, ids, now))

    async def claims(self, wanted: int = 50, worker: int = 1) -> Claims:
        moment, turn = at(self.now), self.turn
        terms = LendingRules(self.limits, self.host, self.rules.breaker)
        found = await self.transact(lambda tx: claim(tx, worker_id(worker), wanted, turn, moment, terms))
        self.turn += 1
        return found

    async def claim(self, wanted: int = 50, worker: int = 1) -> Sequence[Claim]:
        return (await self.claims(wanted, worker)).taken

    def body(self, task: Task) -> bytes | None:
        """What the world has to say to this task; None when it does not know the product."""
        if task.task_type is TaskType.MINISHOP:
            size = self.rules.page_size
            page = (task.page_no or 0) * size
            found = [self.world.product(item) for item in self.world.listing(task.seller_id, page, page + size)]
            return self.renderer.list_page(self.world.count(task.seller_id), [item for item in found if item])
        product = self.world.product(int(task.item_no or 0))
        if product is None:
            return None
        detail = task.task_type is TaskType.PRODUCT_DETAIL
        return self.renderer.detail(product) if detail else self.renderer.options(product)

    def truthful(self, task: Task) -> Answer:
        body = self.body(task)
        return GONE if body is None else Answer(AnswerKind.OK, 200, body)

    def judged(self, taken: Claim, answer: Answer | None = None) -> JudgedResult:
        """As the worker judges it, but for the rng in how long an agent rests: an hour, or what it was asked to. The
        clock of this world stands still during a request, however long it is said to have taken."""
        judged = judge(taken, answer or self.truthful(taken.task), self.market, self.request_seconds, self.now)
        asked = judged.wait if judged.verdict.agent is Outcome.TOO_MANY else None
        return structs.replace(judged, rest=max(HOUR, asked or HOUR)) if judged.verdict.agent.is_failure else judged

    async def absorb(self, endings: Iterable[JudgedResult], worker: int = 1) -> Absorbed:
        moment, group = at(self.now), list(endings)
        return await self.transact_with_ids(
            lambda tx, ids: absorb(tx, group, worker_id(worker), self.rules, ids, moment)
        )

    async def answer(self, taken: Claim, answer: Answer | None = None) -> Absorbed:
        return await self.absorb([self.judged(taken, answer)])

    async def go_on(self, answers: Mapping[tuple[TaskType, int | None], Answer] | None = None) -> int:
        """Claim and answer truthfully, but for the tasks named in `answers`, until nothing is left; says how many."""
        done = 0
        while taken := await self.claim():
            chosen = [(c, (answers or {}).get((c.task.task_type, c.task.item_no))) for c in taken]
            await self.absorb([self.judged(each, answer) for each, answer in chosen])
            done += len(taken)
            self.clock.time += timedelta(seconds=1)
            assert done < 1000, "a crawl without an end"
        return done

    async def crawl(self, seller_id: SellerId = ONE) -> ExecutionId:
        run = await self.start(seller_id)
        await self.go_on()
        return run

    async def events(self, item_no: int) -> list[tuple[Message, Event]]:
        """Oldest first."""
        return [(message, read_event(message.payload)) for message in await self.messages_of(item_no)]

    async def deliver_all(self) -> None:
        """Everything that waits has arrived."""
        now = self.now

        def work(tx: Transaction) -> int:
            due = due_messages(tx, OutboxKind.PRODUCT, now, 1000)
            tx.product_outbox.move([message.send(worker_id()).complete(now) for message in due], now)
            return len(due)

        while await self.transact(work):
            pass

    async def recount(self, execution_id: ExecutionId) -> Execution:
        """The run, its counters compared with its tasks."""
        run, tasks = await self.run(execution_id), await self.tasks(execution_id)
        by_status = Counter(task.status for task in tasks)
        counted = (len(tasks), by_status[TaskStatus.COMPLETED], by_status[TaskStatus.FAILED])
        assert (run.total_tasks_created, run.completed_tasks, run.failed_tasks) == counted
        return run

    async def unanswered(self) -> int:
        return await self.count("SELECT COUNT(*) FROM permits WHERE answered_boot_us IS NULL")

    def items(self, seller_id: SellerId = ONE) -> list[ItemNo]:
        return [ItemNo(item) for item in self.world.listing(seller_id)]


def token_of(row: int, now: datetime) -> Token:
    return a_token(
        row % 250,
        sealed=base64.b64encode(f"token of agent {row:03d}".encode() * 4).decode(),
        fingerprint=f"{row:064x}",
        issued_at=now - HOUR,
        expires_at=now + DAY,
    )


def page_of(total: int, *entries: dict[str, object]) -> Answer:
    """A list page as a test wants it."""
    return Answer(AnswerKind.OK, 200, orjson.dumps({"count": total, "items": list(entries)}))
