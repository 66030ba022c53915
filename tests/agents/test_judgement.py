"""What an answer amounts to as a failure: with the status where the marketplace gave one."""

from __future__ import annotations

import pytest
from tests.builders import NOW

from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.agents.judgement import failure_of, judge_answer


@pytest.mark.parametrize(
    ("kind", "status", "facts"),
    [
        (AnswerKind.SERVER_ERROR, 503, {"status": 503, "detail": "as it was"}),
        (AnswerKind.DROPPED, None, {"detail": "as it was"}),
    ],
)
def test_a_failure_has_the_status_of_an_answer_and_none_of_a_connection(
    kind: AnswerKind, status: int | None, facts: dict[str, object]
) -> None:
    answer = Answer(kind, status, detail="as it was")
    failure = failure_of(judge_answer(answer), answer, NOW)
    assert failure is not None
    assert dict(failure.facts) == facts


def test_a_good_answer_is_no_failure() -> None:
    answer = Answer(AnswerKind.OK, 200, b"{}")
    assert failure_of(judge_answer(answer), answer, NOW) is None


@pytest.mark.parametrize(
    ("kind", "is_outage", "counts"),
    [
        (AnswerKind.SERVER_ERROR, True, True),
        (AnswerKind.UNREACHABLE, True, False),
        (AnswerKind.TIMED_OUT, True, False),
        (AnswerKind.DROPPED, True, False),
        (AnswerKind.TOO_MANY, False, False),
        (AnswerKind.GONE, False, True),
        (AnswerKind.REFUSED, False, True),
    ],
)
def test_failures_of_the_marketplace_may_be_an_outage_and_only_answers_count_as_requests(
    kind: AnswerKind, *, is_outage: bool, counts: bool
) -> None:
    verdict = judge_answer(Answer(kind, None))
    assert (verdict.is_outage, verdict.counts) == (is_outage, counts)
