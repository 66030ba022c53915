"""/api/v1/agents and /api/v1/user-agents/status: the agents of the pool, and what can be done with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictInt, StrictStr

from sellerwatch.agents import agent_list, budget_history, commands, open_circuits, pool_status, queries
from sellerwatch.agents.agent import LONGEST_REASON, AgentName, AgentStatus
from sellerwatch.agents.agent_list import AgentChoice, AgentListView, AgentSort
from sellerwatch.agents.budget_history import BudgetHistoryView
from sellerwatch.agents.commands import AddedAgentView, ChangedAgentsView
from sellerwatch.agents.open_circuits import OpenCircuitsView
from sellerwatch.agents.pool_status import PoolStatusView
from sellerwatch.agents.queries import AgentDetailView
from sellerwatch.agents.recount import RecountedView
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.operations.recount import recount_pool
from sellerwatch.web.api.authorization import DryRunSession, ViewerSession
from sellerwatch.web.api.cursors import MOST_NAMED, Since, Until, utc
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/agents", tags=["agents"], route_class=ViewRoute)
status_router = APIRouter(prefix="/user-agents", tags=["agents"], route_class=ViewRoute)

LONGEST_SUSPENSION = 365 * 86400

AgentPath = Annotated[
    str, Path(alias="agent", min_length=1, max_length=100, description="Its number, or its UUID.", examples=["17"])
]


class AddAgentBody(RequestModel):
    user_agent: StrictStr = Field(examples=["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"])


class AgentsBody(RequestModel):
    """Agents by their numbers or UUIDs."""

    agents: list[StrictStr] = Field(min_length=1, max_length=MOST_NAMED, examples=[["17", "18"]])


class SuspendBody(AgentsBody):
    seconds: StrictInt | None = Field(
        None, ge=1, le=LONGEST_SUSPENSION, description="Left out: AGENT_SUSPENSION_SECONDS."
    )
    reason: StrictStr | None = Field(None, min_length=1, max_length=LONGEST_REASON, examples=["checking a complaint"])


class BlockBody(AgentsBody):
    reason: StrictStr = Field(min_length=1, max_length=LONGEST_REASON, examples=["the marketplace complained"])


@status_router.get("/status")
async def show_pool_status(session: ViewerSession) -> PoolStatusView:
    """How the pool is: who is available, health, what budget is left, circuits, the breaker, and the 429s."""
    return await session.ask(pool_status.pool_status, session.pool)


@router.get("")
async def list_agents(
    session: ViewerSession,
    status: Annotated[AgentStatus | None, Query()] = None,
    circuit: Annotated[CircuitState | None, Query()] = None,
    sort: Annotated[AgentSort, Query()] = AgentSort.NUMBER,
    since: Since = None,
    until: Until = None,
    limited: Annotated[bool, Query(description="Only agents that were answered 429 in the time.")] = False,
    limit: Annotated[int | None, Query(ge=1, le=1000, description="At most this many.")] = None,
) -> AgentListView:
    """Agents: health, budget used in the window, circuit, token's age, why one cannot work, its requests in a time."""
    choice = AgentChoice(status, circuit, sort, utc(since), utc(until), limited=limited, limit=limit)
    return await session.ask(agent_list.list_agents, session.pool, choice)


@router.get("/circuits")
async def list_open_circuits(session: ViewerSession) -> OpenCircuitsView:
    """Circuits that are not closed: since when, until when, and after which failures."""
    return await session.ask(open_circuits.list_open_circuits, session.pool)


@router.get("/budget")
async def show_budget(session: ViewerSession) -> BudgetHistoryView:
    """The budget that is used and left: now, and every quarter of an hour of the last day."""
    return await session.ask(budget_history.budget_history, session.pool)


@router.post("", status_code=201, responses=refusals(409))
async def add_agent(body: AddAgentBody, session: DryRunSession) -> AddedAgentView:
    """Add an agent to the pool. It gets its token when work waits for it."""
    return await session.run(commands.add_agent, session.pool, body.user_agent)


@router.post("/remove")
async def remove_agents(body: AgentsBody, session: DryRunSession) -> ChangedAgentsView:
    """Remove agents from the pool for good. Their requests stay in the usage log."""
    return await session.run(commands.remove_agents, session.pool, body.agents)


@router.post("/suspend")
async def suspend_agents(body: SuspendBody, session: DryRunSession) -> ChangedAgentsView:
    """Suspend agents for a time, after which they are available again. A suspension that ends later already stays."""
    length = None if body.seconds is None else timedelta(seconds=body.seconds)
    return await session.run(commands.suspend_agents, session.pool, body.agents, length, body.reason)


@router.post("/recover")
async def recover_agents(body: AgentsBody, session: DryRunSession) -> ChangedAgentsView:
    """End suspensions early and close the agents' circuits. Each agent gets a new token."""
    return await session.run(commands.recover_agents, body.agents)


@router.post("/block")
async def block_agents(body: BlockBody, session: DryRunSession) -> ChangedAgentsView:
    """Block agents until a person unblocks them."""
    return await session.run(commands.block_agents, body.agents, body.reason)


@router.post("/unblock")
async def unblock_agents(body: AgentsBody, session: DryRunSession) -> ChangedAgentsView:
    """Make blocked agents available again and close their circuits."""
    return await session.run(commands.unblock_agents, body.agents)


@router.post("/recount")
async def recount_agents(session: DryRunSession) -> RecountedView:
    """Count what each agent may still ask from its requests in the window, and repair what differs."""
    return await recount_pool(session)


@router.post("/rotate")
async def rotate_tokens(body: AgentsBody, session: DryRunSession) -> ChangedAgentsView:
    """Throw the tokens of agents away. New ones are issued when work waits for these agents."""
    return await session.run(commands.rotate_tokens, body.agents)


@router.get("/{agent}", responses=refusals(404))
async def show_agent(agent: AgentPath, session: ViewerSession) -> AgentDetailView:
    """One agent: what it did in the last hour, why it cannot work, and when it is back."""
    return await session.ask(queries.show_agent, session.pool, AgentName.parse(agent))
