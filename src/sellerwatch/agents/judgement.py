"""What an answer of the marketplace means: for the task, for the agent, for the endpoint's circuit. The one table.

Every failure is charged to exactly one party; `kernel/failure.py` says which code is whose.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.kernel.failure import Fact, Failure, FailureCode


class TaskEnd(StrEnum):
    """DONE: with what was asked for. FAILED: counts as a try. FATAL: trying again cannot help. AGAIN: costs no try;
    another agent, or the same with a new token."""

    DONE = "DONE"
    FAILED = "FAILED"
    FATAL = "FATAL"
    AGAIN = "AGAIN"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`task` and `agent`: what happens to each. `is_outage`: a network error or a server's own error, which counts
    towards the endpoint's circuit. `counts`: the marketplace answered for this task's own sake, so the request counts
    towards the task's limit."""

    task: TaskEnd
    agent: Outcome
    code: FailureCode | None = None
    is_outage: bool = False
    drops_token: bool = False
    counts: bool = True
    #: Of the token page: the marketplace answered and gave this agent no token.
    refuses_agent: bool = False


VERDICTS = {
    AnswerKind.OK: Verdict(TaskEnd.DONE, Outcome.SUCCESS),
    AnswerKind.GONE: Verdict(TaskEnd.FATAL, Outcome.BLAMELESS, FailureCode.PRODUCT_GONE, refuses_agent=True),
    AnswerKind.TOO_MANY: Verdict(TaskEnd.AGAIN, Outcome.TOO_MANY, FailureCode.TOO_MANY_REQUESTS, drops_token=True),
    # An old token is not the task's business, however many agents hold one.
    AnswerKind.UNAUTHORISED: Verdict(
        TaskEnd.AGAIN,
        Outcome.BLAMELESS,
        FailureCode.TOKEN_REJECTED,
        drops_token=True,
        counts=False,
        refuses_agent=True,
    ),
    AnswerKind.BAD_REQUEST: Verdict(TaskEnd.FAILED, Outcome.BLAMELESS, FailureCode.BAD_REQUEST, refuses_agent=True),
    AnswerKind.REFUSED: Verdict(TaskEnd.FAILED, Outcome.OTHER, FailureCode.REFUSED, refuses_agent=True),
    AnswerKind.REDIRECTED: Verdict(TaskEnd.FAILED, Outcome.OTHER, FailureCode.REFUSED),
    AnswerKind.SERVER_ERROR: Verdict(TaskEnd.FAILED, Outcome.SERVER_ERROR, FailureCode.SERVER_ERROR, is_outage=True),
    AnswerKind.UNREACHABLE: Verdict(
        TaskEnd.FAILED, Outcome.NETWORK_ERROR, FailureCode.UNREACHABLE, is_outage=True, counts=False
    ),
    AnswerKind.TIMED_OUT: Verdict(
        TaskEnd.FAILED, Outcome.NETWORK_ERROR, FailureCode.TIMED_OUT, is_outage=True, counts=False
    ),
    AnswerKind.DROPPED: Verdict(
        TaskEnd.FAILED, Outcome.NETWORK_ERROR, FailureCode.CONNECTION_DROPPED, is_outage=True, counts=False
    ),
    AnswerKind.TOO_LARGE: Verdict(TaskEnd.FAILED, Outcome.BLAMELESS, FailureCode.ANSWER_TOO_LARGE),
    AnswerKind.NO_TOKEN: Verdict(TaskEnd.FAILED, Outcome.BLAMELESS, FailureCode.NO_TOKEN_GIVEN, refuses_agent=True),
}

#: The first use of a token that was issued because another had been rejected: the agent itself is not welcome.
REPLACEMENT_REJECTED = Verdict(TaskEnd.AGAIN, Outcome.REFUSED, FailureCode.FRESH_TOKEN_REJECTED, drops_token=True)
#: 2xx, but not what the contract says. Cut off or no JSON at all: an accident. Of another shape: it stays so.
GARBLED = Verdict(TaskEnd.FAILED, Outcome.BLAMELESS, FailureCode.UNREADABLE)
UNREADABLE = Verdict(TaskEnd.FATAL, Outcome.BLAMELESS, FailureCode.UNREADABLE)
#: A product's 404 where a removal was to be proved.
PROVED_GONE = Verdict(TaskEnd.DONE, Outcome.BLAMELESS)


def judge_answer(answer: Answer, *, is_replacement: bool = False) -> Verdict:
    """`is_replacement`: made with a token that was issued because of a rejection and has not been accepted yet."""
    if answer.kind is AnswerKind.UNAUTHORISED and is_replacement:
        return REPLACEMENT_REJECTED
    return VERDICTS[answer.kind]


def failure_of(verdict: Verdict, answer: Answer, now: datetime) -> Failure | None:
    """The failure an answer amounts to; None for a good one."""
    if verdict.code is None:
        return None
    facts: dict[str, Fact] = {} if answer.status is None else {"status": answer.status}
    if answer.detail:
        facts["detail"] = answer.detail
    return Failure.of(verdict.code, now, None, **facts)
