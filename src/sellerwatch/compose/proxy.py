"""The proxy on the way out, by the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sellerwatch.settings.model import Settings

if TYPE_CHECKING:
    from sellerwatch.adapters.http.proxy import OutboundProxy


def outbound_proxy(settings: Settings) -> OutboundProxy | None:
    if settings.https_proxy is None:
        return None
    from sellerwatch.adapters.http.proxy import OutboundProxy  # noqa: PLC0415 - only with a proxy

    return OutboundProxy(settings.https_proxy.get_secret_value(), settings.no_proxy)
