"""What goes out through a proxy: a tunnel to the host, TLS inside it, and never a secret in what is said about it."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs
from tests.adapters.http.loopback_proxy import LoopbackProxy, answering, listening
from tests.adapters.http.test_transport import at_home, certificate
from tests.adapters.http.test_webhook import an_alert
from tests.builders import NOW, a_message
from tests.cli.conftest import clean_environment

from sellerwatch.adapters.http.product_server import HttpReceiver
from sellerwatch.adapters.http.proxy import OutboundProxy
from sellerwatch.adapters.http.transport import HttpTransport
from sellerwatch.adapters.http.webhook import WebhookAlerts
from sellerwatch.compose.service import _network
from sellerwatch.marketplaces.ports import TransportFailed, TransportProblem
from sellerwatch.settings.load import load

#: A name that only the proxy knows: who gets an answer from there has come through it.
HOST = "market.test"
USER = "who:hunter two/é"
QUOTED = "who:hunter%20two%2F%C3%A9"


@dataclass
class Outside:
    """A host behind a proxy. `port` leads to it without the proxy, but under no name that its certificate has."""

    proxy: LoopbackProxy
    address: str
    heads: list[bytes]
    tls: ssl.SSLContext
    certificate: Path
    port: int

    def way(self, user: str = f"{QUOTED}@", not_for: str = "") -> OutboundProxy:
        return OutboundProxy(f"http://{user}{self.address}", not_for)


@pytest.fixture(scope="module")
def its_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls"), HOST)


@pytest.fixture
async def outside(its_certificate: Path) -> AsyncIterator[Outside]:
    async with answering(at_home(its_certificate)) as (port, heads):
        proxy = LoopbackProxy({f"{HOST}:443": port, f"{HOST}:8443": port}, password=USER)
        async with listening(proxy) as address:
            trusting = ssl.create_default_context(cafile=str(its_certificate))
            yield Outside(proxy, address, heads, trusting, its_certificate, port)


async def failing(way: OutboundProxy, url: str = f"https://{HOST}/", tls: ssl.SSLContext | None = None) -> str:
    async with HttpTransport(tls=tls, proxy=way) as transport:
        with pytest.raises(TransportFailed) as failed:
            await transport.get(url, {"Authorization": "Bearer very-secret"})
    assert failed.value.problem is TransportProblem.UNREACHABLE
    return failed.value.detail


async def test_requests_go_through_a_tunnel_that_is_kept_and_the_proxy_sees_no_token(outside: Outside) -> None:
    headers = {"Authorization": "Bearer very-secret"}
    async with HttpTransport(tls=outside.tls, proxy=outside.way()) as transport:
        for path in ("/a?b=c", "/d"):
            assert (await transport.get(f"https://{HOST}{path}", headers)).status == 204
        assert (await transport.get(f"https://{HOST}:8443/", headers)).status == 204
        assert transport.connections == 2
    assert [head.split(b" ")[1] for head in outside.heads] == [b"/a?b=c", b"/d", b"/"]
    assert outside.proxy.targets == [f"{HOST}:443", f"{HOST}:8443"]
    assert "very-secret" not in str(outside.proxy.asked)
    assert b"proxy-authorization" not in b"".join(outside.heads).lower()


async def test_identities_share_no_tunnel(outside: Outside) -> None:
    async with HttpTransport(tls=outside.tls, proxy=outside.way()) as transport:
        for agent in ("one", "two"):
            await transport.get(f"https://{HOST}/", {"User-Agent": agent})
    assert outside.proxy.targets == [f"{HOST}:443"] * 2


async def test_a_certificate_is_checked_inside_the_tunnel(outside: Outside) -> None:
    """The proxy could answer for the host."""
    assert await failing(outside.way()) == "its certificate is not trusted"
    assert outside.heads == []


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"HTTP/1.1 403 Forbidden by hunter2\r\n\r\n", "the proxy answered 403"),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://elsewhere.test/\r\n\r\n", "the proxy answered 301"),
        (b"SSH-2.0-x\r\n\r\n", "the proxy's answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n", "the proxy's answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\nsmuggled", "the proxy's answer is not HTTP"),
        (b"x" * 70_000, "the proxy's answer is not HTTP"),
        (b"", "the proxy's answer is not HTTP"),
    ],
)
async def test_a_proxy_that_does_not_open_is_said_with_its_answer_alone(answer: bytes, detail: str) -> None:
    proxy = LoopbackProxy({}, answer=answer)
    async with listening(proxy) as address:
        assert await failing(OutboundProxy(f"http://{address}")) == detail
    assert proxy.targets == [f"{HOST}:443"]


async def test_a_password_that_the_proxy_refuses_is_not_repeated(outside: Outside) -> None:
    assert await failing(outside.way("who:hunter3@")) == "the proxy answered 407"
    receiver = HttpReceiver(f"https://{HOST}/", proxy=outside.way("who:hunter3@"))
    receipt = await receiver.deliver(structs.replace(a_message(), payload=b"{}"), NOW)
    await receiver.close()
    assert "the proxy answered 407" in repr(receipt)
    assert "hunter3" not in repr(receipt) + repr(outside.way("who:hunter3@"))


async def test_a_proxy_that_is_gone_is_unreachable() -> None:
    assert await failing(OutboundProxy("http://who:hunter2@127.0.0.1:1")) == "the proxy cannot be reached"


async def test_a_proxy_that_is_silent_costs_no_more_than_the_time_to_connect() -> None:
    gone = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    async with server:
        way = OutboundProxy(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with HttpTransport(connect_seconds=0.2, proxy=way) as transport:
            with pytest.raises(TransportFailed) as failed:
                await transport.get(f"https://{HOST}/", {})
            assert (failed.value.problem, failed.value.detail) == (TransportProblem.TIMEOUT, "while connecting")
            await gone.wait()
            assert transport.connections == 0


@pytest.mark.parametrize(
    ("address", "not_for", "expected"),
    [
        ("https://market.test/x", "", True),
        ("https://market.test:8443/x", "", True),
        ("http://market.test/x", "", False),
        ("https://market.test/x", "*", False),
        ("https://market.test/x", "other.test, market.test", False),
        ("https://m.market.test/x", "market.test", False),
        ("https://m.market.test/x", ".market.test", False),
        ("https://supermarket.test/x", "market.test", True),
        ("https://market.test:8443/x", "market.test:8443", False),
        ("https://market.test:8444/x", "market.test:8443", True),
        ("https://10.0.0.7/x", "10.0.0.7", False),
    ],
)
def test_which_addresses_are_asked_through_it(address: str, not_for: str, expected: bool) -> None:
    assert OutboundProxy("http://proxy.test:3128", not_for).is_for(address) is expected


async def test_an_address_it_is_not_for_is_asked_directly(outside: Outside) -> None:
    way = outside.way(not_for="127.0.0.1")
    assert await failing(way, f"https://127.0.0.1:{outside.port}/") == "its certificate is not trusted"
    assert outside.proxy.asked == []


async def test_alerts_go_through_it(outside: Outside, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await WebhookAlerts(f"https://{HOST}/hook", outside.way("who:hunter3@")).send(an_alert("one"))
        await WebhookAlerts(f"https://{HOST}/hook", outside.way()).send(an_alert("two"))
    assert outside.proxy.targets == [f"{HOST}:443"] * 2
    # Nobody trusts the certificate of the host here; the tunnel was opened for who knows the password.
    assert [record.getMessage() for record in caplog.records].count("the alert webhook cannot be reached") == 2
    assert "hunter" not in caplog.text + str([vars(record) for record in caplog.records])


async def test_events_go_through_the_proxy_of_the_environment(outside: Outside, tmp_path: Path) -> None:
    settings = {"DATABASE_URL": "sqlite:///x.db", "PRODUCT_SERVER_URL": f"https://{HOST}/events"}
    environment = clean_environment(**settings) | {
        "HTTPS_PROXY": f"http://{QUOTED}@{outside.address}",
        "NO_PROXY": "other.test",
        "SSL_CERT_FILE": str(outside.certificate),
    }
    for arguments in (("db", "upgrade"), ("outbox", "ping", "--json")):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sellerwatch", *arguments),
            cwd=tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said
    assert outside.proxy.targets == [f"{HOST}:443"]
    assert [head.split(b"\r\n")[0] for head in outside.heads] == [b"POST /events HTTP/1.1"]


async def test_the_marketplace_is_asked_through_the_proxy_of_the_settings(outside: Outside) -> None:
    settings = load({"SELLERWATCH_HTTPS_PROXY": outside.way().url, "SELLERWATCH_DATABASE_URL": "sqlite://"}).settings
    async with _network(settings, None, None) as (transport, _):
        with pytest.raises(TransportFailed) as failed:
            await transport.get(f"https://{HOST}/", {})
    assert failed.value.detail == "its certificate is not trusted"
    assert outside.proxy.targets == [f"{HOST}:443"]
