"""The result of one request: as it was fetched, then read and judged for the transaction that absorbs it.

Made before the transaction: bodies are parsed and facts hashed here, not while the database waits.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from msgspec import Struct, structs

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.agents.judgement import (
    GARBLED,
    PROVED_GONE,
    UNREADABLE,
    TaskEnd,
    Verdict,
    failure_of,
    judge_answer,
)
from sellerwatch.agents.record_outcomes import RequestOutcome
from sellerwatch.catalog.absorb import Part, read_part
from sellerwatch.catalog.facts import body_hash
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.catalog.product import PartType
from sellerwatch.catalog.quarantine_check import UnreadableAnswer
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.task import Purpose, TaskType
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.marketplaces.ports import Marketplace

log = logging.getLogger(__name__)

#: An error of our own while an answer was read: neither agent nor marketplace is blamed.
INTERNAL_ERROR = Verdict(TaskEnd.FAILED, Outcome.BLAMELESS, FailureCode.INTERNAL)


#: One of this many good answers is searched for fields that are not in the contract; searching all would cost more than
#: reading them. A prime: details and options alternate, and each kind has to be searched.
UNKNOWN_FIELDS_EVERY = 17


class FetchResult(Struct, frozen=True):
    """How one request ended. Without an answer, `problem` names the error in our own code."""

    claim: Claim
    answer: Answer | None
    problem: str
    seconds: float
    at: datetime


class JudgedResult(Struct, frozen=True):
    """What became of one claim, ready to be absorbed."""

    claim: Claim
    verdict: Verdict
    status: int | None
    milliseconds: int
    at: datetime
    failure: Failure | None = None
    parts: tuple[Part, ...] = ()
    list_total: int | None = None
    wait: timedelta | None = None
    is_rate_limited: bool = False
    rest: timedelta = timedelta(0)
    is_gone: bool = False
    unread: UnreadableAnswer | None = None
    unknown: tuple[str, ...] = ()

    @property
    def end(self) -> TaskEnd:
        return self.verdict.task

    @property
    def counts(self) -> bool:
        """Whether the request counts towards the task's limit."""
        return self.verdict.counts

    @property
    def request_outcome(self) -> RequestOutcome:
        """Return what is recorded for the agent and the endpoint's circuit."""
        task, claim, verdict = self.claim.task, self.claim, self.verdict
        return RequestOutcome(
            candidate=claim.candidate,
            permit=claim.permit.number,
            outcome=verdict.agent,
            status=self.status,
            milliseconds=self.milliseconds,
            at=self.at,
            rest=self.rest,
            succeeded=verdict.task is TaskEnd.DONE,
            endpoint=task.endpoint,
            subject=task.subject,
            task_id=task.task_id,
            outage=self.failure if verdict.is_outage else None,
            drop_token=verdict.drops_token,
            is_rate_limited=self.is_rate_limited,
            is_pool_probe=claim.is_pool_probe,
            is_endpoint_probe=claim.is_endpoint_probe,
            seller_id=task.seller_id,
        )


class AnswerReader:
    """Reads and judges what was fetched: how it ends the task, what the agent is charged with, what each waits for."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._answers_read = 0

    def judge(self, result: FetchResult) -> JudgedResult:
        """Return what the result means for task and agent, and how long each waits after a failure."""
        crawl = self._crawl
        judged = self._read(result)
        if judged.end is TaskEnd.FAILED:
            judged = structs.replace(judged, wait=crawl.retry_pause.wait(result.claim.task.retry_count + 1, crawl.rng))
        if judged.verdict.agent.is_failure:
            asked_for = judged.wait if judged.end is TaskEnd.AGAIN else None
            judged = structs.replace(judged, rest=crawl.rest(asked_for))
        return judged

    def _read(self, result: FetchResult) -> JudgedResult:
        claim, problem = result.claim, result.problem
        try:
            if result.answer is not None:
                judged = judge(claim, result.answer, self._crawl.marketplace, result.seconds, result.at)
                return self._with_unknown_fields(judged, result.answer.body)
        except Exception as error:
            log.exception("an answer cannot be read", extra={"task": claim.task.task_id})
            problem = type(error).__name__
        return internal_error(claim, problem, result.seconds, result.at)

    def _with_unknown_fields(self, judged: JudgedResult, body: bytes) -> JudgedResult:
        """Note fields that are not in the contract, for some of the answers. A body that is equal to the last one was
        read, and searched or not, when it first came."""
        was_read = bool(judged.parts) and judged.parts[0].normalized is not None
        self._answers_read += was_read
        if not was_read or self._answers_read % UNKNOWN_FIELDS_EVERY != 1:
            return judged
        return structs.replace(judged, unknown=self._crawl.marketplace.unknown_fields(judged.parts[0].type, body))


def judge(claim: Claim, answer: Answer, marketplace: Marketplace, took: float, now: datetime) -> JudgedResult:
    """Read the answer and judge it by the table in `agents/judgement.py`."""
    task, token = claim.task, claim.candidate.token
    verdict = judge_answer(answer, is_replacement=token is not None and token.is_replacement)
    failure = failure_of(verdict, answer, now)
    parts: tuple[Part, ...] = ()
    total: int | None = None
    unread: UnreadableAnswer | None = None
    if answer.kind is AnswerKind.OK:
        try:
            parts, total = _read(claim, answer.body, marketplace)
        except Unparsable as unparsable:
            verdict = GARBLED if unparsable.is_garbled else UNREADABLE
            failure = unparsable.failure(now)
            if not unparsable.is_garbled:
                part = PART_OF[task.task_type]
                unread = UnreadableAnswer(part, task.item_no, unparsable.problem, answer.body, body_hash(answer.body))
    elif answer.kind is AnswerKind.GONE and task.purpose is Purpose.REMOVAL_PROOF:
        verdict, failure = PROVED_GONE, None
    return JudgedResult(
        claim=claim,
        verdict=verdict,
        status=answer.status,
        milliseconds=int(took * 1000),
        at=now,
        failure=failure,
        parts=parts,
        list_total=total,
        wait=answer.wait,
        is_rate_limited=answer.is_rate_limited,
        is_gone=answer.kind is AnswerKind.GONE,
        unread=unread,
    )


def internal_error(claim: Claim, detail: str, took: float, at: datetime) -> JudgedResult:
    """Return the result of a request that failed in our own code."""
    failure = Failure.of(FailureCode.INTERNAL, at, detail=detail)
    return JudgedResult(claim, INTERNAL_ERROR, None, int(took * 1000), at, failure)


PART_OF = {
    TaskType.MINISHOP: PartType.MINISHOP,
    TaskType.PRODUCT_DETAIL: PartType.DETAIL,
    TaskType.PRODUCT_OPTION: PartType.OPTION,
}


def _read(claim: Claim, body: bytes, marketplace: Marketplace) -> tuple[tuple[Part, ...], int | None]:
    task, part = claim.task, PART_OF[claim.task.task_type]
    if part is PartType.MINISHOP:
        page = marketplace.read_list(body, task.request_url)
        return tuple(Part.of(part, e.facts.item_no, e.facts, e.raw) for e in page.entries), page.total
    if task.purpose is Purpose.REMOVAL_PROOF:
        return (), None
    item, hashed = task.item_no or ItemNo(0), body_hash(body)
    if hashed == claim.known_hash:
        return (Part.same(part, item),), None
    return (Part.of(part, item, read_part(marketplace, part, item, body), body, hashed),), None
