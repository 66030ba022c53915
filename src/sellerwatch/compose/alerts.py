"""Where alerts go, by the settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sellerwatch.compose.proxy import outbound_proxy
from sellerwatch.kernel.notices import Notice
from sellerwatch.oversight.alerts import AlertQueue, Alerts, LogAlerts
from sellerwatch.settings.model import Settings


async def send_alerts(settings: Settings, notices: Sequence[Notice], now: datetime) -> None:
    """Send the alerts of a command. They are not logged: the operator who ran it sees its result."""
    if settings.alert_webhook_url is not None:
        queue = AlertQueue(receiver_of_alerts(settings), settings.language)
        for notice in notices:
            queue.post(notice, now)
        await queue.flush()


def receiver_of_alerts(settings: Settings) -> Alerts:
    if settings.alert_webhook_url is None:
        return LogAlerts()
    from sellerwatch.adapters.http.webhook import WebhookAlerts  # noqa: PLC0415 - only with a receiver

    return WebhookAlerts(settings.alert_webhook_url.get_secret_value(), outbound_proxy(settings))
