"""Serving the API and the console in the process and on the event loop of the service."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from sellerwatch.access import logins, queries
from sellerwatch.compose.keys import internal_api_keys, jwt_secret
from sellerwatch.kernel.errors import Failed, SellerwatchError
from sellerwatch.web.api.app import make_app
from sellerwatch.web.api.context import Parts
from sellerwatch.web.api.credentials import Credentials
from sellerwatch.web.api.errors import refusal
from sellerwatch.web.api.proxies import TrustedProxies
from sellerwatch.web.api.request_guard import HEADERS
from sellerwatch.web.connections import BoundedConnection, BoundedState, ConnectionCounts
from sellerwatch.web.sessions import COOKIE_KEYS, DEVICE_KEYS, FORM_KEYS

if TYPE_CHECKING:
    from sellerwatch.service.service import Service
    from sellerwatch.settings.model import Settings

#: How many seconds requests may still take after a stop.
GRACE = 3
BACKLOG = 2048


@dataclass(eq=False)
class PortUnusable(Failed):
    """The API cannot listen on the configured address."""

    address: str
    problem: str


class _Server(uvicorn.Server):
    """Signals belong to the command that serves, not to the server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def credentials_of(settings: Settings) -> Credentials:
    own = {
        COOKIE_KEYS: settings.cookie_secret,
        DEVICE_KEYS: settings.cookie_secret,
        FORM_KEYS: settings.form_secret,
    }
    return Credentials(
        secret=jwt_secret(settings),
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        api_keys=internal_api_keys(settings),
        secret_for={purpose: secret.get_secret_value() for purpose, secret in own.items() if secret is not None},
    )


@dataclass(frozen=True)
class Serving:
    """Where the API listens; on the first start also the random password of the first user."""

    address: str
    first_password: str | None = field(default=None, repr=False)


async def first_user(parts: Parts, *, must_change: bool = True) -> str | None:
    """Add the user `admin` where there are no users yet: with ADMIN_PASSWORD, or with a random password.

    A random password is returned, to be shown once; it is a one-time password if `must_change`.
    """
    session = parts.session("setup", parts.settings.language)
    if (await session.ask(queries.list_users)).content:
        return None
    configured = parts.settings.admin_password
    password = secrets.token_urlsafe(12) if configured is None else configured.get_secret_value()
    hashed, change = await parts.passwords.hash(password), configured is None and must_change
    added = await session.run(logins.add_first_user, hashed, change)
    return password if added is not None and configured is None else None


@contextlib.asynccontextmanager
async def api_of(
    service: Service, settings: Settings, *, must_change: bool = True, origins: Mapping[str, str] | None = None
) -> AsyncIterator[Serving]:
    """Serve the API and the console while the block runs. Fails before anything starts where the port is taken."""
    listening = _listen(settings.host, settings.port)
    parts = Parts(service, settings, credentials_of(settings), origins=origins or {})
    password = await first_user(parts, must_change=must_change)
    app = make_app(parts)

    def refuse(error: SellerwatchError, headers: Sequence[tuple[bytes, bytes]]) -> Response:
        response = refusal(Request({"type": "http", "app": app, "path": "", "headers": list(headers)}), error)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        # Who a caller is says TRUSTED_PROXIES, not a default that trusts every local process.
        proxy_headers=False,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )
    server = _Server(config)
    trusted = TrustedProxies(settings.trusted_proxies)
    counts = ConnectionCounts(settings.api_connections, settings.api_connections_per_address, trusted)
    server.server_state = BoundedState(counts, refuse)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    host, port = listening.getsockname()[:2]
    try:
        yield Serving(f"http://{f'[{host}]' if ':' in host else host}:{port}", password)
    finally:
        # Open streams end first: the server would wait for them.
        app.state.stream.close()
        server.should_exit = True
        await serving


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # From here on connections wait until the server accepts them.
        listening.listen(BACKLOG)
    except OSError as error:
        problem = error.strerror or str(error)
        raise PortUnusable(address=f"{host}:{port}", problem=problem) from None
    return listening
