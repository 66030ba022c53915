"""Resyncs at the console: asked for after a preview in numbers, followed, cancelled."""

from __future__ import annotations

from tests.web.api_world import ONE

from .conftest import Console


async def test_a_resync_is_previewed_asked_for_and_cancelled(console: Console) -> None:
    await console.world.crawled(3)
    assert 'href="/products/resync"' in (await console.admin.see("/products")).text
    asked = await console.admin.see(f"/products/resync?seller={ONE}&since=2020-01-01T00:00")
    assert "3 snapshots are sent." in asked.words
    started = await console.admin.send("/products/resync", seller=ONE, since="")
    assert started.path.startswith("/resyncs/")
    assert "3 snapshots are going to be sent." in started.words
    assert "0 of 3" in started.words
    again = await console.admin.send("/products/resync", seller=ONE, since="")
    assert (again.status, "is not finished" in again.words) == (409, True)
    assert started.path in (await console.viewer.see("/resyncs")).text
    assert "Cancel this resync?" in (await console.admin.see(f"{started.path}/cancel")).words
    cancelled = await console.admin.send(f"{started.path}/cancel")
    assert "The resync is cancelled" in cancelled.words
    assert (await console.viewer.see("/products/resync")).status == 403


async def test_a_choice_without_products_or_of_an_unknown_seller_is_said_on_the_page(console: Console) -> None:
    seen = await console.admin.see("/products/resync")
    assert (seen.status, "nothing to send again" in seen.words) == (409, True)
    seen = await console.admin.see("/products/resync?seller=nobody&since=soon")
    assert (seen.status, "There is no seller nobody" in seen.words) == (404, True)
