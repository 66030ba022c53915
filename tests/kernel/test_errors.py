"""The tree of errors and the catalogue of their wordings."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from string import Formatter
from typing import Any, get_origin, get_type_hints

import pytest
from tests.builders import NOW
from tests.kernel.modules import every_module

from sellerwatch.kernel import errors, store
from sellerwatch.kernel.errors import (
    Conflict,
    Failed,
    Forbidden,
    IllegalMove,
    Invalid,
    NotFound,
    SellerwatchError,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    error_classes,
)
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.kernel.wording import error_text
from sellerwatch.sellers.seller import SellerNotFound
from sellerwatch.texts import LANGUAGES, family

KINDS: list[type[SellerwatchError]] = [
    Invalid,
    NotFound,
    Unauthenticated,
    Forbidden,
    TooLarge,
    TooManyRequests,
    Conflict,
    Unavailable,
    Failed,
]
#: Named to be caught: an adapter raises one of its own that derives from it and says what is the matter.
CAUGHT: list[type[SellerwatchError]] = [StoreFailed]


ENGLISH = {code: texts[0] for code, texts in family("errors").items()}
KOREAN = {code: texts[1] for code, texts in family("errors").items()}


def raised_classes() -> list[type[SellerwatchError]]:
    """All classes of the program that are raised; a kind only says how the edges answer."""
    every_module()
    ours = [c for c in error_classes() if c.__module__.partition(".")[0] == "sellerwatch"]
    return [c for c in ours if c not in KINDS + CAUGHT]


def placeholders(template: str) -> set[str]:
    return {
        name.partition(".")[0].partition("[")[0] for _, name, _, _ in Formatter().parse(template) if name is not None
    }


def an_instance(error: type[SellerwatchError]) -> SellerwatchError:
    """One with a value of the right sort for each of its fields; `facts` may be made of them."""
    hints = get_type_hints(error)
    samples: dict[Any, Any] = {int: 1, float: 1.0, datetime: NOW, tuple: (), list: [], dict: {}}
    names: list[str] = list(getattr(error, "__dataclass_fields__", ()))
    return error(**{name: samples.get(get_origin(hints[name]) or hints[name], "X") for name in names})


def fact_names(error: type[SellerwatchError]) -> set[str]:
    return set(an_instance(error).facts)


def test_every_error_has_a_wording() -> None:
    assert [c.__qualname__ for c in raised_classes() if c.code not in ENGLISH] == []


@pytest.mark.parametrize("error", KINDS + CAUGHT)
def test_an_error_that_has_no_wording_is_never_raised_itself(error: type[SellerwatchError]) -> None:
    root = Path(errors.__file__).parents[1]
    raised = re.compile(rf"raise {error.__name__}\b")
    assert [path.name for path in root.rglob("*.py") if raised.search(path.read_text("utf-8"))] == []
    assert any(issubclass(c, error) for c in raised_classes())


def test_every_wording_belongs_to_an_error() -> None:
    assert set(ENGLISH) - {c.code for c in raised_classes()} == set()


def test_a_wording_uses_only_the_facts_its_error_has() -> None:
    wrong = {
        c.__qualname__: sorted(placeholders(ENGLISH[c.code]) - fact_names(c))
        for c in raised_classes()
        if not placeholders(ENGLISH.get(c.code, "")) <= fact_names(c)
    }
    assert wrong == {}


def test_both_languages_have_every_sentence_with_the_same_facts() -> None:
    assert set(KOREAN) == set(ENGLISH)
    assert {code: placeholders(text) for code, text in KOREAN.items()} == {
        code: placeholders(text) for code, text in ENGLISH.items()
    }


def test_a_korean_sentence_is_korean_and_glues_no_particle_to_a_fact() -> None:
    """Which particle follows depends on the fact's last sound, which nobody knows beforehand."""
    glued = re.compile(r"\}[은는이가을를와과으로]+(?=[\s,.]|$)")
    assert [code for code, text in KOREAN.items() if glued.search(text)] == []
    assert [code for code, text in KOREAN.items() if not re.search("[가-힣]", text)] == []


def test_every_korean_wording_can_be_said() -> None:
    for error in raised_classes():
        instance = an_instance(error)
        sentence = error_text(instance.code, instance.facts, "ko")
        assert "{" not in sentence
        assert "  " not in sentence
        assert " or " not in sentence


def test_lists_are_joined_in_the_language_of_the_sentence() -> None:
    facts = {"noun": "task", "name": "x", "verb": "put_back", "state": "FAILED", "needs": ("A", "B", "C")}
    assert "A, B 또는 C 상태" in error_text("ILLEGAL_MOVE", facts, "ko")
    assert "put back" in error_text("ILLEGAL_MOVE", facts, "ko")
    assert "A, B or C" in error_text("ILLEGAL_MOVE", facts)
    assert set(LANGUAGES) == {"en", "ko"}


def test_every_wording_can_be_said() -> None:
    for error in raised_classes():
        sentence = str(an_instance(error))
        assert "{" not in sentence, sentence
        assert sentence[0].isupper() or sentence[0] in "'X", sentence
        assert "  " not in sentence, sentence


