"""What every machine does with a verb: the table of the specification is the judge."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

from sellerwatch.kernel.errors import IllegalMove
from tests.machines import spec

V = TypeVar("V")

QUICK = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def attempt(noun: str, value: V, state: str, verb: str, act: Callable[[V], V]) -> V | None:
    """The moved value, or None when the move was refused as the table wants; the old value is untouched either way.

    `act` may raise other errors: the guards of a noun, which its own machine knows.
    """
    moves = spec.ALL[noun]
    before = copy(value)
    legal = (state, verb) in moves
    try:
        moved = act(value)
    except IllegalMove as refusal:
        assert not legal, f"{verb} is legal for a {noun} that is {state}, but was refused: {refusal}"
        facts: dict[str, Any] = refusal.facts
        assert (facts["noun"], facts["verb"], facts["state"]) == (noun, verb, state)
        assert set(facts["needs"]) == spec.needs(moves, verb)
        return None
    finally:
        assert value == before
    assert legal, f"{verb} is illegal for a {noun} that is {state}, but was done"
    return moved
