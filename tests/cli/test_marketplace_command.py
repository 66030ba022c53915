"""`sellerwatch marketplace`: pause, resume and status, for people and for scripts."""

from __future__ import annotations

import pytest
from tests.agents.outages import answer_503
from tests.builders import NOW

from sellerwatch.agents.marketplace_circuit import Endpoint

from .cli_world import SELLER, CliWorld
from .conftest import refused


def test_a_pause_of_everything_holds_until_it_is_resumed(world: CliWorld) -> None:
    assert "sellerwatch marketplace resume" in world.said("marketplace", "pause")
    assert "are already paused, by cli:" in refused(world("marketplace", "pause"), 1)
    found = world.json("marketplace", "status")
    assert (found["paused"], found["pausedBy"].startswith("cli:")) == (True, True)
    assert "All requests are paused by cli:" in world.said("marketplace", "status")
    assert world.json("marketplace", "resume")["paused"] is False
    assert "nothing to resume" in refused(world("marketplace", "resume"), 1)
    resumed, paused = world.trail()
    assert (paused.action, resumed.action) == ("marketplace.pause", "marketplace.resume")
    assert "Nothing is paused." in world.said("marketplace", "status")


def test_a_seller_is_paused_and_resumed_alone(world: CliWorld) -> None:
    world.register()
    assert f"resume --seller {SELLER}" in world.said("marketplace", "pause", "--seller", SELLER)
    assert f"seller {SELLER} are already paused" in refused(world("marketplace", "pause", "--seller", SELLER), 1)
    found = world.json("marketplace", "status")
    assert (found["paused"], [each["sellerId"] for each in found["sellers"]]) == (False, [SELLER])
    assert f"Requests for {SELLER} are paused by cli:" in world.said("marketplace", "status")
    assert "to the marketplace are not paused" in refused(world("marketplace", "resume"), 1)
    assert world.said("marketplace", "resume", "--seller", SELLER) == (
        "Resumed: running services go on within a second.\n"
    )
    assert world.json("marketplace", "status")["sellers"] == []


def test_a_dry_run_shows_what_would_be_paused_and_changes_nothing(world: CliWorld) -> None:
    before = world.everything()
    assert "All requests are paused by cli:" in world.said("marketplace", "pause", "--dry-run")
    would = world.json("marketplace", "pause", "--dry-run")
    assert (would["paused"], would["dryRun"]) == (True, True)
    assert world.everything() == before
    world.said("marketplace", "pause")
    assert world.json("marketplace", "resume", "--dry-run")["paused"] is False
    assert world.json("marketplace", "status")["paused"] is True


def test_resuming_one_says_what_is_still_paused(world: CliWorld) -> None:
    world.register()
    world.json("marketplace", "pause")
    world.json("marketplace", "pause", "--seller", SELLER)
    assert "All requests are paused by" in world.said("marketplace", "resume", "--seller", SELLER)


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_seller_that_does_not_exist_changes_nothing(world: CliWorld, verb: str) -> None:
    before = world.everything()
    assert "no seller nobody" in refused(world("marketplace", verb, "--seller", "nobody"), 1)
    refused(world("marketplace", verb, "--seller", ""), 2)
    assert world.everything() == before


def test_an_endpoint_that_does_not_answer_is_shown_with_its_cause_and_its_next_probe(world: CliWorld) -> None:
    world.do(lambda tx: answer_503(tx, Endpoint.DETAIL, NOW))
    circuits = {each["endpoint"]: each for each in world.json("marketplace", "status")["circuits"]}
    assert {name: each["state"] for name, each in circuits.items()} == {
        "list": "CLOSED",
        "detail": "OPEN",
        "options": "CLOSED",
        "token": "CLOSED",
    }
    assert circuits["detail"]["failure"]["code"] == "SERVER_ERROR"
    (line,) = (line for line in world.said("marketplace", "status").splitlines() if line.startswith("detail"))
    assert "OPEN" in line
    assert line.endswith("The marketplace answered 503: an error on its side.")
    korean = world("marketplace", "status", LANGUAGE="ko")
    assert "마켓플레이스 응답 503: 서버 오류입니다." in korean.stdout
