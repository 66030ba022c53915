"""What every machine does with a verb: the table of the specification is the judge."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from tests.machines import spec

from sellerwatch.kernel.errors import IllegalMove

V = TypeVar("V")

QUICK = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def attempt(noun: str, value: V, state: str, verb: str, act: Callable[[V], V]) -> V | None:
    """The moved value, or None when the move was refused as the table wants; the old value is untouched either way.

    A legal move that is refused raises out of here, and so do the guards of a noun, which its own machine knows.
    """
    moves = spec.ALL[noun]
    before = copy(value)
    legal = (state, verb) in moves
    try:
        if legal:
            return act(value)
        with pytest.raises(IllegalMove) as refusal:
            act(value)
    finally:
        assert value == before
    facts: dict[str, Any] = refusal.value.facts
    assert (facts["noun"], facts["verb"], facts["state"]) == (noun, verb, state)
    assert set(facts["needs"]) == spec.needs(moves, verb)
    return None
