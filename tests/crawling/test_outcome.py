"""What a request's end means: for the task, and for the agent. Every failure is charged to exactly one of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import HOUR, ITEM, MINUTE, NOW, SECOND, a_candidate, a_task, a_token, boot_us, worker_id
from tests.crawling.practice import a_marketplace
from tests.marketplaces.bodies import a_detail, a_page, an_entry, an_option, encoded

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.ports import Permit
from sellerwatch.catalog.absorb import Part
from sellerwatch.catalog.facts import body_hash
from sellerwatch.catalog.product import PartType
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.outcome import MOST_REQUESTS, PART_OF, Ending, TaskEnd, judge
from sellerwatch.crawling.task import Purpose, Task, TaskType
from sellerwatch.marketplaces.ports import Answer, AnswerKind

LIST, DETAIL, OPTION = TaskType.MINISHOP, TaskType.PRODUCT_DETAIL, TaskType.PRODUCT_OPTION
BODIES = {
    LIST: encoded(a_page(an_entry(), an_entry(ITEM + 1))),
    DETAIL: encoded(a_detail()),
    OPTION: encoded([an_option(2), an_option(1)]),
}


def claimed(task: Task, *, token_age: timedelta = HOUR, known: str | None = None) -> Claim:
    running = task.publish(NOW).start(worker_id(), NOW)
    candidate = a_candidate(token=a_token(issued_at=NOW - token_age, expires_at=NOW + HOUR))
    return Claim(running, Permit(1, Grant(candidate, boot_us())), known_hash=known)


def judged(
    answer: Answer, task: Task | None = None, *, token_age: timedelta = HOUR, known: str | None = None
) -> Ending:
    task = task or a_task(task_type=DETAIL)
    return judge(claimed(task, token_age=token_age, known=known), answer, a_marketplace(), 0.1234, NOW + SECOND)


def an_answer(kind: AnswerKind, status: int | None = None, **rest: object) -> Answer:
    return replace(Answer(kind, status, problem=f"It was {kind}."), **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "status", "end", "agent", "drops"),
    [
        (AnswerKind.GONE, 404, TaskEnd.FATAL, Outcome.BLAMELESS, False),
        (AnswerKind.TOO_MANY, 429, TaskEnd.AGAIN, Outcome.TOO_MANY, True),
        (AnswerKind.UNAUTHORISED, 401, TaskEnd.AGAIN, Outcome.BLAMELESS, True),
        (AnswerKind.UNAUTHORISED, 403, TaskEnd.AGAIN, Outcome.BLAMELESS, True),
        (AnswerKind.REFUSED, 400, TaskEnd.FAILED, Outcome.BLAMELESS, False),
        (AnswerKind.REFUSED, 410, TaskEnd.FAILED, Outcome.OTHER, False),
        (AnswerKind.REFUSED, 302, TaskEnd.FAILED, Outcome.OTHER, False),
        (AnswerKind.SERVER_ERROR, 503, TaskEnd.FAILED, Outcome.SERVER_ERROR, False),
        (AnswerKind.NETWORK_ERROR, None, TaskEnd.FAILED, Outcome.NETWORK_ERROR, False),
    ],
)
def test_each_kind_of_answer_has_its_end_and_its_blame(
    kind: AnswerKind, status: int | None, end: TaskEnd, agent: Outcome, drops: bool
) -> None:
    ending = judged(an_answer(kind, status))
    assert (ending.end, ending.agent, ending.drop_token) == (end, agent, drops)
    assert (ending.status, ending.problem, ending.parts, ending.list_total) == (status, f"It was {kind}.", (), None)


def test_no_kind_of_answer_is_forgotten() -> None:
    for kind in AnswerKind:
        for purpose in Purpose:
            answer = an_answer(kind, 200, body=BODIES[DETAIL])
            assert judged(answer, a_task(task_type=DETAIL, purpose=purpose)).end in TaskEnd


def test_an_ending_says_when_it_was_and_how_long_it_took() -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[DETAIL]))
    assert (ending.milliseconds, ending.at) == (123, NOW + SECOND)


def test_a_list_page_brings_one_part_for_each_product_and_the_stated_total() -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[LIST]), a_task())
    assert (ending.end, ending.agent, ending.list_total) == (TaskEnd.DONE, Outcome.SUCCESS, 3464)
    assert [(part.type, part.item_no) for part in ending.parts] == [
        (PartType.MINISHOP, ITEM),
        (PartType.MINISHOP, ITEM + 1),
    ]


def test_an_empty_page_is_a_good_answer() -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=encoded(a_page())), a_task())
    assert (ending.end, ending.parts, ending.list_total) == (TaskEnd.DONE, (), 3464)


@pytest.mark.parametrize(("task_type", "part"), [(DETAIL, PartType.DETAIL), (OPTION, PartType.OPTION)])
def test_a_detail_and_options_bring_one_part_with_the_body_as_it_came(task_type: TaskType, part: PartType) -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[task_type]), a_task(task_type=task_type))
    assert (ending.end, ending.agent, ending.list_total) == (TaskEnd.DONE, Outcome.SUCCESS, None)
    [read] = ending.parts
    assert (read.type, read.item_no, read.body) == (part, ITEM, BODIES[task_type])
    assert read.said is not None
    assert read.digest == read.said.digest, "hashed before the transaction"


@pytest.mark.parametrize("task_type", TaskType)
@pytest.mark.parametrize("body", [b"", b"<html>busy</html>", b'{"count": 1'])
def test_a_body_that_cannot_be_read_uses_a_try_and_costs_the_agent_nothing(task_type: TaskType, body: bytes) -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=body), a_task(task_type=task_type))
    assert (ending.end, ending.agent, ending.parts) == (TaskEnd.FAILED, Outcome.BLAMELESS, ())
    assert "cannot be read" in ending.problem
    assert not ending.drop_token


@pytest.mark.parametrize("task_type", TaskType)
@pytest.mark.parametrize("body", [b"{}", b'{"count": 1}'])
def test_an_answer_of_another_shape_is_kept_and_not_asked_for_again(task_type: TaskType, body: bytes) -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=body), a_task(task_type=task_type))
    assert (ending.end, ending.agent, ending.parts) == (TaskEnd.FATAL, Outcome.BLAMELESS, ())
    assert ending.unread is not None
    assert (ending.unread.part, ending.unread.body) == (PART_OF[task_type], body)


@pytest.mark.parametrize(("task_type", "part"), [(DETAIL, PartType.DETAIL), (OPTION, PartType.OPTION)])
def test_the_same_body_as_last_time_is_not_read(task_type: TaskType, part: PartType) -> None:
    body = BODIES[task_type]
    ending = judged(an_answer(AnswerKind.OK, 200, body=body), a_task(task_type=task_type), known=body_hash(body))
    assert (ending.end, ending.agent) == (TaskEnd.DONE, Outcome.SUCCESS)
    assert ending.parts == (Part.same(part, ITEM),)


def test_a_detail_of_another_product_is_not_taken_for_the_one_that_was_asked() -> None:
    other = a_task(task_type=DETAIL, item_no=ITEM + 5)
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[DETAIL]), other)
    assert (ending.end, ending.agent, ending.parts) == (TaskEnd.FAILED, Outcome.BLAMELESS, ())


def test_a_404_is_what_a_proof_of_removal_hoped_for() -> None:
    ending = judged(an_answer(AnswerKind.GONE, 404), a_task(task_type=DETAIL, purpose=Purpose.REMOVAL_PROOF))
    assert (ending.end, ending.agent, ending.is_gone) == (TaskEnd.DONE, Outcome.BLAMELESS, True)


def test_a_proof_of_removal_reads_nothing_of_a_product_that_still_answers() -> None:
    proof = a_task(task_type=DETAIL, purpose=Purpose.REMOVAL_PROOF)
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[DETAIL]), proof)
    assert (ending.end, ending.parts, ending.is_gone) == (TaskEnd.DONE, (), False)


@pytest.mark.parametrize(
    ("age", "agent"),
    [
        (timedelta(0), Outcome.REFUSED),
        (MINUTE - 2 * SECOND, Outcome.REFUSED),
        (MINUTE - SECOND, Outcome.BLAMELESS),
        (HOUR, Outcome.BLAMELESS),
    ],
)
def test_a_refused_token_is_the_agents_fault_only_if_it_was_fresh(age: timedelta, agent: Outcome) -> None:
    ending = judged(an_answer(AnswerKind.UNAUTHORISED, 401), token_age=age)
    assert (ending.end, ending.agent, ending.drop_token) == (TaskEnd.AGAIN, agent, True)


def test_the_wait_that_a_429_asked_for_is_kept() -> None:
    assert judged(an_answer(AnswerKind.TOO_MANY, 429, wait=2 * HOUR)).wait == 2 * HOUR


@pytest.mark.parametrize("kind", [AnswerKind.TOO_MANY, AnswerKind.UNAUTHORISED, AnswerKind.SERVER_ERROR])
def test_a_task_puts_at_most_6_requests_on_the_wire_whoever_is_to_blame_for_their_number(kind: AnswerKind) -> None:
    assert MOST_REQUESTS == 6
    fifth = judged(an_answer(kind, 500), a_task(task_type=DETAIL, requests_made=4))
    assert fifth.end is not TaskEnd.FATAL
    sixth = judged(an_answer(kind, 500), a_task(task_type=DETAIL, requests_made=5))
    assert sixth.end is TaskEnd.FATAL, "a retry would be the seventh"
    assert sixth.problem == f"6 requests in this run, the last: It was {kind}."
    assert sixth.agent is fifth.agent, "the agent is charged as for any other"


def test_the_sixth_request_may_still_succeed() -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[DETAIL]), a_task(task_type=DETAIL, requests_made=5))
    assert ending.end is TaskEnd.DONE
