"""Why no request is made although agents are available: their own circuits are open, or their windows are used up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.ports import StoredAgent
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure, FailureCode


def why_no_agent(agents: Sequence[StoredAgent], now: datetime) -> Failure | None:
    """Return why none of the available agents can be asked; None while one can, and where none is available."""
    available = _available(agents)
    may_ask = [each for each in available if not _has_open_circuit(each, now)]
    if not available or any(each.slots_left > 0 for each in may_ask):
        return None
    return Failure.of(FailureCode.BUDGET_USED_UP, now) if may_ask else open_circuits(agents, now)[1]


def open_circuits(agents: Sequence[StoredAgent], now: datetime) -> tuple[int, Failure]:
    """Return how many available agents have a circuit that lets no request through, and that as a failure."""
    available = _available(agents)
    shut = [each.circuit for each in available if _has_open_circuit(each, now)]
    next_at = min((at for at in (circuit.probe_at() for circuit in shut) if at is not None), default=now)
    seconds = max(1, round((next_at - now).total_seconds()))
    facts = {"open": len(shut), "available": len(available), "seconds": seconds}
    return len(shut), Failure.of(FailureCode.AGENT_CIRCUITS_OPEN, now, None, **facts)


def _available(agents: Sequence[StoredAgent]) -> list[StoredAgent]:
    return [each for each in agents if each.agent.status is AgentStatus.AVAILABLE]


def _has_open_circuit(stored: StoredAgent, now: datetime) -> bool:
    return stored.circuit.state is not CircuitState.CLOSED and not stored.circuit.may_probe(now)
