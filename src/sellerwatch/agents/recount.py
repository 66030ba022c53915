"""Count what agents may still ask from their permits: the permits are the truth, a bucket is derived from them.

Done when a service starts, after every migration, and when a person asks for it. A difference is repaired, and each one
is on the audit trail.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.agents.ports import PoolTx
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.oversight.audit import AuditEntry, record_audit

log = logging.getLogger(__name__)

#: What the audit trail calls a repaired bucket, and a limiter's count; `/metrics` counts both.
REPAIRED, LIMITER_REPAIRED = "agent.repair", "limiter.repair"


@dataclass(frozen=True)
class RepairedAgentView(View):
    """The free slots of an agent before and after."""

    agent_id: str
    number: int
    user_agent: str
    before: int
    after: int


@dataclass(frozen=True)
class RecountedView(View):
    """`repaired` are the agents whose budget was wrong."""

    checked: Annotated[int, About("Agents that were counted.", 100)]
    repaired: Sequence[RepairedAgentView]
    limiter_repaired: Annotated[int, About("Counts of Redis that were wrong; 0 without Redis.", 0)]
    dry_run: bool


def recount_agents(tx: PoolTx, context: OperationContext) -> RecountedView:
    """Count the free slots of every agent from its permits, and repair what differs."""
    repaired = recount_buckets(tx, context.actor, context.now)
    return RecountedView(tx.agents.tally()[1], repaired, 0, context.dry_run)


def record_limiter_repairs(tx: PoolTx, context: OperationContext, number: int) -> None:
    """Record that counts of the limiter were wrong and are repaired."""
    note_limiter_repairs(tx, context.actor, number, context.now)


def recount_buckets(tx: PoolTx, actor: str, now: datetime) -> Sequence[RepairedAgentView]:
    """Repair the buckets that disagree with the permits, and return them."""
    # Locked first, in the order of lending: nothing is lent meanwhile.
    tx.circuits.breaker()
    wrong = tx.windows.recount()
    agents = tx.agents.get_rows([each.agent_row for each in wrong]) if wrong else {}
    repaired = []
    for each in wrong:
        agent = agents.get(each.agent_row)
        if agent is None:
            continue
        values: tuple[dict[str, int], dict[str, int]] = {"slotsLeft": each.before}, {"slotsLeft": each.after}
        record_audit(tx, AuditEntry(now, actor, REPAIRED, "agent", agent.user_agent_id, *values))
        repaired.append(
            RepairedAgentView(agent.user_agent_id, each.agent_row, agent.user_agent, each.before, each.after)
        )
    return repaired


def note_limiter_repairs(tx: PoolTx, actor: str, number: int, now: datetime) -> None:
    """Put counts of the limiter that were repaired on the audit trail."""
    record_audit(tx, AuditEntry(now, actor, LIMITER_REPAIRED, "limiter", "redis", after={"repaired": number}))


def log_repairs(agents: int, limiter: int = 0) -> None:
    """Say in the log what was wrong; after the transaction that repaired it."""
    if agents or limiter:
        log.warning("budgets were wrong and are repaired", extra={"agents": agents, "limiter": limiter})
