"""What every request passes before a route sees it: a cap on its body, and headers on whatever is answered.

Plain ASGI, because it must see bodies before the framework reads them into memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sellerwatch.access.logins import network
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.errors import SellerwatchError, TooLarge, TooManyRequests, Unavailable
from sellerwatch.web.api.bodies import FORM, again, check_body, check_form
from sellerwatch.web.api.errors import broken, options, refusal

LARGEST_BODY = 1_000_000
#: The largest body without a valid credential: a log-in needs a few hundred bytes.
LARGEST_UNKNOWN_BODY = 65_536
MOST_CLIENTS = 10_000
#: Seconds after which a caller may come back, where a 503 does not say it.
RETRY_AFTER = 5
#: In the state of a request whose connection is beyond the limits of `web/connections.py`.
OVER_LIMIT = "over_limit"

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "strict-transport-security": "max-age=31536000",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class BodyTooLarge(TooLarge):
    """More than any request of ours needs, or more than one without a valid credential may send."""


@dataclass(eq=False)
class TooManyCalls(TooManyRequests):
    """A client that asks faster than the setting allows."""

    seconds: float

    @property
    def retry_after(self) -> float:  # type: ignore[override]
        return self.seconds


class TooManyConnections(Unavailable):
    """More connections than API_CONNECTIONS, or API_CONNECTIONS_PER_ADDRESS from one address."""

    retry_after: float | None = 5.0


class RateAllowance:
    """How often each client may still ask: a bucket that refills over a minute. Clients not heard of longest are
    forgotten first, which gives them a full bucket: the cap on memory is worth that."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._full, self._clock = float(per_minute), clock
        self._left: dict[str, tuple[float, float]] = {}

    def spend(self, client: str) -> float | None:
        """None: it may ask. Else after how many seconds it may again."""
        now = self._clock.monotonic()
        left, at = self._left.pop(client, (self._full, now))
        left = min(self._full, left + (now - at) * self._full / 60)
        self._left[client] = (max(0.0, left - 1) if left >= 1 else left, now)
        if len(self._left) > MOST_CLIENTS:
            del self._left[next(iter(self._left))]
        return None if left >= 1 else (1 - left) * 60 / self._full


class RequestGuard:
    """The outermost layer: whatever happens inside, what leaves is an answer in our shape with our headers."""

    def __init__(self, app: ASGIApp, allowance: RateAllowance, is_signed: Callable[[Request], bool]) -> None:
        self._app = app
        self._allowance = allowance
        self._is_signed = is_signed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, headed = False, scope["method"] == "HEAD"
        # The server goes by the method it was sent, the routes by the one they have.
        inner = {**scope, "method": "GET"} if headed else scope

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                scope.update({name: inner[name] for name in ("endpoint", "path_params") if name in inner})
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if message["status"] == 503:
                    headers.setdefault("retry-after", str(RETRY_AFTER))
            if not headed or message["type"] == "http.response.start":
                await send(message)

        request = Request(scope)
        try:
            body = await self._admit(request, receive)
            if body is None:
                return
            if scope["method"] == "OPTIONS":
                await options(request)(scope, receive, send_with_headers)
                return
            # A caller of HEAD has gone by the time a stream has something to send.
            await self._app(inner, again(body, _gone if headed else receive), send_with_headers)
        except SellerwatchError as error:
            await refusal(request, error)(scope, receive, send_with_headers)
        except Exception as error:
            # Beyond this layer the framework would answer, without the headers.
            if begun:
                raise
            await (await broken(request, error))(scope, receive, send_with_headers)
        finally:
            if headed and begun:
                await send({"type": "http.response.body", "body": b""})

    async def _admit(self, request: Request, receive: Receive) -> bytes | None:
        """The body of a request that may pass; None for one that broke off."""
        if not _is_for_monitors(request.scope["path"]):
            if request.scope.get("state", {}).get(OVER_LIMIT):
                raise TooManyConnections
            wait = self._allowance.spend(network(request.client.host) if request.client else "")
            if wait is not None:
                raise TooManyCalls(round(wait, 3))
        stated = request.headers.get("content-length", "0")
        if not (stated.isascii() and stated.isdigit() and len(stated) < 16):
            raise BodyTooLarge
        may_be_large = int(stated) > LARGEST_UNKNOWN_BODY or "transfer-encoding" in request.headers
        largest = LARGEST_BODY if may_be_large and self._is_signed(request) else LARGEST_UNKNOWN_BODY
        if int(stated) > largest:
            raise BodyTooLarge
        body = await _read(receive, largest)
        if body:
            # The API takes JSON only: a form is what a page of another site could send.
            is_form = request.headers.get("content-type", "").partition(";")[0].strip() == FORM
            check = check_form if is_form and not request.scope["path"].startswith("/api/") else check_body
            check(body)
        return body


def _is_for_monitors(path: str) -> bool:
    """Return whether a path answers also while everything else is full."""
    return path == "/metrics" or path.startswith("/actuator/health")


async def _gone() -> Message:
    return {"type": "http.disconnect"}


async def _read(receive: Receive, largest: int) -> bytes | None:
    """The body, as long as it is not too large; a stated length may be a lie. None where it broke off."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > largest:
            raise BodyTooLarge
        if not message.get("more_body"):
            return b"".join(parts)
