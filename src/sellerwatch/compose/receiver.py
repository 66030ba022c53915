"""Open the product server: aiohttp is imported only to deliver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from sellerwatch.compose.proxy import outbound_proxy
from sellerwatch.outbox.ports import EventReceiver
from sellerwatch.settings.model import Settings


@asynccontextmanager
async def open_receiver(settings: Settings, given: EventReceiver | None = None) -> AsyncIterator[EventReceiver | None]:
    """Open the product server of the settings until the block ends; None where no address is set. One that is `given`
    is used instead, and not closed."""
    if given is not None or settings.product_server_url is None:
        yield given
        return
    from sellerwatch.adapters.http.product_server import HttpReceiver  # noqa: PLC0415 - see above

    secret = settings.product_server_secret
    receiver = HttpReceiver(
        settings.product_server_url,
        secret.get_secret_value() if secret else None,
        longest_wait=timedelta(seconds=settings.max_retry_after_seconds),
        proxy=outbound_proxy(settings),
    )
    try:
        yield receiver
    finally:
        await receiver.close()
