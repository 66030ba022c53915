"""A practice ground for the steps of a crawl: the real store, a few agents, and the simulator's world to be read.

There is no worker and no network here: a test claims, says how the marketplace answered, and has it absorbed.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import orjson
from tests.builders import DAY, HOUR, NOW, StoppedClock, a_context, a_token, at, ids, worker_id

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Agent, Outcome
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
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.crawling.save_execution import add_execution
from sellerwatch.crawling.task import Task, TaskStatus, TaskType
from sellerwatch.kernel.ids import ExecutionId, Ids, ItemNo, ReplayableIds, SellerId, TaskId
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem
from sellerwatch.outbox.event import Event, read_event
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.sellers.commands import register_seller
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
    return MustitMarketplace(NoNetwork(), "https://market.test", lambda identity: identity.token.nid)


class Practice:
    """Time stands until a test moves it; it begins an hour after the database was made, so every agent is rested."""

    def __init__(self, store: SqlStore, *, products: int = 3, page_size: int = 500, limits: Limits = QUICK) -> None:
        self.store = store
        self.clock = StoppedClock(NOW + HOUR)
        self.ids: Ids = ids(7, self.clock)
        self.world = World(1, 2, products, 5)
        self.renderer = Renderer(1)
        self.market = a_marketplace()
        # Most of the pool is blocked here so that few agents are left: no reason to stop.
        self.rules = CrawlRules(self.market, page_size=page_size, breaker=BreakerRules(min_percent=0))
        self.limits = limits
        self.host = Host(concurrency=1000)
        self.turn = 0

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def open(self, agents: int = 3, workers: int = 1) -> Practice:
        """Some agents with a token each (the others are blocked), some workers, and the world's sellers registered."""
        now, draw = self.now, ReplayableIds(self.ids)

        def work(tx: Transaction) -> None:
            drawn = draw.replay()
            pool = tx.agents.get_rows(range(agents + 1, 101))
            tx.agents.save({row: agent.block(now, "not part of this test") for row, agent in pool.items()})
            for row in range(1, agents + 1):
                tx.tokens.keep(row, token_of(row, now), now + DAY)
            for number in range(1, workers + 1):
                tx.workers.enter(WorkerInfo(worker_id(number), "test", "here", number, now, now))
            for seller_id in (ONE, TWO):
                register_seller(tx, a_context(now, drawn), seller_id, f"Shop {seller_id}", None)

        await self.store.transact(work)
        return self

    async def start(self, seller_id: SellerId = ONE, *, total: int | None = None) -> ExecutionId:
        """A run with its list pages, as the trigger makes it."""
        now, draw = self.now, ReplayableIds(self.ids)
        stated = self.world.count(seller_id) if total is None else total

        def work(tx: Transaction) -> ExecutionId:
            drawn = draw.replay()
            schedule = tx.schedules.of_seller(seller_id)
            assert schedule is not None
            pages = pages_of(stated, self.rules.page_size)
            run = Execution.create(ExecutionId(next(drawn)), schedule.schedule_id, seller_id, now)
            begun = replace(run.start(pages, now), list_total=stated, deadline_at=now + DAY, started_by="test")
            add_execution(tx, begun)
            tx.tasks.add(list_tasks(run.execution_id, seller_id, range(pages), drawn, self.rules, now))
            return run.execution_id

        return await self.store.transact(work)

    async def claims(self, wanted: int = 50, worker: int = 1) -> Claims:
        moment, turn = at(self.now), self.turn
        terms = LendingRules(self.limits, self.host, self.rules.breaker)
        found = await self.store.transact(lambda tx: claim(tx, worker_id(worker), wanted, turn, moment, terms))
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
        """As the worker judges it, but for the rng in how long an agent rests: an hour, or what it was asked to."""
        judged = judge(taken, answer or self.truthful(taken.task), self.market, 0.1, self.now)
        asked = judged.wait if judged.verdict.agent is Outcome.TOO_MANY else None
        return replace(judged, rest=max(HOUR, asked or HOUR)) if judged.verdict.agent.is_failure else judged

    async def absorb(self, endings: Iterable[JudgedResult], worker: int = 1) -> Absorbed:
        moment, draw, group = at(self.now), ReplayableIds(self.ids), list(endings)
        return await self.store.transact(
            lambda tx: absorb(tx, group, worker_id(worker), self.rules, draw.replay(), moment)
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

    async def run(self, execution_id: ExecutionId) -> Execution:
        found = await self.store.read(lambda tx: tx.executions.get(execution_id))
        assert found is not None
        return found

    async def task(self, task_id: TaskId) -> Task:
        found = await self.store.read(lambda tx: tx.tasks.get(task_id))
        assert found is not None
        return found

    async def tasks(self, execution_id: ExecutionId) -> Sequence[Task]:
        return await self.store.read(lambda tx: tx.run_tasks.open_of(execution_id, tuple(TaskStatus)))

    async def agent(self, row: int) -> Agent:
        return (await self.store.read(lambda tx: tx.agents.get_rows([row])))[row]

    async def events(self, item_no: int) -> list[tuple[Message, Event]]:
        """Oldest first."""

        def work(tx: Transaction) -> list[Message]:
            product = tx.products.of_items([ItemNo(item_no)]).get(ItemNo(item_no))
            return [] if product is None else list(tx.product_outbox.latest_of(product.product_id, 100))[::-1]

        return [(message, read_event(message.payload)) for message in await self.store.read(work)]

    async def deliver_all(self) -> None:
        """Everything that waits has arrived."""
        now = self.now

        def work(tx: Transaction) -> int:
            due = tx.delivery_queue(OutboxKind.PRODUCT).due(now, 1000)
            tx.product_outbox.move([message.send(worker_id()).complete(now) for message in due], now)
            return len(due)

        while await self.store.transact(work):
            pass

    async def recount(self, execution_id: ExecutionId) -> Execution:
        """The run, its counters compared with its tasks."""
        run, tasks = await self.run(execution_id), await self.tasks(execution_id)
        by_status = Counter(task.status for task in tasks)
        counted = (len(tasks), by_status[TaskStatus.COMPLETED], by_status[TaskStatus.FAILED])
        assert (run.total_tasks_created, run.completed_tasks, run.failed_tasks) == counted
        return run

    async def unanswered(self) -> int:
        return int(
            await self.store.read(lambda tx: tx.db.value("SELECT COUNT(*) FROM permits WHERE answered_boot_us IS NULL"))
        )

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
