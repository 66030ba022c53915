"""When an agent can make a request again, of all that may keep it from one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.builders import HOUR, MINUTE, NOW, a_circuit, an_agent

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_list import AgentChoice
from sellerwatch.agents.agent_status import AgentDetails, FullReason, Window
from sellerwatch.agents.ports import AgentUsage
from sellerwatch.kernel.circuit import CircuitState

FREE = Window(used=3, limit=80, free_at=NOW + MINUTE, full_until=None)
USED_UP = Window(used=80, limit=80, free_at=NOW + MINUTE, full_until=None)
FULL = Window(used=3, limit=80, free_at=NOW + MINUTE, full_until=NOW + 2 * HOUR, full_reason=FullReason.RESTORED)
OPEN = a_circuit(state=CircuitState.OPEN, opened_at=NOW)
RESTS = {"status": AgentStatus.SUSPENDED, "suspended_at": NOW, "suspended_until": NOW + HOUR}


@pytest.mark.parametrize(
    ("agent", "circuit", "window", "back_at"),
    [
        ({}, a_circuit(), FREE, None),
        ({}, a_circuit(), USED_UP, NOW + MINUTE),
        ({}, a_circuit(), FULL, NOW + 2 * HOUR),
        ({}, OPEN, FREE, NOW + 10 * MINUTE),
        (RESTS, a_circuit(), FREE, NOW + HOUR),
        (RESTS, OPEN, FREE, NOW + HOUR),
        ({"status": AgentStatus.BLOCKED}, a_circuit(), USED_UP, None),
    ],
)
def test_an_agent_is_back_when_the_last_thing_that_keeps_it_is_over(
    agent: dict[str, Any], circuit: Any, window: Window, back_at: datetime | None
) -> None:
    details = AgentDetails(1, an_agent(**agent), circuit, window, NOW, NOW + HOUR, NOW + HOUR, 0, 0, None)
    assert details.back_at(NOW) == back_at


@pytest.mark.parametrize(
    ("issued", "expires", "age"),
    [
        (None, None, "none"),
        (None, NOW + HOUR, "none"),
        (NOW, None, "none"),
        (NOW - HOUR, NOW, "expired"),
        (NOW - 9 * MINUTE, NOW + HOUR, "under10Minutes"),
        (NOW - timedelta(days=2), NOW + HOUR, "older"),
    ],
)
def test_the_age_of_a_token_has_a_name(issued: datetime | None, expires: datetime | None, age: str) -> None:
    details = AgentDetails(1, an_agent(), a_circuit(), FREE, issued, expires, None, 0, 0, None)
    assert details.token_age(NOW) == age


@pytest.mark.parametrize(
    ("choice", "is_all"),
    [
        (AgentChoice(), True),
        (AgentChoice(status=AgentStatus.BLOCKED), False),
        (AgentChoice(circuit=CircuitState.OPEN), False),
        (AgentChoice(limited=True), False),
    ],
)
def test_a_choice_without_a_condition_is_of_all_agents(choice: AgentChoice, *, is_all: bool) -> None:
    assert choice.is_all is is_all


def test_an_agent_that_made_no_request_has_no_use() -> None:
    assert AgentUsage() == AgentUsage(requests=0, failed=0, too_many=0, last_too_many_at=None)
