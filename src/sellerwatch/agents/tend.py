"""Looking after the pool: who has rested comes back."""

from __future__ import annotations

import logging
from datetime import datetime

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.ports import AgentsTx
from sellerwatch.kernel.errors import SellerwatchError

log = logging.getLogger(__name__)


def recover_rested(tx: AgentsTx, now: datetime) -> int:
    """Suspended agents whose own time is over. One that cannot recover never stops the pass for the others."""
    back: dict[int, Agent] = {}
    for row, agent in tx.agents.rested(now).items():
        try:
            back[row] = agent.recover(now)
        except SellerwatchError:
            log.exception("an agent cannot recover", extra={"agent": agent.user_agent_id})
    tx.agents.save(back)
    return len(back)
