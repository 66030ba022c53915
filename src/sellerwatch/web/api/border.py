"""What every request passes before a route sees it: a cap on its body, and headers on whatever is answered.

Plain ASGI, because it must see bodies before the framework reads them into memory.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sellerwatch.kernel.errors import TooLarge
from sellerwatch.web.api.errors import refusal

LARGEST_BODY = 1_000_000

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "strict-transport-security": "max-age=31536000",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class BodyTooLarge(TooLarge):
    """More than any request of ours needs."""


class Border:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        stated = request.headers.get("content-length", "0")
        body, whole = b"", False
        if stated.isdigit() and int(stated) <= LARGEST_BODY:
            body, whole = await _read(receive)
        if not whole:
            await refusal(request, BodyTooLarge())(scope, receive, send_with_headers)
            return
        await self._app(scope, _again(body, receive), send_with_headers)


async def _read(receive: Receive) -> tuple[bytes, bool]:
    """The body, as long as it is not too large; a stated length may be a lie."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"", True
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > LARGEST_BODY:
            return b"", False
        if not message.get("more_body"):
            return b"".join(parts), True


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once more; then whatever comes after it."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again
