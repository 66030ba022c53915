"""What the parts of a worker are tested with: claims of builders, and a crawl on a stopped clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from tests.builders import a_grant, a_session, a_task, ids, rng, worker_id
from tests.crawling.crawl_world import CrawlWorld, NoNetwork

from sellerwatch.adapters.sealing import AesGcmSealer
from sellerwatch.agents.answers import Answer, AnswerKind, Identity
from sellerwatch.agents.ports import Permit
from sellerwatch.crawling.claim import Claim, Claims
from sellerwatch.crawling.claim_ahead import ClaimPlan
from sellerwatch.crawling.context import Crawl, Tuning
from sellerwatch.crawling.judged_result import FetchResult, JudgedResult, judge
from sellerwatch.crawling.task import TaskType
from sellerwatch.crawling.worker_queues import ClaimQueue, ResultQueue
from sellerwatch.marketplaces.mustit.client import MustitMarketplace

OK = Answer(AnswerKind.OK, 200, b"{}")
GONE = Answer(AnswerKind.GONE, 404)


def a_claim(number: int = 1, task_type: TaskType = TaskType.PRODUCT_DETAIL, agent: int = 1, **task: Any) -> Claim:
    return Claim(a_task(number, task_type, **task), Permit(number, a_grant(agent)))


def some_claims(number: int, first: int = 1) -> list[Claim]:
    return [a_claim(first + each) for each in range(number)]


def claims_of(taken: Sequence[Claim] = (), *, lacks_agents: bool = False) -> Claims:
    return Claims(tuple(taken), None, (), lacks_agents)


def a_result(claim: Claim, answer: Answer = GONE) -> FetchResult:
    return FetchResult(claim, answer, "", 0.1, claim.task.created_at)


def judged(result: FetchResult) -> JudgedResult:
    assert result.answer is not None
    return judge(
        result.claim, result.answer, MustitMarketplace(NoNetwork(), "https://m.test", a_session), 0.1, result.at
    )


class ScriptedMarketplace(MustitMarketplace):
    """Answers each request by a function, which may wait."""

    def __init__(self, answer: Callable[[str], Awaitable[Answer]]) -> None:
        super().__init__(NoNetwork(), "https://market.test", a_session)
        self._answer = answer
        self.asked: list[str] = []

    async def fetch(self, url: str, identity: Identity, now: datetime) -> Answer:
        self.asked.append(url)
        return await self._answer(url)


def a_crawl(world: CrawlWorld, marketplace: MustitMarketplace | None = None, concurrency: int = 2) -> Crawl:
    return Crawl(
        store=world.store,
        marketplace=marketplace or world.market,
        clock=world.clock,
        ids=ids(3, world.clock),
        rng=rng(),
        sealer=AesGcmSealer([("k", b"0" * 32)]),
        worker_id=worker_id(1),
        rules=world.rules,
        tuning=Tuning(world.limits, world.host, concurrency),
    )


def a_plan(claims: ClaimQueue, results: ResultQueue, *, can_claim_with_absorb: bool = True) -> ClaimPlan:
    return ClaimPlan(claims, results, can_claim_with_absorb=can_claim_with_absorb)
