"""The marketplace at the console: paused and resumed after a question, and what does not answer has its cause."""

from __future__ import annotations

import pytest
from tests.agents.outages import answer_503
from tests.builders import NOW, SELLER

from sellerwatch.agents.marketplace_circuit import Endpoint

from .conftest import Console


def is_paused(console: Console) -> bool:
    return console.world.service.crawl.pause.everything


async def test_all_requests_are_paused_and_resumed_from_the_overview(console: Console) -> None:
    assert "Pause requests" in (await console.admin.see("/")).words
    asked = await console.admin.see("/marketplace/pause")
    assert "Pause all requests to the marketplace?" in asked.words
    assert not is_paused(console)
    paused = await console.admin.send("/marketplace/pause", seller="")
    assert "Requests were paused." in paused.words
    assert "Requests are paused by console:admin" in paused.words
    assert "A person paused all requests to the marketplace" in paused.words
    assert is_paused(console)
    await console.admin.see("/marketplace/resume")
    resumed = await console.admin.send("/marketplace/resume", seller="")
    assert "Requests were resumed." in resumed.words
    assert "Every endpoint answers." in resumed.words
    assert not is_paused(console)


async def test_a_sellers_requests_are_paused_and_resumed_from_its_page(console: Console) -> None:
    await console.world.register_seller()
    page = await console.admin.see(f"/sellers/{SELLER}")
    assert f'href="/marketplace/pause?seller={SELLER}"' in page.text
    asked = await console.admin.see(f"/marketplace/pause?seller={SELLER}")
    assert f"Pause requests for {SELLER}?" in asked.words
    paused = await console.admin.send("/marketplace/pause", seller=SELLER)
    assert paused.path == f"/sellers/{SELLER}"
    assert "Requests are paused by console:admin" in paused.words
    assert f'href="/marketplace/resume?seller={SELLER}"' in paused.text
    assert "A person paused the requests for 1 seller" in (await console.admin.see("/")).words
    resumed = await console.admin.send("/marketplace/resume", seller=SELLER)
    assert "Requests were resumed." in resumed.words


async def test_a_sellers_page_says_that_everything_is_paused(console: Console) -> None:
    await console.world.register_seller()
    await console.admin.see("/")
    await console.admin.send("/marketplace/pause", seller="")
    assert "All requests to the marketplace are paused." in (await console.viewer.see(f"/sellers/{SELLER}")).words


async def test_pausing_twice_leads_back_with_the_reason(console: Console) -> None:
    await console.admin.see("/")
    await console.admin.send("/marketplace/pause", seller="")
    again = await console.admin.send("/marketplace/pause", seller="", back="/")
    assert "Requests to the marketplace are already paused, by console:admin." in again.words


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_only_an_administrator_is_asked_and_may(console: Console, verb: str) -> None:
    page = await console.viewer.see("/")
    assert "Pause requests" not in page.words
    assert (await console.viewer.see(f"/marketplace/{verb}")).status == 403
    assert (await console.viewer.send(f"/marketplace/{verb}", seller="")).status == 403
    assert (await console.admin.see(f"/marketplace/{verb}?seller=nobody")).status == 404


async def test_an_endpoint_that_does_not_answer_is_on_the_overview_in_both_languages(console: Console) -> None:
    await console.world.transact(lambda tx: answer_503(tx, Endpoint.DETAIL, NOW))
    english = (await console.viewer.see("/")).words
    assert "1 endpoint of the marketplace does not answer" in english
    assert "product detail open The marketplace answered 503: an error on its side. now in 30 s" in english
    await console.viewer.send("/preferences", language="ko", back="/")
    korean = (await console.viewer.see("/")).words
    assert "상품 상세 열림 마켓플레이스 응답 503: 서버 오류입니다." in korean
