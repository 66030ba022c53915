"""What a request's end means: for the task, and for the agent. Every failure is charged to exactly one of them.

Made before the transaction: bodies are read and facts hashed here, not while the database waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.charge import Charge
from sellerwatch.catalog.absorb import Part, read_part
from sellerwatch.catalog.facts import body_hash
from sellerwatch.catalog.product import PartType
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.task import Purpose, TaskType
from sellerwatch.kernel.copies import quick
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.marketplaces.ports import Answer, AnswerKind, Marketplace, Unparsable

#: A token younger than this that is refused was refused fresh: then it is the agent, not the token's age.
FRESH_TOKEN = timedelta(seconds=60)

#: We asked wrongly: not the agent's fault.
BAD_REQUEST = 400

#: Requests a task may put on the wire in one run, whoever is to blame for their number.
MOST_REQUESTS = 6


class TaskEnd(StrEnum):
    """DONE: with parts or with what it hoped for. FAILED: counts as a try. FATAL: trying again cannot help.
    AGAIN: nobody's try; another agent, or the same with a new token."""

    DONE = "DONE"
    FAILED = "FAILED"
    FATAL = "FATAL"
    AGAIN = "AGAIN"


@dataclass(frozen=True, slots=True)
class Unread:
    """An answer that is JSON and not the contract's: kept, so that a better parser can read it. A page has no item."""

    part: PartType
    item_no: ItemNo | None
    problem: str
    body: bytes
    hash: str


@quick
@dataclass(frozen=True, slots=True)
class Ending:
    """One claim's end, ready to be absorbed."""

    claim: Claim
    end: TaskEnd
    agent: Outcome
    status: int | None
    milliseconds: int
    at: datetime
    problem: str = ""
    parts: tuple[Part, ...] = ()
    list_total: int | None = None
    wait: timedelta | None = None
    rest: timedelta = timedelta(0)
    drop_token: bool = False
    is_gone: bool = False
    unread: Unread | None = None
    unknown: tuple[str, ...] = ()

    @property
    def charge(self) -> Charge:
        """What the pool is told of it."""
        return Charge(
            candidate=self.claim.candidate,
            permit=self.claim.permit.number,
            outcome=self.agent,
            status=self.status,
            milliseconds=self.milliseconds,
            at=self.at,
            rest=self.rest,
            succeeded=self.end is TaskEnd.DONE,
            drop_token=self.drop_token,
            is_pool_probe=self.claim.is_pool_probe,
        )


def judge(claim: Claim, answer: Answer, marketplace: Marketplace, took: float, now: datetime) -> Ending:
    """Read the answer and say whose fault it is, if anybody's."""
    task = claim.task
    end, agent = _ENDS[answer.kind]
    problem = answer.problem
    parts: tuple[Part, ...] = ()
    total: int | None = None
    unread: Unread | None = None
    drop_token = answer.kind in (AnswerKind.TOO_MANY, AnswerKind.UNAUTHORISED)
    if answer.kind is AnswerKind.OK:
        try:
            parts, total = _read(claim, answer.body, marketplace)
        except Unparsable as unparsable:
            # A body that is cut off or no JSON at all is an accident. One that is, but reads otherwise, stays so.
            end = TaskEnd.FAILED if unparsable.is_garbled else TaskEnd.FATAL
            agent, problem = Outcome.BLAMELESS, str(unparsable)
            if not unparsable.is_garbled:
                part = PART_OF[task.task_type]
                unread = Unread(part, task.item_no, unparsable.problem, answer.body, body_hash(answer.body))
    elif answer.kind is AnswerKind.GONE and task.purpose is Purpose.REMOVAL_PROOF:
        end = TaskEnd.DONE
    elif answer.kind is AnswerKind.UNAUTHORISED and _was_fresh(claim, now):
        agent = Outcome.REFUSED
    elif answer.status == BAD_REQUEST:
        agent = Outcome.BLAMELESS
    if end in (TaskEnd.AGAIN, TaskEnd.FAILED) and task.requests_made >= MOST_REQUESTS:
        end, problem = TaskEnd.FATAL, f"{MOST_REQUESTS} requests in this run, the last: {problem}"
    return Ending(
        claim=claim,
        end=end,
        agent=agent,
        status=answer.status,
        milliseconds=int(took * 1000),
        at=now,
        problem=problem,
        parts=parts,
        list_total=total,
        wait=answer.wait,
        drop_token=drop_token,
        is_gone=answer.kind is AnswerKind.GONE,
        unread=unread,
    )


PART_OF = {
    TaskType.MINISHOP: PartType.MINISHOP,
    TaskType.PRODUCT_DETAIL: PartType.DETAIL,
    TaskType.PRODUCT_OPTION: PartType.OPTION,
}

_ENDS = {
    AnswerKind.OK: (TaskEnd.DONE, Outcome.SUCCESS),
    AnswerKind.GONE: (TaskEnd.FATAL, Outcome.BLAMELESS),
    AnswerKind.TOO_MANY: (TaskEnd.AGAIN, Outcome.TOO_MANY),
    AnswerKind.UNAUTHORISED: (TaskEnd.AGAIN, Outcome.BLAMELESS),
    AnswerKind.REFUSED: (TaskEnd.FAILED, Outcome.OTHER),
    AnswerKind.SERVER_ERROR: (TaskEnd.FAILED, Outcome.SERVER_ERROR),
    AnswerKind.NETWORK_ERROR: (TaskEnd.FAILED, Outcome.NETWORK_ERROR),
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


def _was_fresh(claim: Claim, now: datetime) -> bool:
    token = claim.candidate.token
    return token is not None and now - token.issued_at < FRESH_TOKEN
