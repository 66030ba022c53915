"""The page Outbox: what the receiver does not accept, and the buttons for it."""

from __future__ import annotations

from tests.builders import NOW, SELLER, a_refused_seller, a_resend

from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.resend import ResendStatus

from .conftest import Console


async def test_a_refused_seller_is_named_and_tried_at_once_by_a_button(console: Console) -> None:
    world = console.world
    await world.transact(lambda tx: tx.seller_circuits.save([a_refused_seller()], NOW))
    page = await console.viewer.see("/outbox")
    assert "The product server accepts no events of this seller, but those of others:" in page.words
    assert f"{SELLER} answered 500: no" in page.words
    assert "Resume outbox" not in page.words, "viewers change nothing"
    page = await console.admin.see("/outbox")
    assert "Resume outbox" in page.words
    assert 'href="/outbox/pause?kind=product"' in page.text, "all events can be stopped meanwhile"
    assert "The outbox is sending again." in (await console.admin.send("/outbox/resume", kind="product")).words
    circuits = await world.read(lambda tx: tx.seller_circuits.of(OutboxKind.PRODUCT))
    assert circuits[SELLER].not_before == NOW
    await world.transact(lambda tx: tx.seller_circuits.save([a_refused_seller().accepted(NOW)], NOW))
    assert "accepts no events of this seller" not in (await console.viewer.see("/outbox")).words


async def test_a_resend_that_was_given_up_says_why(console: Console) -> None:
    given_up = a_resend(status=ResendStatus.FAILED, problem="answered 500: no", ended_at=NOW)
    await console.world.transact(lambda tx: tx.resends.add(given_up))
    page = await console.viewer.see(f"/resends/{given_up.resend_id}")
    assert "Given up: the receiver accepted nothing of it for hours." in page.words
    assert "Last problem: answered 500: no" in page.words
