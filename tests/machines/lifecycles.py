"""All lifecycle tables of the program, found and not listed: a new one cannot be forgotten."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from tests.kernel.modules import every_module

from sellerwatch.kernel.lifecycle import Lifecycle

FEATURES = ("sellers", "schedules", "agents", "catalog", "outbox", "crawling", "oversight", "marketplaces")


def every_lifecycle() -> dict[str, Lifecycle[Any]]:
    found: dict[str, Lifecycle[Any]] = {}
    for value in (value for feature in FEATURES for module in every_module(feature) for value in vars(module).values()):
        if isinstance(value, Lifecycle):
            assert found.setdefault(value.noun, value) is value, f"two tables for one noun: {value.noun}"
    return found


def reachable(life: Lifecycle[Any]) -> set[StrEnum]:
    """The states that verbs lead to from the first, breadth first."""
    seen: set[StrEnum] = {life.first}
    edge = [life.first]
    while edge:
        edge = [to for (state, _), to in life.moves.items() if state in edge and to not in seen]
        seen |= set(edge)
    return seen
