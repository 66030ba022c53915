"""`sellerwatch outbox resend` and `sellerwatch resends`: delivered events, sent again."""

from __future__ import annotations

from tests.builders import NOW, a_resend, outbox_id, task_id

from sellerwatch.outbox.resend import ResendStatus

from .cli_world import ONE, CliWorld, CrawledProducts
from .conftest import refused

NOBODYS = task_id(9)


def test_a_resend_is_counted_asked_for_shown_and_cancelled(world: CliWorld) -> None:
    shop = CrawledProducts(world, 3)
    shop.crawl()
    before = world.everything()
    assert "No events were chosen" in refused(world("outbox", "resend"), 2)
    assert "not both" in refused(world("outbox", "resend", NOBODYS, "--all-delivered"), 2)
    assert NOBODYS in refused(world("outbox", "resend", NOBODYS), 1)
    assert "must be a positive whole number" in refused(world("outbox", "resend", "--item", "one"), 2)
    assert "No delivered event" in refused(world("outbox", "resend", "--since", "2099-01-01"), 1)
    assert "No resend was ever asked for" in world.said("resends", "list")
    assert "3 events would be sent again" in world.said("outbox", "resend", "--seller", ONE, "--dry-run")
    assert world.everything() == before
    started = world.json("outbox", "resend", "--item", str(shop.items[0]))
    assert (started["messages"], started["bySeller"], started["dryRun"]) == (1, {ONE: 1}, False)
    resend = started["resendId"]
    assert world.json("resends", "show", resend)["itemNo"] == shop.items[0]
    assert "0 / 1" in world.said("resends", "show", resend)
    assert "No event was answered yet" in world.said("resends", "answers", resend)
    assert resend in world.said("resends", "list", "--status", "RUNNING")
    assert "Nothing was changed" in world.said("resends", "cancel", resend, "--dry-run")
    assert "The resend is cancelled" in world.said("resends", "cancel", resend)
    assert f"There is no resend {NOBODYS}" in refused(world("resends", "show", NOBODYS), 1)
    assert [entry.action for entry in world.trail()] == ["resend.cancel", "resend.start"]
    given_up = a_resend(status=ResendStatus.FAILED, problem="answered 500: no", ended_at=NOW)
    world.do(lambda tx: tx.resends.add(given_up))
    shown = world.said("resends", "show", given_up.resend_id)
    assert "Given up: the receiver accepted nothing of it for hours." in shown
    assert "answered 500: no" in shown
    world.failed_message(7)
    assert "only a delivered one is sent again" in refused(world("outbox", "resend", outbox_id(7)), 1)
