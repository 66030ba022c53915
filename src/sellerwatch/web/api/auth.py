"""/api/v1/auth: get a token for a name and a password, and see who a token belongs to.

A wrong password and an unknown user get the same answer after the same work. A token is invalid as soon as its log-in
is ended, or its user is removed or gets another password or role.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictStr

from sellerwatch.access import commands, queries
from sellerwatch.access.login_sessions import LoggedIn, LoginKind
from sellerwatch.access.logins import LoginAttempt
from sellerwatch.access.queries import LoginSessionsView, LoginSessionView
from sellerwatch.access.users import LONGEST_PASSWORD, Role, user_name
from sellerwatch.kernel.ids import LoginSessionId
from sellerwatch.kernel.views import About, View
from sellerwatch.operations import users
from sellerwatch.web import sessions
from sellerwatch.web.api.authorization import Viewer, ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.credentials import Caller, CallerKind
from sellerwatch.web.api.cursors import DryRun
from sellerwatch.web.api.errors import language_of, refusals
from sellerwatch.web.api.models import RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/auth", tags=["auth"], route_class=ViewRoute)


class LoginBody(RequestModel):
    user: StrictStr = Field(max_length=200, examples=["admin"])
    password: StrictStr = Field(max_length=LONGEST_PASSWORD, examples=["correct horse battery staple"], repr=False)


class ChangePasswordBody(LoginBody):
    new_password: StrictStr = Field(max_length=LONGEST_PASSWORD, examples=["another horse, another staple"], repr=False)


@dataclass(frozen=True)
class LoginView(View):
    """A token. Send it as `Authorization: Bearer ...`."""

    token: Annotated[str, About(example="eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9...")] = field(repr=False)
    expires_at: datetime
    user: str
    role: Role
    session_id: Annotated[str, About("Names the log-in, to end it.")]
    token_type: str = "Bearer"  # noqa: S105 - the name of a kind


@dataclass(frozen=True)
class CallerView(View):
    """The owner of a token, and until when it is valid."""

    user: str
    role: Role
    expires_at: datetime
    session_id: Annotated[str | None, About("Names the log-in, to end it. Null: a token of a program.")]


@router.post("/login", responses=refusals(403))
async def login(body: LoginBody, request: Request) -> LoginView:
    """Get a token. After several failures each attempt must wait longer; Retry-After says how long."""
    return _login_view(request, await log_in(request, body.user, body.password, LoginKind.API))


@router.post("/password", responses=refusals(403))
async def change_password(body: ChangePasswordBody, request: Request) -> LoginView:
    """Choose another password by the old one, a one-time password included. Tokens from before are invalid."""
    kind = LoginKind.API
    return _login_view(
        request, await log_in_with_new_password(request, body.user, body.password, body.new_password, kind)
    )


@router.get("/me")
async def show_me(caller: Viewer) -> CallerView:
    """Show who the token belongs to, and until when it is valid."""
    return CallerView(caller.name, caller.role, caller.expires_at, caller.session_id)


@router.get("/sessions")
async def list_sessions(
    request: Request,
    session: ViewerSession,
    caller: Viewer,
    user: Annotated[str | None, Query(max_length=100, description="Left out: of all users.")] = None,
) -> LoginSessionsView:
    """List valid log-ins. Administrators see those of all users, others see their own."""
    owner = owner_of(caller)
    chosen = owner if owner is not None or user is None else user_name(user)
    return await session.ask(queries.list_sessions, chosen, parts_of(request).session_limits)


@router.delete("/sessions/{sessionId}", responses=refusals(404))
async def end_session(
    session: ViewerSession,
    caller: Viewer,
    session_id: Annotated[str, Path(alias="sessionId", max_length=100)],
    dry_run: DryRun = False,
) -> LoginSessionView:
    """End a log-in: its token or cookie is refused at once. Who is no administrator can end their own."""
    known = LoginSessionId.parse(session_id)
    return await session.with_dry_run(dry_run).run(commands.end_session, known, owner_of(caller))


def owner_of(caller: Caller) -> str | None:
    """Return whose log-ins a caller may see and end; None: those of all users. A token that only reads has none."""
    if caller.role is Role.ADMIN:
        return None
    return caller.name if caller.kind is CallerKind.USER else ""


async def log_in(request: Request, name: str, password: str, kind: LoginKind) -> LoggedIn:
    """Log a user in, from the API or from the console."""
    parts = parts_of(request)
    session = parts.quiet_session(language=language_of(request))
    attempt = _attempt(request, name)
    return await users.log_in(session, parts.passwords, attempt, password, kind, parts.session_limits)


async def log_in_with_new_password(
    request: Request, name: str, password: str, new_password: str, kind: LoginKind
) -> LoggedIn:
    """Log in a user who chooses another password."""
    parts = parts_of(request)
    session = parts.quiet_session(language=language_of(request))
    attempt, limits = _attempt(request, name), parts.session_limits
    return await users.log_in_with_new_password(session, parts.passwords, attempt, password, new_password, kind, limits)


def _attempt(request: Request, given: str) -> LoginAttempt:
    name, address = given.strip().lower(), request.client.host if request.client else ""
    device = sessions.device_of(parts_of(request), request, name)
    return LoginAttempt(name, address, request.headers.get("user-agent", ""), device)


def _login_view(request: Request, login: LoggedIn) -> LoginView:
    parts, user, session = parts_of(request), login.user, login.session
    lifetime = session.expires_at - session.created_at
    token = parts.credentials.issue(user.name, user.role, lifetime, session.created_at, session_id=session.session_id)
    return LoginView(token, session.expires_at.replace(microsecond=0), user.name, user.role, session.session_id)
