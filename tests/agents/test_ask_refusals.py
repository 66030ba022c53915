"""What a single question is told when no agent can ask it."""

from __future__ import annotations

from tests.builders import NOW, SECOND

from sellerwatch.agents.ask import _not_lent
from sellerwatch.agents.breaker import Breaker
from sellerwatch.agents.lending import Gate, Offer
from sellerwatch.kernel.failure import FailureCode

OPEN_GATE = Gate(Breaker(), None, None, None)


def test_without_any_token_there_was_no_session_and_no_time_to_wait_for() -> None:
    refused = _not_lent(Offer(OPEN_GATE), has_tried=True, now=NOW)
    assert (refused.failure.code, refused.not_before) == (FailureCode.NO_SESSION, None)


def test_with_every_agent_busy_the_time_of_the_next_is_named() -> None:
    refused = _not_lent(Offer(OPEN_GATE, not_before=NOW + 30 * SECOND), has_tried=True, now=NOW)
    assert (refused.failure.code, refused.not_before) == (FailureCode.NO_FREE_AGENT, NOW + 30 * SECOND)
    assert dict(refused.failure.facts) == {"seconds": 30.0}
