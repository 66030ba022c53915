"""Numbers that stand beside each other agree, after a day with trouble."""

from __future__ import annotations

from tests.simulation.outages import MINUTE, calm_settings, plan
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.agents.agent_list import AgentChoice, list_agents
from sellerwatch.agents.commands import block_agents
from sellerwatch.agents.pool_status import pool_status
from sellerwatch.compose.rules import pool_rules
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.outbox.queries import list_attempts, list_messages
from sellerwatch.simulator.chaos import FaultKind


@simulated(settings=calm_settings(), sellers=1, products=12)
async def test_tries_requests_and_rates_agree(world: ServiceWorld) -> None:
    await world.leave_agents(3)
    sellers = await world.register_all()
    async with world.serving() as service:
        plan(world, FaultKind.ERROR, MINUTE, endpoint="detail")
        await world.crawl(service, sellers)
        plan(world, FaultKind.UNAUTHORISED, MINUTE, endpoint="options", user_agent=(await world.agents())[0].user_agent)
        await world.crawl(service, sellers)
        session, rules = world.session(service), pool_rules(world.settings)
        chosen = MessageFilter(status=MessageStatus.COMPLETED)
        events = await session.ask(list_messages, OutboxKind.PRODUCT, chosen, None, 100)
        assert len(events.content) >= 12
        for event in events.content:
            tries = await session.ask(list_attempts, OutboxId(event.outbox_id), 10)
            assert event.attempts == len(tries.content) >= 1
        agents = (await session.ask(list_agents, rules, AgentChoice())).content
        assert sum(agent.usage_count for agent in agents) > 2 * 25
        assert sum(agent.other_count for agent in agents) > 0
        for agent in agents:
            assert agent.usage_count == agent.success_count + agent.failure_count + agent.other_count
        await session.run(block_agents, [agents[0].agent_id])
        status = await session.ask(pool_status, rules)
        assert (status.total_agents, status.blocked_agents, status.available_rate) == (3, 1, 66.67)
