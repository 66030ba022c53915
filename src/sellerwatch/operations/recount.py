"""Recount the pool: the database's buckets in one transaction, then the limiter, which may be another server."""

from __future__ import annotations

from dataclasses import replace

from sellerwatch.agents.recount import RecountedView, record_limiter_repairs, recount_agents
from sellerwatch.operations.session import OperationSession


async def recount_pool(session: OperationSession) -> RecountedView:
    """Count what each agent may still ask from its permits, in the database and in Redis, and repair what differs."""
    recounted = await session.run(recount_agents)
    if session.dry_run:
        return recounted
    repaired = await session.recount_limiter()
    if repaired:
        await session.run(record_limiter_repairs, repaired)
    return replace(recounted, limiter_repaired=repaired)
