"""POSTs with an Idempotency-Key: a layer around all of them, so that no route has to think of it.

Whoever has no valid credential is let through to be refused by the route. Log-ins are left out: their answers are
secrets, and asking twice does no harm. The rules are `access/idempotency.py`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sellerwatch.access import idempotency
from sellerwatch.access.idempotency import Claim, KeptAnswer
from sellerwatch.kernel.errors import Unauthenticated
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.bodies import again
from sellerwatch.web.api.credentials import NotLoggedIn

if TYPE_CHECKING:
    from sellerwatch.web.api.context import Parts

log = logging.getLogger(__name__)

HEADER = "idempotency-key"
REPLAYED = "Idempotency-Replayed"
OPEN = "/api/v1/auth/"
#: What of an answer belongs to it; the rest is put on every one anew.
KEPT_HEADERS = ("content-type", "content-language", "location", "retry-after")
#: Nobody's: whatever it held was cut off.
NOBODY = WorkerId("00000000-0000-0000-0000-000000000000")


class Once:
    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app, self._parts = app, parts
        self._at_work: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        claim = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["path"].startswith(OPEN):
            request = Request(scope, receive)
            key, caller = request.headers.get(HEADER), self._caller(request)
            if key is not None and caller is not None:
                body = await request.body()
                claim, receive = self._claim(request, caller, key, body), again(body, receive)
        if claim is None:
            await self._app(scope, receive, send)
            return
        parts, now = self._parts, self._parts.clock.now()
        silent_after, at_work = parts.service.crawl.visibility, frozenset(self._at_work)
        self._at_work.add(claim.claim_id)
        try:
            kept = await parts.service.store.transact(
                lambda tx: idempotency.claim(tx, claim, now, silent_after, at_work)
            )
            if kept is not None:
                await _replay(kept)(scope, receive, send)
            else:
                await self._work(claim, scope, receive, send)
        finally:
            self._at_work.discard(claim.claim_id)

    async def _work(self, claim: Claim, scope: Scope, receive: Receive, send: Send) -> None:
        """The answer is kept before it is sent: whoever has seen it can have it again."""
        said: list[Message] = []

        async def listen(message: Message) -> None:
            said.append(message)

        try:
            await self._app(scope, receive, listen)
        except BaseException:
            await self._give_up(claim)
            raise
        start, body = said[0], b"".join(each.get("body", b"") for each in said[1:])
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
        kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
        keep = partial(_keep, claim=claim, status=start["status"], headers=kept, body=body, now=self._parts.clock.now())
        await self._parts.service.store.transact(keep)
        for message in said:
            await send(message)

    async def _give_up(self, claim: Claim) -> None:
        """It broke in the middle: nobody works on it any more, and nobody knows what it did. Where not even that can be
        written, this process knows that it is not at work on it, and others learn it when this one is gone."""
        try:
            await self._parts.service.store.transact(partial(_let_go, claim=claim, now=self._parts.clock.now()))
        except Exception:
            log.exception("a request that broke could not be noted")

    def _claim(self, request: Request, caller: str, key: str, body: bytes) -> Claim:
        scope = request.scope
        fingerprint = idempotency.fingerprint_of(scope["path"], scope["query_string"], body)
        worker_id = self._parts.service.crawl.worker_id
        return Claim(idempotency.key_of(caller, key), fingerprint, self._parts.ids.new(), worker_id)

    def _caller(self, request: Request) -> str | None:
        """Whose key it is; the route itself looks closer."""
        credentials = self._parts.credentials
        try:
            if request.scope["path"].startswith("/api/internal/"):
                credentials.check_key(request.headers.get("x-api-key"))
                return "internal"
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer":
                raise NotLoggedIn
            return credentials.read(token.strip(), self._parts.clock.now()).actor
        except Unauthenticated:
            return None


def _keep(tx: ServiceTx, claim: Claim, status: int, headers: dict[str, str], body: bytes, now: datetime) -> None:
    idempotency.keep(tx, claim, status, headers, body, now)


def _let_go(tx: ServiceTx, claim: Claim, now: datetime) -> None:
    tx.answers.free(claim)
    tx.answers.claim(replace(claim, worker_id=NOBODY), now)


def _replay(kept: KeptAnswer) -> Response:
    return Response(kept.body, kept.status or 500, {**kept.headers, REPLAYED: "true"})
