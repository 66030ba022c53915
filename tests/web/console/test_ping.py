"""The button that pings the receiver: its answer is shown at once."""

from __future__ import annotations

from .conftest import Console


async def test_the_receivers_answer_to_a_ping_is_shown_to_an_administrator(console: Console) -> None:
    service = console.world.service
    assert 'action="/outbox/ping"' in (await console.admin.see("/outbox")).text
    assert 'action="/outbox/ping"' not in (await console.viewer.see("/outbox")).text
    assert "The receiver answered 200 after 0 ms" in (await console.admin.send("/outbox/ping")).words
    assert (await console.viewer.send("/outbox/ping")).status == 403
    service.receiver = None
    assert "PRODUCT_SERVER_URL is not set" in (await console.admin.send("/outbox/ping")).words
