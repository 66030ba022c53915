"""robots.txt: off, warn or obey; looked at when a run starts, and once a day."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem
from sellerwatch.marketplaces.robots import Robots, RobotsForbid

NOW = datetime(2026, 11, 15, tzinfo=UTC)
PATHS = ("/mustit-api/facade-api/v1/item/1/detail/top", "/mustit-api/legacy-api/v1/auction_products/1/options")
DISALLOW = b"User-agent: *\nDisallow: /mustit-api/legacy-api/\n"


class Site:
    """A site with (or without) a robots.txt; counts how often it was asked."""

    def __init__(self, body: bytes | None, status: int = 200) -> None:
        self._body, self._status, self.asked = body, status, 0

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        assert url == "https://shop.example/robots.txt"
        self.asked += 1
        if self._body is None:
            raise TransportFailed(TransportProblem.UNREACHABLE)
        return Reply(self._status, (), self._body)


def robots(site: Site, mode: str) -> Robots:
    return Robots(site, "https://shop.example", PATHS, mode)


async def test_who_obeys_refuses_what_is_disallowed_and_names_it() -> None:
    with pytest.raises(RobotsForbid, match="auction_products"):
        await robots(Site(DISALLOW), "obey").allow(NOW)


async def test_who_is_warned_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await robots(Site(DISALLOW), "warn").allow(NOW)
    assert [record.getMessage() for record in caplog.records] == ["robots.txt disallows an address that a crawl needs"]


async def test_off_does_not_even_ask() -> None:
    site = Site(DISALLOW)
    await robots(site, "off").allow(NOW)
    assert site.asked == 0


@pytest.mark.parametrize("site", [Site(b"gone", 404), Site(None), Site(b"\xff\xfe rubbish"), Site(b"")])
async def test_without_one_that_can_be_read_everything_is_allowed(site: Site) -> None:
    await robots(site, "obey").allow(NOW)


async def test_it_is_looked_at_once_a_day() -> None:
    site = Site(b"")
    asked = robots(site, "obey")
    for hours in (0, 1, 23, 24, 25):
        await asked.allow(NOW + timedelta(hours=hours))
    assert site.asked == 2
