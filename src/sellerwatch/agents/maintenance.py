"""Maintenance of the pool: end suspensions whose time is over, change limits."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.agent_status import FullReason
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.ports import AgentsTx
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.errors import SellerwatchError

log = logging.getLogger(__name__)


def recover_rested(tx: AgentsTx, now: datetime) -> int:
    """End the suspensions whose time is over and return how many. An agent that cannot recover does not stop the
    others. Each gets a new token."""
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


def change_limits(tx: AgentsTx, was: Limits, wanted: Limits, at: Moment) -> None:
    """Put new limits into force. A longer window reaches back to requests that are no longer known: until those have
    left it, it counts as full."""
    tx.windows.set_limits(wanted, at)
    if wanted.window > was.window:
        tx.windows.fill(at, replace(wanted, window=wanted.window - was.window), FullReason.LONGER)
