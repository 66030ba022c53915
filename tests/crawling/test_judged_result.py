"""What a request's end means: for the task, and for the agent. Every failure is charged to exactly one of them."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.builders import HOUR, ITEM, NOW, SECOND, a_candidate, a_task, a_token, boot_us, worker_id
from tests.crawling.crawl_world import a_marketplace
from tests.marketplaces.bodies import a_detail, a_page, an_entry, an_option, encoded

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.agents.judgement import TaskEnd
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.ports import Permit
from sellerwatch.catalog.absorb import Part
from sellerwatch.catalog.facts import body_hash
from sellerwatch.catalog.product import PartType
from sellerwatch.crawling.absorb_results import MOST_REQUESTS, _is_limit_reached
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.judged_result import PART_OF, JudgedResult, judge
from sellerwatch.crawling.task import Purpose, Task, TaskType
from sellerwatch.kernel.failure import FailureCode

LIST, DETAIL, OPTION = TaskType.MINISHOP, TaskType.PRODUCT_DETAIL, TaskType.PRODUCT_OPTION
BODIES = {
    LIST: encoded(a_page(an_entry(), an_entry(ITEM + 1))),
    DETAIL: encoded(a_detail()),
    OPTION: encoded([an_option(2), an_option(1)]),
}


def claimed(task: Task, *, is_replacement: bool = False, known: str | None = None) -> Claim:
    running = task.publish(NOW).start(worker_id(), NOW)
    candidate = a_candidate(token=a_token(is_replacement=is_replacement))
    return Claim(running, Permit(1, Grant(candidate, boot_us())), known_hash=known)


def judged(
    answer: Answer, task: Task | None = None, *, is_replacement: bool = False, known: str | None = None
) -> JudgedResult:
    task = task or a_task(task_type=DETAIL)
    return judge(
        claimed(task, is_replacement=is_replacement, known=known), answer, a_marketplace(), 0.1234, NOW + SECOND
    )


def an_answer(kind: AnswerKind, status: int | None = None, **rest: object) -> Answer:
    return structs.replace(Answer(kind, status, detail=f"It was {kind}."), **rest)


@pytest.mark.parametrize(
    ("kind", "status", "end", "agent", "drops"),
    [
        (AnswerKind.GONE, 404, TaskEnd.FATAL, Outcome.BLAMELESS, False),
        (AnswerKind.TOO_MANY, 429, TaskEnd.AGAIN, Outcome.TOO_MANY, True),
        (AnswerKind.UNAUTHORISED, 401, TaskEnd.AGAIN, Outcome.BLAMELESS, True),
        (AnswerKind.UNAUTHORISED, 403, TaskEnd.AGAIN, Outcome.BLAMELESS, True),
        (AnswerKind.BAD_REQUEST, 400, TaskEnd.FAILED, Outcome.BLAMELESS, False),
        (AnswerKind.REFUSED, 410, TaskEnd.FAILED, Outcome.OTHER, False),
        (AnswerKind.REDIRECTED, 302, TaskEnd.FAILED, Outcome.OTHER, False),
        (AnswerKind.SERVER_ERROR, 503, TaskEnd.FAILED, Outcome.SERVER_ERROR, False),
        (AnswerKind.DROPPED, None, TaskEnd.FAILED, Outcome.NETWORK_ERROR, False),
    ],
)
def test_each_kind_of_answer_has_its_end_and_its_blame(
    kind: AnswerKind, status: int | None, end: TaskEnd, agent: Outcome, drops: bool
) -> None:
    ending = judged(an_answer(kind, status))
    assert (ending.end, ending.verdict.agent, ending.verdict.drops_token) == (end, agent, drops)
    assert (ending.status, ending.parts, ending.list_total) == (status, (), None)
    assert ending.failure is not None
    assert ending.failure.facts_by_name["detail"] == f"It was {kind}."


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
    assert (ending.end, ending.verdict.agent, ending.list_total) == (TaskEnd.DONE, Outcome.SUCCESS, 3464)
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
    assert (ending.end, ending.verdict.agent, ending.list_total) == (TaskEnd.DONE, Outcome.SUCCESS, None)
    [read] = ending.parts
    assert (read.type, read.item_no, read.body) == (part, ITEM, BODIES[task_type])
    assert read.normalized is not None
    assert read.digest == read.normalized.digest, "hashed before the transaction"


@pytest.mark.parametrize("task_type", TaskType)
@pytest.mark.parametrize("body", [b"", b"<html>busy</html>", b'{"count": 1'])
def test_a_body_that_cannot_be_read_uses_a_try_and_costs_the_agent_nothing(task_type: TaskType, body: bytes) -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=body), a_task(task_type=task_type))
    assert (ending.end, ending.verdict.agent, ending.parts) == (TaskEnd.FAILED, Outcome.BLAMELESS, ())
    assert ending.failure is not None
    assert ending.failure.code is FailureCode.UNREADABLE
    assert not ending.verdict.drops_token


@pytest.mark.parametrize("task_type", TaskType)
@pytest.mark.parametrize("body", [b"{}", b'{"count": 1}'])
def test_an_answer_of_another_shape_is_kept_and_not_asked_for_again(task_type: TaskType, body: bytes) -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=body), a_task(task_type=task_type))
    assert (ending.end, ending.verdict.agent, ending.parts) == (TaskEnd.FATAL, Outcome.BLAMELESS, ())
    assert ending.unread is not None
    assert (ending.unread.part, ending.unread.body) == (PART_OF[task_type], body)


@pytest.mark.parametrize(("task_type", "part"), [(DETAIL, PartType.DETAIL), (OPTION, PartType.OPTION)])
def test_the_same_body_as_last_time_is_not_read(task_type: TaskType, part: PartType) -> None:
    body = BODIES[task_type]
    ending = judged(an_answer(AnswerKind.OK, 200, body=body), a_task(task_type=task_type), known=body_hash(body))
    assert (ending.end, ending.verdict.agent) == (TaskEnd.DONE, Outcome.SUCCESS)
    assert ending.parts == (Part.same(part, ITEM),)


def test_a_detail_of_another_product_is_not_taken_for_the_one_that_was_asked() -> None:
    other = a_task(task_type=DETAIL, item_no=ITEM + 5)
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[DETAIL]), other)
    assert (ending.end, ending.verdict.agent, ending.parts) == (TaskEnd.FAILED, Outcome.BLAMELESS, ())


def test_a_404_is_what_a_proof_of_removal_hoped_for() -> None:
    ending = judged(an_answer(AnswerKind.GONE, 404), a_task(task_type=DETAIL, purpose=Purpose.REMOVAL_PROOF))
    assert (ending.end, ending.verdict.agent, ending.is_gone) == (TaskEnd.DONE, Outcome.BLAMELESS, True)


def test_a_proof_of_removal_reads_nothing_of_a_product_that_still_answers() -> None:
    proof = a_task(task_type=DETAIL, purpose=Purpose.REMOVAL_PROOF)
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[DETAIL]), proof)
    assert (ending.end, ending.parts, ending.is_gone) == (TaskEnd.DONE, (), False)


@pytest.mark.parametrize(("is_replacement", "agent"), [(True, Outcome.REFUSED), (False, Outcome.BLAMELESS)])
def test_a_rejected_replacement_is_the_agents_fault_whenever_it_is_used(is_replacement: bool, agent: Outcome) -> None:
    ending = judged(an_answer(AnswerKind.UNAUTHORISED, 401), is_replacement=is_replacement)
    assert (ending.end, ending.verdict.agent, ending.verdict.drops_token) == (TaskEnd.AGAIN, agent, True)


def test_the_wait_that_a_429_asked_for_is_kept() -> None:
    assert judged(an_answer(AnswerKind.TOO_MANY, 429, wait=2 * HOUR)).wait == 2 * HOUR


@pytest.mark.parametrize(
    ("kind", "counts"),
    [
        (AnswerKind.SERVER_ERROR, True),
        (AnswerKind.REFUSED, True),
        (AnswerKind.TOO_MANY, False),
        (AnswerKind.UNAUTHORISED, False),
        (AnswerKind.UNREACHABLE, False),
    ],
)
def test_only_what_the_marketplace_answered_for_the_tasks_own_sake_counts_towards_its_limit(
    kind: AnswerKind, counts: bool
) -> None:
    assert judged(an_answer(kind, 400)).counts is counts


def test_the_sixth_request_may_still_succeed() -> None:
    ending = judged(an_answer(AnswerKind.OK, 200, body=BODIES[DETAIL]), a_task(task_type=DETAIL, requests_made=5))
    assert ending.end is TaskEnd.DONE


@pytest.mark.parametrize(
    ("kind", "requests", "is_reached"),
    [
        (AnswerKind.SERVER_ERROR, MOST_REQUESTS, True),
        (AnswerKind.SERVER_ERROR, MOST_REQUESTS - 1, False),
        (AnswerKind.TOO_MANY, MOST_REQUESTS, False),
        (AnswerKind.GONE, MOST_REQUESTS, False),
    ],
)
def test_a_task_is_given_up_after_so_many_requests_that_count(
    kind: AnswerKind, requests: int, *, is_reached: bool
) -> None:
    """A 429 is about the agent and does not count; what is over anyway is not given up."""
    task = a_task(task_type=DETAIL, requests_made=requests)
    assert _is_limit_reached(judged(an_answer(kind)), task) is is_reached
