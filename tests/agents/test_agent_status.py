"""When an agent can make a request again, of all that may keep it from one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tests.builders import HOUR, MINUTE, NOW, a_circuit, an_agent

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_status import AgentDetails, FullReason, Window
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
