"""Authorization: dependencies of the routes. A route without one of them is open to everybody."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from sellerwatch.kernel.errors import Unauthenticated
from sellerwatch.operations.session import OperationSession
from sellerwatch.web.api.authentication import caller_of_token
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.credentials import Caller, CallerKind, NotLoggedIn, Role
from sellerwatch.web.api.cursors import DryRun
from sellerwatch.web.api.errors import language_of
from sellerwatch.web.sessions import COOKIE, cookie_name, follower_of, read

bearer = HTTPBearer(
    auto_error=False,
    bearerFormat="JWT",
    description="From POST /api/v1/auth/login, or `sellerwatch auth token --role admin`.",
)
api_key = APIKeyHeader(name="X-API-Key", auto_error=False, description="One of SELLERWATCH_INTERNAL_API_KEYS.")


def is_signed(request: Request) -> bool:
    """Return whether a credential of ours comes with a request, as far as its signature says: without the database."""
    parts = parts_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    with suppress(Unauthenticated):
        if scheme.lower() == "bearer":
            parts.credentials.read(token.strip(), parts.clock.now())
        elif "x-api-key" in request.headers:
            parts.credentials.check_key(request.headers["x-api-key"])
        else:
            read(parts, request)
        return True
    return False


async def _caller(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> Caller:
    if given is None:
        raise NotLoggedIn
    return await caller_of_token(parts_of(request), given.credentials)


async def caller_of(request: Request) -> Caller | None:
    """Return the owner of a token on a route that needs none; an invalid token is refused there too."""
    given = await bearer(request)
    return None if given is None else await caller_of_token(parts_of(request), given.credentials)


async def _follower(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> Caller:
    """Accept a token, or the cookie of the console: the event stream is the only API route that takes the cookie."""
    if given is None and cookie_name(request, COOKIE) in request.cookies:
        return await follower_of(request, parts_of(request))
    return await _caller(request, given)


async def still_follows(request: Request) -> None:
    """Refuse a token or log-in that became invalid since."""
    await _follower(request, await bearer(request))


async def _admin(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
    caller.must_be(Role.ADMIN)
    return caller


async def _internal(request: Request, given: Annotated[str | None, Depends(api_key)]) -> Caller:
    parts_of(request).credentials.check_key(given)
    return Caller("internal", Role.ADMIN, kind=CallerKind.KEY)


async def _watcher(
    request: Request,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    key: Annotated[str | None, Depends(api_key)],
) -> Caller:
    return await _internal(request, key) if key is not None else await _caller(request, given)


async def _viewer_session(request: Request, caller: Annotated[Caller, Depends(_caller)]) -> OperationSession:
    return parts_of(request).session(caller.actor, language_of(request))


async def _admin_session(request: Request, caller: Annotated[Caller, Depends(_admin)]) -> OperationSession:
    return parts_of(request).session(caller.actor, language_of(request))


async def _dry_run_session(
    session: Annotated[OperationSession, Depends(_admin_session)], dry_run: DryRun = False
) -> OperationSession:
    return session.with_dry_run(dry_run)


#: Commands and queries of a caller who is logged in.
ViewerSession = Annotated[OperationSession, Depends(_viewer_session)]
#: Commands and queries of an administrator.
AdminSession = Annotated[OperationSession, Depends(_admin_session)]
#: Commands for administrators, which `?dryRun=true` runs without keeping what they do.
DryRunSession = Annotated[OperationSession, Depends(_dry_run_session)]
#: A monitor: it has a token, or one of the internal keys.
Watcher = Annotated[Caller, Depends(_watcher)]
#: A caller who follows the event stream, with a token or from the console.
Follower = Annotated[Caller, Depends(_follower)]
#: A caller who is logged in.
Viewer = Annotated[Caller, Depends(_caller)]
#: An administrator.
Admin = Annotated[Caller, Depends(_admin)]
#: The external scheduler.
Internal = Annotated[Caller, Depends(_internal)]
