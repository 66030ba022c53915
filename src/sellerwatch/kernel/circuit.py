"""The states of a circuit: one table for all of them, whatever it is that a circuit stops asking."""

from __future__ import annotations

from enum import StrEnum

from sellerwatch.kernel.lifecycle import Lifecycle


class CircuitState(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


CIRCUIT_LIFE = Lifecycle(
    noun="circuit",
    first=CircuitState.CLOSED,
    moves={
        (CircuitState.CLOSED, "open"): CircuitState.OPEN,
        (CircuitState.OPEN, "half_open"): CircuitState.HALF_OPEN,
        (CircuitState.HALF_OPEN, "half_open"): CircuitState.HALF_OPEN,
        (CircuitState.HALF_OPEN, "open"): CircuitState.OPEN,
        (CircuitState.HALF_OPEN, "close"): CircuitState.CLOSED,
        (CircuitState.OPEN, "close"): CircuitState.CLOSED,
    },
    resting=frozenset(),
)
