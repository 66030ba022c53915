"""Scrapy at the job, tuned hard: no middlewares, extensions, retries, cookies, statistics or log; uvloop; answers are
stored where they arrive instead of travelling through an item pipeline.

CONCURRENT_ITEMS is the trap: it is how many of a callback's requests are handled at once, and the larger it is the
slower a callback with a thousand of them gets; 1 is best here, the default of 100 costs twice the CPU, 1,000 an order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from benchmarks.others import job
from scrapy.crawler import CrawlerProcess
from scrapy.settings import default_settings

NOTHING = dict.fromkeys(
    (
        *default_settings.DOWNLOADER_MIDDLEWARES_BASE,
        *default_settings.SPIDER_MIDDLEWARES_BASE,
        *default_settings.EXTENSIONS_BASE,
    )
)
SETTINGS = {
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
    "CONCURRENT_ITEMS": 1,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "COOKIES_ENABLED": False,
    "DOWNLOADER_MIDDLEWARES": NOTHING,
    "DOWNLOADER_STATS": False,
    "DOWNLOAD_DELAY": 0,
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "EXTENSIONS": NOTHING,
    "LOG_ENABLED": False,
    "LOG_INSTALL_ROOT_HANDLER": False,
    "REDIRECT_ENABLED": False,
    "RETRY_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
    "SPIDER_MIDDLEWARES": NOTHING,
    "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
    "TELNETCONSOLE_ENABLED": False,
}


class Seller(scrapy.Spider):
    name = "seller"

    def __init__(self, url: str, shop: job.Shop, **rest: Any) -> None:
        super().__init__(**rest)
        self.url = url
        self.shop = shop
        self.signed_in = job.sign_in(url)
        self.measured: dict[str, float] = {}

    async def start(self) -> AsyncIterator[Any]:
        self.meter = job.Meter(self.shop.path)
        yield self.asking(job.list_path(0), self.page, 0)

    def asking(self, path: str, callback: Any, *given: Any) -> Any:
        return scrapy.Request(
            self.url + path,
            callback,
            headers=self.signed_in,
            dont_filter=True,
            cb_kwargs={"given": given},
        )

    def page(self, response: Any, given: tuple[int]) -> Iterator[Any]:
        items = self.shop.page(response.body)
        if items:
            yield self.asking(job.list_path(given[0] + 1), self.page, given[0] + 1)
        for item_no in items:
            yield self.asking(job.detail_path(item_no), self.part, item_no, "DETAIL")
            yield self.asking(job.options_path(item_no), self.part, item_no, "OPTION")

    def part(self, response: Any, given: tuple[int, str]) -> None:
        self.shop.part(*given, response.body)

    def closed(self, reason: str) -> None:
        self.shop.flush()
        job.tell(self.meter.read(self.shop.requests))


def main() -> None:
    url, shop = job.arguments()
    process = CrawlerProcess(SETTINGS)
    process.crawl(Seller, url=url, shop=shop)
    process.start()


if __name__ == "__main__":
    main()
