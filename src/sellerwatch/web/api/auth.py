"""/api/v1/auth: a name and a password for a token, and who one is.

A wrong password and an unknown user get the same answer after the same work. A token is void as soon as its user is
removed or gets another password or role: it names the version of the user it was issued for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeVar

from fastapi import APIRouter, Request
from pydantic import Field, StrictStr

from sellerwatch.access import logins, users
from sellerwatch.access.logins import Attempt, WrongLogin
from sellerwatch.access.users import LONGEST_PASSWORD, Role, User
from sellerwatch.kernel.errors import Forbidden
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.authorization import Viewer
from sellerwatch.web.api.context import Parts, parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel, ResponseModel, Stamp

T = TypeVar("T")

router = APIRouter(prefix="/auth", tags=["auth"])


@dataclass(eq=False)
class PasswordMustChange(Forbidden):
    """Right, but a one-time password: it is good for choosing another and for nothing else."""


class LoginBody(RequestModel):
    user: StrictStr = Field(max_length=200, examples=["admin"])
    password: StrictStr = Field(max_length=LONGEST_PASSWORD, examples=["correct horse battery staple"], repr=False)


class PasswordBody(LoginBody):
    new_password: StrictStr = Field(max_length=LONGEST_PASSWORD, examples=["another horse, another staple"], repr=False)


class LoggedIn(ResponseModel):
    """Send it as `Authorization: Bearer ...`."""

    token: str = Field(examples=["eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9..."], repr=False)
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - the name of a kind
    expires_at: Stamp
    user: str
    role: Role


class Me(ResponseModel):
    user: str
    role: Role
    expires_at: Stamp


@router.post("/login", responses=refusals(403))
async def login(body: LoginBody, request: Request) -> LoggedIn:
    """Get a token. Whoever fails often must wait, longer each time; Retry-After says how long."""
    user = await enter(request, body.user, body.password)
    return _logged_in(parts_of(request), user, parts_of(request).clock.now())


@router.post("/password", responses=refusals(403))
async def change_password(body: PasswordBody, request: Request) -> LoggedIn:
    """Choose another password: by the old one, a one-time one included. Tokens issued before are void."""
    user = await enter_anew(request, body.user, body.password, body.new_password)
    return _logged_in(parts_of(request), user, parts_of(request).clock.now())


@router.get("/me")
async def me(caller: Viewer) -> Me:
    """Who the token says you are, and until when."""
    return Me(user=caller.name, role=caller.role, expires_at=caller.expires_at)


async def enter(request: Request, name: str, password: str) -> User:
    """The user who logs in by this password, from the API or from a page."""
    parts = parts_of(request)
    attempt, user = await _known(request, name, password)
    if user.must_change:
        await _do(parts, lambda tx: logins.clear(tx, attempt))
        raise PasswordMustChange
    now = parts.clock.now()
    return await _do(parts, lambda tx: logins.succeed(tx, attempt, user, now))


async def enter_anew(request: Request, name: str, password: str, new_password: str) -> User:
    """The same, with another password from now on."""
    parts = parts_of(request)
    users.check_password(new_password, name)
    attempt, user = await _known(request, name, password)
    hashed = await parts.passwords.hash(new_password)
    now = parts.clock.now()

    def work(tx: ServiceTx) -> User:
        # Somebody else may have changed it while it was hashed: that change stands.
        if users.find_user(tx, user.name).version != user.version:
            raise WrongLogin
        changed = users.set_password(tx, user.name, hashed, actor=f"api:{user.name}", now=now)
        return logins.succeed(tx, attempt, changed, now)

    return await _do(parts, work)


async def _known(request: Request, name: str, password: str) -> tuple[Attempt, User]:
    """The user whose password this is. The way is the same whoever asks, but for what is on the trail."""
    parts = parts_of(request)
    attempt = Attempt(name.strip().lower(), request.client.host if request.client else "")
    now = parts.clock.now()
    user = await _do(parts, lambda tx: logins.admit(tx, attempt, now))
    if await parts.passwords.check(None if user is None else user.password_hash, password) and user is not None:
        return attempt, user
    await _do(parts, lambda tx: logins.fail(tx, attempt, user, now))
    raise WrongLogin


async def _do(parts: Parts, work: Callable[[ServiceTx], T]) -> T:
    """One transaction. Nobody is nudged by it, unlike after a change: anybody may ask for this one."""
    return await parts.service.store.transact(partial(_run, work))


def _run(work: Callable[[ServiceTx], T], tx: ServiceTx) -> T:
    return work(tx)


def _logged_in(parts: Parts, user: User, now: datetime) -> LoggedIn:
    lifetime = timedelta(seconds=int(parts.settings.login_seconds))
    token = parts.credentials.issue(user.name, user.role, lifetime, now, version=user.version)
    return LoggedIn(token=token, expires_at=(now + lifetime).replace(microsecond=0), user=user.name, role=user.role)
