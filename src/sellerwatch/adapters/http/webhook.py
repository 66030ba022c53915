"""Alerts to a webhook, in the JSON that Slack and compatible services accept."""

from __future__ import annotations

import logging

import aiohttp

from sellerwatch.adapters.http.proxy import OutboundProxy, way_through
from sellerwatch.oversight.alerts import Alert, LogAlerts

log = logging.getLogger(__name__)

SECONDS = 5.0


class WebhookAlerts:
    """Posts `{"text": ...}` and logs the alert as well, so that it is not lost when the webhook is down."""

    def __init__(self, url: str, proxy: OutboundProxy | None = None) -> None:
        self._url = url
        self._through = way_through(proxy, url)
        self._log = LogAlerts()

    async def send(self, alert: Alert) -> None:
        await self._log.send(alert)
        body = {"text": alert.text, "kind": alert.kind, "subject": alert.subject, "at": alert.at.isoformat()}
        try:
            timeout = aiohttp.ClientTimeout(total=SECONDS)
            # A redirect would carry the alert to an address that was not configured.
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self._url, json=body, **self._through, allow_redirects=False) as answer,
            ):
                if answer.status >= 300:
                    log.warning("the alert webhook refused", extra={"status": answer.status})
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("the alert webhook cannot be reached", extra={"problem": type(error).__name__})
