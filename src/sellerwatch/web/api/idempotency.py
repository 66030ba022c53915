"""POST requests with an Idempotency-Key: a middleware around all routes.

A request without a valid credential is passed on, and the route refuses it. Log-ins and routes about users are left
out: their bodies and responses are secrets. The rules are in `access/idempotency.py`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sellerwatch.access import idempotency
from sellerwatch.access.idempotency import KeyClaim, StoredResponse
from sellerwatch.kernel.errors import Unauthenticated
from sellerwatch.web.api.authentication import caller_of_token
from sellerwatch.web.api.bodies import again
from sellerwatch.web.api.credentials import NotLoggedIn

if TYPE_CHECKING:
    from sellerwatch.web.api.context import Parts

log = logging.getLogger(__name__)

HEADER = "idempotency-key"
REPLAYED = "Idempotency-Replayed"
#: Paths whose requests are never stored.
EXEMPT = ("/api/v1/auth/", "/api/v1/users")
#: The headers that are stored with a response; all others are made for each response.
STORED_HEADERS = ("content-type", "content-language", "location", "retry-after")


class IdempotencyMiddleware:
    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app, self._parts = app, parts
        self._in_progress: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        claim = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["path"].startswith(EXEMPT):
            request = Request(scope, receive)
            key = request.headers.get(HEADER)
            caller = None if key is None else await self._caller(request)
            if key is not None and caller is not None:
                body = await request.body()
                claim, receive = self._claim(request, caller, key, body), again(body, receive)
        if claim is None:
            await self._app(scope, receive, send)
            return
        parts, in_progress = self._parts, frozenset(self._in_progress)
        self._in_progress.add(claim.claim_id)
        try:
            stored = await parts.quiet_session().run(
                idempotency.claim_key, claim, parts.service.crawl.visibility, in_progress
            )
            if stored is not None:
                await _replay(stored)(scope, receive, send)
            else:
                await self._handle(claim, scope, receive, send)
        finally:
            self._in_progress.discard(claim.claim_id)

    async def _handle(self, claim: KeyClaim, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request, and store the response before it is sent: who has seen it can get it again."""
        messages: list[Message] = []

        async def record(message: Message) -> None:
            messages.append(message)

        try:
            await self._app(scope, receive, record)
        except BaseException:
            await self._abandon(claim)
            raise
        start, body = messages[0], b"".join(each.get("body", b"") for each in messages[1:])
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
        stored = {name: headers[name] for name in STORED_HEADERS if name in headers}
        await self._parts.quiet_session().run(idempotency.store_response, claim, start["status"], stored, body)
        for message in messages:
            await send(message)

    async def _abandon(self, claim: KeyClaim) -> None:
        """Record that the request broke half-way. If that cannot be written, this process still knows that it does not
        handle the claim, and other processes see it when this one is gone."""
        try:
            await self._parts.quiet_session().run(idempotency.abandon_key, claim)
        except Exception:
            log.exception("a request that broke could not be recorded")

    def _claim(self, request: Request, caller: str, key: str, body: bytes) -> KeyClaim:
        scope = request.scope
        fingerprint = idempotency.fingerprint_of(scope["path"], scope["query_string"], body)
        worker_id = self._parts.service.crawl.worker_id
        return KeyClaim(idempotency.key_of(caller, key), fingerprint, self._parts.ids.new(), worker_id)

    async def _caller(self, request: Request) -> str | None:
        """Return whose key it is. One whose log-in ended gets no stored response: the route refuses it."""
        try:
            if request.scope["path"].startswith("/api/internal/"):
                self._parts.credentials.check_key(request.headers.get("x-api-key"))
                return "internal"
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer":
                raise NotLoggedIn
            return (await caller_of_token(self._parts, token.strip())).actor
        except Unauthenticated:
            return None


def _replay(stored: StoredResponse) -> Response:
    return Response(stored.body, stored.status or 500, {**stored.headers, REPLAYED: "true"})
