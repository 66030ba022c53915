from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest
from tests.builders import LATER, a_task

from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.record_outcomes import RequestOutcome
from sellerwatch.catalog.absorb import Part
from sellerwatch.catalog.product import Product
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.judged_result import JudgedResult
from sellerwatch.crawling.task import Task
from sellerwatch.kernel.fast_values import copy_with, fast_frozen, make_with
from sellerwatch.outbox.message import Message


def test_a_copy_has_the_new_fields_and_otherwise_the_old() -> None:
    task = a_task(1)
    copy = copy_with(task, attempt=7, available_at=LATER)
    assert copy == replace(task, attempt=7, available_at=LATER)
    assert type(copy) is Task
    assert task == a_task(1)


def test_a_copy_is_as_frozen_as_the_original() -> None:
    copy = copy_with(a_task(1), attempt=7)
    with pytest.raises(FrozenInstanceError):
        copy.attempt = 8  # type: ignore[misc]


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="Task has no attempts"):
        copy_with(a_task(1), attempts=7)


def test_a_value_made_of_its_fields_is_the_one_its_class_makes() -> None:
    task = a_task(1)
    assert make_with(Task, dict(vars(task))) == task
    with pytest.raises(FrozenInstanceError):
        make_with(Task, dict(vars(task))).attempt = 8  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Guarded:
    number: int
    text: str = "same"
    many: list[int] = field(default_factory=list)


@fast_frozen
@dataclass(frozen=True, slots=True)
class Fast:
    number: int
    text: str = "same"
    many: list[int] = field(default_factory=list)


def test_a_fast_value_is_made_compared_and_copied_like_a_guarded_one() -> None:
    fast, guarded = Fast(1), Guarded(1)
    assert repr(fast) == repr(guarded).replace("Guarded", "Fast")
    assert fast == Fast(number=1, text="same") != Fast(2)
    assert fast.many is not Fast(1).many
    assert replace(fast, number=2) == Fast(2)
    with pytest.raises(TypeError):
        Fast()  # type: ignore[call-arg]


def test_a_fast_value_still_does_what_it_does_when_made() -> None:
    @fast_frozen
    @dataclass(frozen=True, slots=True)
    class Careful:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("below 0")

    assert Careful(1).number == 1
    with pytest.raises(ValueError, match="below 0"):
        Careful(-1)


def test_no_field_of_a_fast_value_can_be_set_under_tests() -> None:
    with pytest.raises(FrozenInstanceError):
        Fast(1).number = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del Fast(1).number


@pytest.mark.parametrize("kind", [Candidate, Claim, JudgedResult, Message, Part, Product, RequestOutcome])
def test_values_of_a_request_are_frozen_under_tests(kind: type[Any]) -> None:
    value: object = object.__new__(kind)
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(kind)[0].name, None)


IN_PRODUCTION = """
from sellerwatch.agents.pool import VISITOR
VISITOR.row = 7
print(VISITOR.row)
"""


def test_in_production_nothing_is_paid_for_that() -> None:
    done = subprocess.run([sys.executable, "-c", IN_PRODUCTION], capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"
