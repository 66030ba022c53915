"""Who a request comes from. Headers about that are believed only if one of TRUSTED_PROXIES sent them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


class TrustedProxies:
    """The proxies in front of us, as addresses and networks separated by commas."""

    def __init__(self, text: str) -> None:
        self._networks: list[Network] = [
            ipaddress.ip_network(each.strip(), strict=False) for each in text.split(",") if each.strip()
        ]

    def includes(self, address: str) -> bool:
        parsed = _address(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def client_of(self, peer: str, forwarded_for: Iterable[str]) -> str:
        """Return the address of the caller: the last one that no trusted proxy has, as far as the entries are
        addresses. Entries before that may be made up."""
        client = peer
        for entry in reversed([part.strip() for line in forwarded_for for part in line.split(",")]):
            parsed = _address(entry)
            if parsed is None or not self.includes(client):
                break
            client = str(parsed)
        return client


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address; one of IPv4 inside IPv6 as what it is."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed


class ForwardedMiddleware:
    """Put the caller's address and scheme into the scope, as a trusted proxy states them."""

    def __init__(self, app: ASGIApp, trusted: TrustedProxies) -> None:
        self._app, self._trusted = app, trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if scope["type"] == "http" and client and self._trusted.includes(client[0]):
            given = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
            address = self._trusted.client_of(client[0], (v for name, v in given if name == b"x-forwarded-for"))
            schemes = [value.strip().lower() for name, value in given if name == b"x-forwarded-proto"]
            scope = {**scope, "client": (address, 0)}
            if schemes[-1:] in (["http"], ["https"]):
                scope["scheme"] = schemes[-1]
        await self._app(scope, receive, send)
