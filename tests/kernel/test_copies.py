from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from tests.builders import LATER, a_task

from sellerwatch.crawling.task import Task
from sellerwatch.kernel.copies import altered, made


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
