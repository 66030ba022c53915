"""What is wrong with an unreadable answer: a value that is kept the same, and said in the reader's language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.builders import NOW

from sellerwatch.kernel.answer_problem import AnswerProblem, stored_problem_text
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.wording import failure_text
from sellerwatch.texts import family

PARSER = Path(__file__).parents[2] / "src/sellerwatch/marketplaces/mustit"
#: `InvalidValue(where, "CODE", name=...)` and its kin, wherever the parser refuses a value.
REFUSAL = re.compile(r"""(?:InvalidValue|UnrelatedAnswer)\((?:f?"[^"]*"|[\w.()"]+(?:, key\))?), "([A-Z_]+)\"""")
MISTYPED = AnswerProblem("MISTYPED", "items[3].itemNo", (("found", "null"), ("wanted", "number")))


def test_a_problem_is_said_in_the_readers_language() -> None:
    assert MISTYPED.text() == "items[3].itemNo: null, not a number"
    assert MISTYPED.text("ko") == "items[3].itemNo: 숫자 형식이 필요하지만 실제 형식은 null 값입니다"


@pytest.mark.parametrize(
    "problem",
    [
        MISTYPED,
        AnswerProblem("EMPTY"),
        AnswerProblem("TOO_MANY_ENTRIES", "items", (("entries", "501"), ("asked", "500"))),
        AnswerProblem("NO_JSON", "", (("begin", "'<html>\n a=b 상품'"),)),
    ],
)
def test_what_is_stored_is_read_back(problem: AnswerProblem) -> None:
    assert AnswerProblem.read(problem.stored) == problem
    assert stored_problem_text(problem.stored, "ko") == problem.text("ko")


def test_a_sentence_from_before_problems_had_codes_is_shown_as_it_is() -> None:
    assert AnswerProblem.read("ProductInfoModule: missing") is None
    assert stored_problem_text("ProductInfoModule: missing", "ko") == "ProductInfoModule: missing"


def test_the_general_problem_is_the_same_for_every_item_and_number() -> None:
    other = AnswerProblem("MISTYPED", "items[17].itemNo", MISTYPED.facts)
    assert other.general == MISTYPED.general
    assert other.general.text() == "items[#].itemNo: null, not a number"
    assert AnswerProblem("NEGATIVE", "count", (("value", -5),)).general.text() == "count: -#, not a number from 0"


def test_what_is_stored_is_bounded() -> None:
    assert len(AnswerProblem("MISSING", "x" * 500).stored) < 150


def test_every_code_of_the_parser_has_its_texts_and_every_text_its_code() -> None:
    source = "".join(path.read_text("utf-8") for path in PARSER.glob("*.py"))
    codes = {key for key in family("unreadable") if key.isupper() or "_" in key}
    assert set(REFUSAL.findall(source)) == codes


@pytest.mark.parametrize(
    ("language", "sentence", "pause"),
    [
        (
            "en",
            "The list answer cannot be read: items[3].itemNo: null, not a number.",
            "The run is paused; answers that could not be read: 12 (items[3].itemNo: null, not a number).",
        ),
        (
            "ko",
            "list 응답을 해석할 수 없습니다. {korean}.",
            "읽을 수 없는 응답이 12건 있어 실행이 일시 중지되었습니다({korean}).",
        ),
    ],
)
def test_failures_say_it_in_their_own_sentence(language: str, sentence: str, pause: str) -> None:
    facts, korean = MISTYPED.failure_facts, MISTYPED.text("ko")
    unreadable = Failure.of(FailureCode.UNREADABLE, NOW, None, endpoint="list", **facts)
    paused = Failure.of(FailureCode.RUN_PAUSED, NOW, None, answers=12, **facts)
    assert failure_text(unreadable, language) == sentence.format(korean=korean)
    assert failure_text(paused, language) == pause.format(korean=korean)
