"""`sellerwatch marketplace`: pause, resume and status, for people and for scripts."""

from __future__ import annotations

import pytest
from tests.agents.outages import answer_503
from tests.builders import NOW

from sellerwatch.agents.marketplace_circuit import Endpoint

from .cli_world import SELLER, CliWorld
from .conftest import refused


def test_a_pause_of_everything_holds_until_it_is_resumed(office: CliWorld) -> None:
    assert "sellerwatch marketplace resume" in office.said("marketplace", "pause")
    assert "are already paused, by cli:" in refused(office("marketplace", "pause"), 1)
    found = office.json("marketplace", "status")
    assert (found["paused"], found["pausedBy"].startswith("cli:")) == (True, True)
    assert "All requests are paused by cli:" in office.said("marketplace", "status")
    assert office.json("marketplace", "resume")["paused"] is False
    assert "nothing to resume" in refused(office("marketplace", "resume"), 1)
    resumed, paused = office.trail()
    assert (paused.action, resumed.action) == ("marketplace.pause", "marketplace.resume")
    assert "Nothing is paused." in office.said("marketplace", "status")


def test_a_seller_is_paused_and_resumed_alone(office: CliWorld) -> None:
    office.register()
    assert f"resume --seller {SELLER}" in office.said("marketplace", "pause", "--seller", SELLER)
    assert f"seller {SELLER} are already paused" in refused(office("marketplace", "pause", "--seller", SELLER), 1)
    found = office.json("marketplace", "status")
    assert (found["paused"], [each["sellerId"] for each in found["sellers"]]) == (False, [SELLER])
    assert f"Requests for {SELLER} are paused by cli:" in office.said("marketplace", "status")
    assert "to the marketplace are not paused" in refused(office("marketplace", "resume"), 1)
    assert office.said("marketplace", "resume", "--seller", SELLER) == (
        "Resumed: running services go on within a second.\n"
    )
    assert office.json("marketplace", "status")["sellers"] == []


def test_a_dry_run_shows_what_would_be_paused_and_changes_nothing(office: CliWorld) -> None:
    before = office.everything()
    assert "All requests are paused by cli:" in office.said("marketplace", "pause", "--dry-run")
    would = office.json("marketplace", "pause", "--dry-run")
    assert (would["paused"], would["dryRun"]) == (True, True)
    assert office.everything() == before
    office.said("marketplace", "pause")
    assert office.json("marketplace", "resume", "--dry-run")["paused"] is False
    assert office.json("marketplace", "status")["paused"] is True


def test_resuming_one_says_what_is_still_paused(office: CliWorld) -> None:
    office.register()
    office.json("marketplace", "pause")
    office.json("marketplace", "pause", "--seller", SELLER)
    assert "All requests are paused by" in office.said("marketplace", "resume", "--seller", SELLER)


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_seller_that_does_not_exist_changes_nothing(office: CliWorld, verb: str) -> None:
    before = office.everything()
    assert "no seller nobody" in refused(office("marketplace", verb, "--seller", "nobody"), 1)
    refused(office("marketplace", verb, "--seller", ""), 2)
    assert office.everything() == before


def test_an_endpoint_that_does_not_answer_is_shown_with_its_cause_and_its_next_probe(office: CliWorld) -> None:
    office.do(lambda tx: answer_503(tx, Endpoint.DETAIL, NOW))
    circuits = {each["endpoint"]: each for each in office.json("marketplace", "status")["circuits"]}
    assert {name: each["state"] for name, each in circuits.items()} == {
        "list": "CLOSED",
        "detail": "OPEN",
        "options": "CLOSED",
        "token": "CLOSED",
    }
    assert circuits["detail"]["failure"]["code"] == "SERVER_ERROR"
    (line,) = (line for line in office.said("marketplace", "status").splitlines() if line.startswith("detail"))
    assert "OPEN" in line
    assert line.endswith("The marketplace answered 503: an error on its side.")
    korean = office("marketplace", "status", LANGUAGE="ko")
    assert "마켓플레이스 응답 503: 서버 오류입니다." in korean.stdout
