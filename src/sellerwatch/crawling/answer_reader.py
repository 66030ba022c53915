"""Read answers before the transaction that absorbs them: parse and hash bodies, judge what they mean."""

from __future__ import annotations

import logging
from dataclasses import replace

from sellerwatch.agents.judgement import TaskEnd
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.judged_result import JudgedResult, internal_error, judge
from sellerwatch.crawling.worker_queues import FetchResult

log = logging.getLogger(__name__)

#: One of this many good answers is searched for fields that are not in the contract; searching all would cost more than
#: reading them. A prime: details and options alternate, and each kind must have its turn.
UNKNOWN_FIELDS_EVERY = 17


class AnswerReader:
    """Turns what was fetched into judged results."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._answers_read = 0

    def judge(self, result: FetchResult) -> JudgedResult:
        """Return what the result means for task and agent, and how long each waits after a failure."""
        crawl = self._crawl
        judged = self._read(result)
        if judged.end is TaskEnd.FAILED:
            judged = replace(judged, wait=crawl.retry_pause.wait(result.claim.task.retry_count + 1, crawl.rng))
        if judged.verdict.agent.is_failure:
            asked_for = judged.wait if judged.end is TaskEnd.AGAIN else None
            judged = replace(judged, rest=crawl.rest(asked_for))
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
        return replace(judged, unknown=self._crawl.marketplace.unknown_fields(judged.parts[0].type, body))
