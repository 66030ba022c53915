"""Circuits that are not closed: since when, until when, and after which failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.agents.agent_status import CircuitEventView
from sellerwatch.agents.limits import PoolRules
from sellerwatch.agents.ports import PoolTx
from sellerwatch.agents.queries import limits_in_force
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View


@dataclass(frozen=True)
class OpenCircuitView(View):
    """A circuit that is open, or half open while one request finds out whether it may close."""

    agent_id: str
    number: Annotated[int, About(example=17)]
    user_agent: str
    state: CircuitState
    since: Annotated[datetime | None, About("When it opened.")]
    until: Annotated[datetime | None, About("When the next request finds out whether it may close.")]
    failures: Annotated[Sequence[CircuitEventView], About("The failures that opened it, newest first.")]


@dataclass(frozen=True)
class OpenCircuitsView(View):
    """Those that opened last come first."""

    content: Sequence[OpenCircuitView]


def list_open_circuits(tx: PoolTx, context: OperationContext, rules: PoolRules) -> OpenCircuitsView:
    """List the circuits that are not closed, with the failures that opened each."""
    agents = tx.pool_report.standings(context.moment, limits_in_force(tx, rules))
    opened = [each for each in agents if each.circuit.state is not CircuitState.CLOSED]
    opened.sort(key=lambda each: (each.circuit.opened_at or context.now, -each.row), reverse=True)
    return OpenCircuitsView(
        [
            OpenCircuitView(
                agent_id=each.agent.user_agent_id,
                number=each.row,
                user_agent=each.agent.user_agent,
                state=each.circuit.state,
                since=each.circuit.opened_at,
                until=each.circuit.probe_at(),
                failures=tx.pool_report.failures_until(
                    each.row, each.circuit.opened_at or context.now, each.circuit.threshold
                ),
            )
            for each in opened
        ]
    )
