"""Resends at the console: asked for after a preview in numbers, followed, cancelled."""

from __future__ import annotations

from tests.web.api_world import ONE

from .conftest import Console


async def test_a_resend_is_previewed_asked_for_and_cancelled(console: Console) -> None:
    await console.world.crawled(3)
    [event, *_] = (await console.world.viewer.get("/api/v1/outbox")).json["content"]
    assert 'href="/outbox/resend?' in (await console.admin.see("/outbox")).text
    of_one = f"/outbox/resend?event_id={event['outboxId']}"
    assert f'href="{of_one}"' in (await console.admin.see(f"/outbox/{event['outboxId']}")).text
    assert "1 event is sent again." in (await console.admin.see(of_one)).words
    seen = await console.admin.see(f"/outbox/resend?seller={ONE}&since=2020-01-01T00:00")
    assert "3 events are sent again." in seen.words
    started = await console.admin.send("/outbox/resend", seller=ONE)
    assert started.path.startswith("/resends/")
    assert "3 events are going to be sent again." in started.words
    assert "0 of 3" in started.words
    assert started.path in (await console.viewer.see("/resends")).text
    assert "Cancel this resend?" in (await console.admin.see(f"{started.path}/cancel")).words
    assert "The resend is cancelled" in (await console.admin.send(f"{started.path}/cancel")).words
    assert (await console.viewer.see("/outbox/resend")).status == 403
    nothing = await console.admin.send("/outbox/resend", item="1")
    assert (nothing.status, "No delivered event" in nothing.words) == (409, True)
