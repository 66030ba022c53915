"""Crawlee at the job, tuned: its impit client, everything in memory, no sessions, retries or periodic statistics."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import uvloop
from benchmarks.others import job
from crawlee import ConcurrencySettings, Request, service_locator
from crawlee.crawlers import HttpCrawler
from crawlee.http_clients import ImpitHttpClient
from crawlee.statistics import Statistics
from crawlee.storage_clients import MemoryStorageClient

IN_FLIGHT = 64


async def crawl(url: str, shop: job.Shop) -> None:
    headers = job.sign_in(url)
    service_locator.set_storage_client(MemoryStorageClient())
    crawler: Any = HttpCrawler(
        http_client=ImpitHttpClient(http3=False),
        concurrency_settings=ConcurrencySettings(
            desired_concurrency=IN_FLIGHT, min_concurrency=IN_FLIGHT, max_concurrency=IN_FLIGHT
        ),
        max_request_retries=0,
        retry_on_blocked=False,
        use_session_pool=False,
        configure_logging=False,
        statistics=Statistics.with_default_state(log_interval=timedelta(hours=1), save_error_snapshots=False),
    )

    def asking(path: str, label: str, **given: Any) -> Request:
        return Request.from_url(url + path, headers=headers, label=label, user_data=given)

    @crawler.router.handler("page")  # type: ignore[untyped-decorator]
    async def page(context: Any) -> None:
        items = shop.page(await context.http_response.read())
        number = context.request.user_data["number"]
        wanted = [asking(job.list_path(number + 1), "page", number=number + 1)] if items else []
        for item_no in items:
            wanted.append(asking(job.detail_path(item_no), "DETAIL", item=item_no))
            wanted.append(asking(job.options_path(item_no), "OPTION", item=item_no))
        await context.add_requests(wanted)

    async def part(context: Any) -> None:
        shop.part(context.request.user_data["item"], context.request.label, await context.http_response.read())

    crawler.router.handler("DETAIL")(part)
    crawler.router.handler("OPTION")(part)
    meter = job.Meter(shop.path)
    await crawler.run([asking(job.list_path(0), "page", number=0)], purge_request_queue=False)
    shop.flush()
    job.tell(meter.read(shop.requests))


def main() -> None:
    url, shop = job.arguments()
    logging.disable(logging.CRITICAL)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(crawl(url, shop))


if __name__ == "__main__":
    main()
