"""Looking after the pool: who has rested comes back, a new day begins, old lines of the log go."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.ports import AgentsTx
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.errors import SellerwatchError

log = logging.getLogger(__name__)

#: Lines of the log that one transaction forgets at most.
BATCH = 1000


def recover_rested(tx: AgentsTx, now: datetime) -> int:
    """Suspended agents whose own time is over come back, and get a new token. One that cannot recover never stops the
    pass for the others."""
    back: dict[int, Agent] = {}
    for row, agent in tx.agents.rested(now).items():
        try:
            back[row] = agent.recover(now)
        except SellerwatchError:
            log.exception("an agent cannot recover", extra={"agent": agent.user_agent_id})
    tx.agents.save(back)
    if back:
        tx.tokens.drop(list(back))
    return len(back)


def forget_old_uses(tx: AgentsTx, kept: timedelta, now: datetime) -> int:
    return tx.usage_log.forget_uses(now - kept, BATCH)


def change_limits(tx: AgentsTx, was: Limits, wanted: Limits, at: Moment) -> None:
    """New limits from now on. A longer window would reach back to requests that were forgotten under the shorter one:
    until those are out of its reach, it counts as full."""
    tx.windows.set_limits(wanted, at)
    if wanted.window > was.window:
        tx.windows.fill(at, replace(wanted, window=wanted.window - was.window))
