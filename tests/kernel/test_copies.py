from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest
from tests.builders import LATER, a_task

from sellerwatch.crawling.task import Task
from sellerwatch.kernel.fast_values import altered, made, quick


def test_a_copy_has_the_new_fields_and_otherwise_the_old() -> None:
    task = a_task(1)
    copy = altered(task, attempt=7, available_at=LATER)
    assert copy == replace(task, attempt=7, available_at=LATER)
    assert type(copy) is Task
    assert task == a_task(1)


def test_a_copy_is_as_frozen_as_the_original() -> None:
    copy = altered(a_task(1), attempt=7)
    with pytest.raises(FrozenInstanceError):
        copy.attempt = 8  # type: ignore[misc]


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="Task has no attempts"):
        altered(a_task(1), attempts=7)


def test_a_value_made_of_its_fields_is_the_one_its_class_makes() -> None:
    task = a_task(1)
    assert made(Task, **vars(task)) == task
    with pytest.raises(FrozenInstanceError):
        made(Task, **vars(task)).attempt = 8  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Guarded:
    number: int
    text: str = "same"
    many: list[int] = field(default_factory=list)


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    number: int
    text: str = "same"
    many: list[int] = field(default_factory=list)


def test_a_quick_value_is_made_compared_and_copied_like_a_frozen_one() -> None:
    quick_one, guarded = Quick(1), Guarded(1)
    assert repr(quick_one) == repr(guarded).replace("Guarded", "Quick")
    assert quick_one == Quick(number=1, text="same") != Quick(2)
    assert quick_one.many is not Quick(1).many
    assert replace(quick_one, number=2) == Quick(2)
    with pytest.raises(TypeError):
        Quick()  # type: ignore[call-arg]


def test_a_quick_value_still_does_what_it_does_when_made() -> None:
    @quick
    @dataclass(frozen=True, slots=True)
    class Careful:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("below 0")

    assert Careful(1).number == 1
    with pytest.raises(ValueError, match="below 0"):
        Careful(-1)
