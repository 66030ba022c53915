"""Who a request comes from: a header says so only if a trusted proxy sent it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sellerwatch.access.logins import network
from sellerwatch.web.api.app import make_app
from sellerwatch.web.api.proxies import ForwardedMiddleware, TrustedProxies

from .api_world import ApiWorld
from .caller import Api

TRUSTED = TrustedProxies("10.0.0.0/8, 2001:db8::1")


@pytest.mark.parametrize(
    ("peer", "given", "client"),
    [
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.1.2.3", ["198.51.100.1"], "198.51.100.1"),
        ("2001:db8::1", ["198.51.100.1, 10.9.9.9"], "198.51.100.1"),
        ("10.1.2.3", ["made up, 203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        ("10.1.2.3", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        ("10.1.2.3", ["made up"], "10.1.2.3"),
        ("10.1.2.3", ["198.51.100.1, made up"], "10.1.2.3"),
        ("10.1.2.3", ["", "198.51.100.1:80"], "10.1.2.3"),
        ("10.1.2.3", ["::ffff:198.51.100.1"], "198.51.100.1"),
    ],
)
def test_the_caller_is_the_last_address_that_no_trusted_proxy_has(peer: str, given: list[str], client: str) -> None:
    assert TRUSTED.client_of(peer, given) == client


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("x", "x"),
    ],
)
def test_an_ipv4_address_inside_an_ipv6_one_counts_as_itself(address: str, counted: str) -> None:
    assert network(address) == counted


@pytest.mark.parametrize(("trusted", "answers"), [("", [200, 429, 429]), ("127.0.0.1", [200, 200, 429])])
async def test_callers_behind_a_trusted_proxy_have_a_rate_of_their_own(
    world: ApiWorld, trusted: str, answers: list[int]
) -> None:
    settings = world.parts.settings.model_copy(update={"trusted_proxies": trusted, "api_requests_per_minute": 1})
    api = Api(make_app(replace(world.parts, settings=settings)), world.viewer.token)
    callers = ("198.51.100.1", "198.51.100.2", "198.51.100.1")
    given = [await api.ask("GET", "/api/v1/sellers", headers={"x-forwarded-for": caller}) for caller in callers]
    assert [reply.status for reply in given] == answers


@pytest.mark.parametrize(("peer", "scheme"), [("10.1.2.3", "https"), ("192.0.2.1", "http")])
async def test_the_scheme_is_believed_from_a_trusted_proxy_alone(peer: str, scheme: str) -> None:
    """It decides whether cookies are for HTTPS alone."""
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["scheme"])

    headers = [(b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "scheme": "http", "client": (peer, 1), "headers": headers}
    await ForwardedMiddleware(app, TrustedProxies("10.0.0.0/8"))(scope, None, None)  # type: ignore[arg-type]
    assert seen == [scheme]
