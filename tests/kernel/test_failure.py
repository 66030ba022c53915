"""A failure as a value: whose fault it is, its sentence in each language, its columns and its JSON."""

from __future__ import annotations

import re
from string import Formatter

import pytest
from tests.builders import NOW

from sellerwatch.crawling.task import TaskNote
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.failure import BLAME, LONGEST_FACT, Blame, Failure, FailureCode, failure_columns
from sellerwatch.kernel.failure_view import failure_view, note_view
from sellerwatch.kernel.wording import (
    failure_text,
    note_text,
)
from sellerwatch.texts import family, template

UNWELL = Failure.of(FailureCode.SERVER_ERROR, NOW, status=503)
HANGUL = re.compile("[가-힣]")
#: A particle that depends on the last sound of the fact before it.
GLUED = re.compile(r"\}[은는이가을를와과으로]+(?=[\s,.]|$)")


def facts_of(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("code", list(FailureCode))
def test_every_code_has_a_blame_and_a_sentence_with_the_same_facts_in_both_languages(code: FailureCode) -> None:
    assert code in BLAME
    english, korean = family("failures")[code]
    assert facts_of(english) == facts_of(korean)
    failure = Failure(code, NOW, tuple((name, 7) for name in facts_of(english)))
    for sentence in (failure_text(failure, language) for language in ("en", "ko")):
        assert sentence
        assert not set("{}?") & set(sentence)
        assert "  " not in sentence
    if code is not FailureCode.RECORDED:
        assert HANGUL.search(korean)
        assert not GLUED.search(korean)
        assert not HANGUL.search(english)


def test_no_sentence_is_left_of_a_code_that_is_gone() -> None:
    assert set(family("failures")) == set(BLAME) == set(FailureCode)
    assert set(family("notes")) == set(TaskNote)


def test_a_fact_that_is_missing_leaves_a_gap_in_the_sentence_and_nothing_worse() -> None:
    assert failure_text(Failure.of(FailureCode.SERVER_ERROR, NOW)) == (
        "The marketplace answered ?: an error on its side."
    )


def test_a_failure_can_be_charged_to_another_than_its_code_says() -> None:
    assert UNWELL.blame is Blame.MARKETPLACE
    assert Failure.of(FailureCode.SERVER_ERROR, NOW, Blame.AGENT).blame is Blame.AGENT
    assert Failure.of(FailureCode.SERVER_ERROR, NOW, Blame.MARKETPLACE, status=503) == UNWELL


@pytest.mark.parametrize(("language", "script"), [("en", re.compile("[가-힣]")), ("ko", re.compile("[A-Za-z]{7}"))])
def test_the_sentence_of_a_cause_is_in_the_language_of_the_whole(language: str, script: re.Pattern[str]) -> None:
    away = Failure.because(UNWELL, FailureCode.CIRCUIT_OPEN, NOW, endpoint="list")
    overtaken = Failure.because(away, FailureCode.OVERTAKEN, NOW, away.blame)
    sentence = failure_text(overtaken, language)
    assert failure_text(away, language) in sentence
    assert failure_text(UNWELL, language) in sentence
    assert not script.search(sentence), sentence
    assert overtaken.facts_by_name == {"cause": "CIRCUIT_OPEN/SERVER_ERROR", "endpoint": "list", "status": 503}


def test_a_failure_whose_cause_is_not_known_has_a_whole_sentence() -> None:
    assert failure_text(Failure.because(None, FailureCode.OVERTAKEN, NOW)) == (
        "It could not be started before the next run was due."
    )


@pytest.mark.parametrize(("times", "said"), [(1, "1 time in a row"), (3, "3 times in a row")])
def test_numbers_in_a_failure_have_their_plural(times: int, said: str) -> None:
    assert said in failure_text(Failure.of(FailureCode.WORKER_LOST, NOW, times=times))


def test_facts_from_outside_are_cut_to_a_bounded_length() -> None:
    made = Failure.of(FailureCode.UNREACHABLE, NOW, detail="x" * 10_000)
    assert made.facts_by_name == {"detail": "x" * LONGEST_FACT}


@pytest.mark.parametrize(
    "failure",
    [
        UNWELL,
        Failure.of(FailureCode.CANCELLED, NOW),
        Failure.because(UNWELL, FailureCode.REQUEST_LIMIT, NOW, requests=6),
        Failure.of(FailureCode.INTERNAL, NOW, Blame.PARSER, detail="값 'x' {y} 🧥"),
    ],
)
def test_a_failure_comes_back_from_its_four_columns(failure: Failure) -> None:
    assert Failure.stored(*failure_columns(failure)) == failure


def test_no_failure_is_four_empty_columns() -> None:
    assert failure_columns(None) == (None, None, None, None)
    assert Failure.stored(None, None, None, None) is None


def test_a_code_and_a_blame_of_a_newer_version_are_shown_as_recorded() -> None:
    found = Failure.stored("SUN_FLARE", "SUN", '{"strength": 9}', NOW)
    assert found is not None
    assert (found.code, found.blame, failure_text(found)) == (FailureCode.RECORDED, Blame.OURSELVES, "SUN_FLARE")


def test_a_failure_as_json_has_the_sentence_in_the_language_and_the_value_beside_it() -> None:
    value = {"code": "SERVER_ERROR", "blame": "MARKETPLACE", "facts": {"status": 503}, "at": stamp(NOW)}
    assert failure_view(UNWELL, "ko") == {"errorMessage": "마켓플레이스 응답 503: 서버 오류입니다.", "failure": value}
    assert failure_view(None, "en") == {"errorMessage": None, "failure": None}


def test_a_note_has_a_code_unless_an_earlier_version_wrote_it_as_a_sentence() -> None:
    assert note_view(TaskNote.HELD, "en") == {"note": template("notes", "HELD", "en"), "noteCode": "HELD"}
    assert note_text(TaskNote.FOREIGN, "ko") == template("notes", "FOREIGN", "ko")
    assert note_view("left alone", "ko") == {"note": "left alone", "noteCode": None}
    assert note_view(None, "en") == {"note": None, "noteCode": None}
