"""Log in and out, choose a password, and choose language and theme."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from sellerwatch.access import commands, queries
from sellerwatch.access.login_sessions import LoginKind, LoginSessionNotFound
from sellerwatch.access.logins import PasswordMustChange
from sellerwatch.access.users import LONGEST_PASSWORD
from sellerwatch.kernel.errors import SellerwatchError, TooManyRequests, Unavailable
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.texts import LANGUAGES
from sellerwatch.web import sessions
from sellerwatch.web.api.auth import log_in, log_in_with_new_password
from sellerwatch.web.api.errors import status_of
from sellerwatch.web.console.page_request import LANGUAGE, THEME, THEMES, Guest, Viewer, Visit, inside
from sellerwatch.web.console.rendering import PageRoute, drop_cookie, put_session, show

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LONGEST_NAME = 200
A_YEAR = 365 * 86400


@router.get("/login")
async def login_page(visit: Guest) -> Response:
    return await _login_form(visit)


@router.post("/login")
async def login(visit: Guest, request: Request) -> Response:
    """Log in; failures count and wait as in the API."""
    name, password = _given(visit, "user", LONGEST_NAME), _given(visit, "password", LONGEST_PASSWORD)
    try:
        logged_in = await log_in(request, name, password, LoginKind.CONSOLE)
    except PasswordMustChange:
        return show(visit, "password.html", problem=None, user=name)
    except StoreFailed:
        raise
    except SellerwatchError as error:
        return await _login_form(visit, visit.refusal(error), name, status_of(type(error)), error)
    response = RedirectResponse(inside(visit.form.get("next", "/")), 303)
    put_session(visit, response, logged_in)
    return response


@router.get("/password")
async def password_page(visit: Guest) -> Response:
    return show(visit, "password.html", problem=None, user="")


@router.post("/password")
async def choose_password(visit: Guest, request: Request) -> Response:
    """Choose another password by the old one, a one-time password included."""
    name, old = _given(visit, "user", LONGEST_NAME), _given(visit, "password", LONGEST_PASSWORD)
    new = visit.form.get("new_password", "")
    try:
        logged_in = await log_in_with_new_password(request, name, old, new, LoginKind.CONSOLE)
    except StoreFailed:
        raise
    except SellerwatchError as error:
        return show(visit, "password.html", status=status_of(type(error)), problem=visit.refusal(error), user=name)
    response = RedirectResponse("/", 303)
    put_session(visit, response, logged_in)
    return response


@router.post("/logout")
async def logout(visit: Viewer) -> Response:
    """End the log-in: a copy of the cookie is worth nothing from now on."""
    caller = visit.caller
    if caller is not None and caller.session_id is not None:
        with suppress(LoginSessionNotFound):
            await visit.operations.run(commands.end_session, caller.session_id, caller.name)
    response = RedirectResponse("/login", 303)
    drop_cookie(visit, response, sessions.COOKIE)
    return response


@router.post("/preferences")
async def preferences(visit: Guest) -> Response:
    """Keep language and theme in this browser; that needs no log-in."""
    response = RedirectResponse(inside(visit.form.get("back", "/")), 303)
    language, theme = visit.form.get("language"), visit.form.get("theme")
    if language is not None and language in LANGUAGES:
        response.set_cookie(LANGUAGE, language, max_age=A_YEAR, httponly=True, samesite="lax", path="/")
    if theme is not None and theme in THEMES:
        response.set_cookie(THEME, theme, max_age=A_YEAR, httponly=True, samesite="lax", path="/")
    return response


async def _login_form(
    visit: Visit,
    problem: str | None = None,
    user: str = "",
    status: int = 200,
    error: SellerwatchError | None = None,
) -> Response:
    has_users = bool((await visit.operations.ask(queries.list_users)).content)
    wanted = visit.form.get("next") or visit.asked("next") or "/"
    response = show(
        visit, "login.html", status=status, problem=problem, user=user, has_users=has_users, next=inside(wanted)
    )
    if isinstance(error, TooManyRequests | Unavailable) and error.retry_after is not None:
        response.headers["retry-after"] = str(max(1, round(error.retry_after)))
    return response


def _given(visit: Visit, name: str, longest: int) -> str:
    return visit.form.get(name, "")[: longest + 1]