def test_no_two_errors_share_a_code() -> None:
    codes = [c.code for c in error_classes() if c.__module__.partition(".")[0] == "sellerwatch"]
    assert sorted({code for code in codes if codes.count(code) > 1}) == []


def test_every_error_is_of_one_of_the_kinds() -> None:
    assert [c.__qualname__ for c in raised_classes() if len([k for k in KINDS if issubclass(c, k)]) != 1] == []


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_descends_from_the_root(kind: type[SellerwatchError]) -> None:
    assert kind.__bases__ == (SellerwatchError,)


def test_the_tree_in_the_docstring_is_the_real_one() -> None:
    drawn: dict[str, str | None] = {}
    path: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"([│├└─\s]*)([A-Z]\w+)\s{2,}\S", line)
        if not match:
            continue
        depth, name = len(match[1]), match[2]
        path = [*(step for step in path if step[0] < depth), (depth, name)]
        drawn[name] = path[-2][1] if len(path) > 1 else None
    assert drawn == {
        "SellerwatchError": None,
        "Invalid": "SellerwatchError",
        "NotFound": "SellerwatchError",
        "Unauthenticated": "SellerwatchError",
        "Forbidden": "SellerwatchError",
        "TooLarge": "SellerwatchError",
        "TooManyRequests": "SellerwatchError",
        "Conflict": "SellerwatchError",
        "IllegalMove": "Conflict",
        "Unavailable": "SellerwatchError",
        "Failed": "SellerwatchError",
        "StoreFailed": "Failed",
    }
    for name, parent in drawn.items():
        if parent is not None:
            found: type[SellerwatchError] = getattr(errors, name, None) or getattr(store, name)
            assert found.__bases__ == (getattr(errors, parent),)


@pytest.mark.parametrize(
    ("error", "code"),
    [(SellerNotFound, "SELLER_NOT_FOUND"), (IllegalMove, "ILLEGAL_MOVE"), (Unavailable, "UNAVAILABLE")],
)
def test_the_code_is_the_class_name_in_capitals(error: type[SellerwatchError], code: str) -> None:
    assert error.code == code


def test_an_error_says_its_sentence_from_its_facts() -> None:
    error = SellerNotFound(seller_id="seller_1")
    assert error.facts == {"seller_id": "seller_1"}
    assert str(error) == "There is no seller seller_1."


def test_an_error_without_fields_has_no_facts() -> None:
    assert Failed().facts == {}
    assert str(Failed()) == "Failed."


def test_an_unavailable_may_say_when_to_come_back() -> None:
    assert Unavailable().retry_after is None


def pickled(error: SellerwatchError) -> SellerwatchError:
    again: SellerwatchError = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    return again


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_an_error_can_be_copied(again: Callable[[SellerwatchError], SellerwatchError]) -> None:
    for error in map(an_instance, raised_classes()):
        assert type(again(error)) is type(error)
        assert again(error).facts == error.facts
        assert str(again(error)) == str(error)


def test_a_verb_is_said_without_the_underscore_of_its_method() -> None:
    error = errors.IllegalMove(noun="task", name="7", verb="put_back", state="FAILED", needs=("PUBLISHED",))
    assert str(error) == "The task 7 is FAILED; to put back it must be PUBLISHED."


def test_errors_are_compared_by_identity_as_exceptions_are() -> None:
    assert SellerNotFound(seller_id="a") != SellerNotFound(seller_id="a")


def test_a_code_without_a_wording_is_still_said_plainly() -> None:
    assert error_text("DISK_FULL", {"path": "/data", "left": 0}) == "Disk full (path=/data, left=0)."
    assert error_text("DISK_FULL", {}) == "Disk full."


def test_each_language_has_its_own_sentence() -> None:
    facts = {"seller_id": "s"}
    assert error_text("SELLER_EXISTS", facts, "ko") == "판매자 s: 이미 등록되어 있습니다."
    assert error_text("SELLER_EXISTS", facts, "fr") == error_text("SELLER_EXISTS", facts)


@pytest.mark.parametrize(
    ("needs", "said"),
    [((), "nothing"), (("A",), "A"), (("A", "B"), "A or B"), (("A", "B", "C"), "A, B or C")],
)
def test_lists_are_said_as_people_say_them(needs: tuple[str, ...], said: str) -> None:
    error = IllegalMove(noun="task", name="t1", verb="start", state="WAITING", needs=needs)
    assert str(error) == f"The task t1 is WAITING; to start it must be {said}."


def test_braces_in_a_fact_are_said_as_they_are() -> None:
    assert "{digits}" in error_text(
        "INVALID_REQUEST_URL", {"given": "{x}", "task_type": "T", "pattern": "/item/{digits}"}
    )


@dataclass(eq=False)
class HTTPFault2Seen(Failed):
    """A name that is hard to split."""


def test_capitals_in_a_row_stay_together_in_a_code() -> None:
    assert HTTPFault2Seen.code == "HTTPFAULT2_SEEN"
