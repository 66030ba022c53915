"""/api/v1/auth: get a token for a name and a password, and see who a token belongs to.

A wrong password and an unknown user get the same answer after the same work. A token is invalid as soon as its user is
removed or gets another password or role: it carries the version of the user it was issued for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field, StrictStr

from sellerwatch.access.logins import LoginAttempt
from sellerwatch.access.users import LONGEST_PASSWORD, Role, User
from sellerwatch.kernel.views import About, View
from sellerwatch.operations import users
from sellerwatch.web.api.authorization import Viewer
from sellerwatch.web.api.context import parts_of
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
    token_type: str = "Bearer"  # noqa: S105 - the name of a kind


@dataclass(frozen=True)
class CallerView(View):
    """The owner of a token, and until when it is valid."""

    user: str
    role: Role
    expires_at: datetime


@router.post("/login", responses=refusals(403))
async def login(body: LoginBody, request: Request) -> LoginView:
    """Get a token. After several failures each attempt must wait longer; Retry-After says how long."""
    return _login_view(request, await log_in(request, body.user, body.password))


@router.post("/password", responses=refusals(403))
async def change_password(body: ChangePasswordBody, request: Request) -> LoginView:
    """Choose another password by the old one, a one-time password included. Tokens from before are invalid."""
    user = await log_in_with_new_password(request, body.user, body.password, body.new_password)
    return _login_view(request, user)


@router.get("/me")
async def show_me(caller: Viewer) -> CallerView:
    """Show who the token belongs to, and until when it is valid."""
    return CallerView(user=caller.name, role=caller.role, expires_at=caller.expires_at)


async def log_in(request: Request, name: str, password: str) -> User:
    """Return the user who logs in, from the API or from the console."""
    parts = parts_of(request)
    session = parts.quiet_session(language=language_of(request))
    return await users.log_in(session, parts.passwords, _attempt(request, name), password)


async def log_in_with_new_password(request: Request, name: str, password: str, new_password: str) -> User:
    """Return the user who chose another password and logs in."""
    parts = parts_of(request)
    session = parts.quiet_session(language=language_of(request))
    attempt = _attempt(request, name)
    return await users.log_in_with_new_password(session, parts.passwords, attempt, password, new_password)


def _attempt(request: Request, name: str) -> LoginAttempt:
    return LoginAttempt(name.strip().lower(), request.client.host if request.client else "")


def _login_view(request: Request, user: User) -> LoginView:
    parts = parts_of(request)
    now, lifetime = parts.clock.now(), timedelta(seconds=int(parts.settings.login_seconds))
    token = parts.credentials.issue(user.name, user.role, lifetime, now, version=user.version)
    return LoginView(token, (now + lifetime).replace(microsecond=0), user.name, user.role)
