"""Who looks, in which language and when: what every page works with. And who may look at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from zoneinfo import ZoneInfo

from fastapi import Depends, Request

from sellerwatch.access.users import Role
from sellerwatch.kernel.errors import Forbidden, Unauthenticated
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.kernel.wording import error_text
from sellerwatch.operations.session import OperationSession
from sellerwatch.texts import LANGUAGES
from sellerwatch.web import sessions
from sellerwatch.web.api.context import Parts, parts_of
from sellerwatch.web.api.credentials import Caller
from sellerwatch.web.console.texts import say

LANGUAGE, THEME, FLASH = "sellerwatch_language", "sellerwatch_theme", "sellerwatch_flash"
THEMES = ("auto", "light", "dark")
E = TypeVar("E", bound=StrEnum)
#: Rows of one page of a list, and of its CSV.
ROWS, CSV_ROWS = 25, 1000
SAFE = ("GET", "HEAD")


@dataclass(eq=False)
class LoginNeeded(Unauthenticated):
    """A page for people who are logged in; leads to the log-in and back."""


@dataclass(eq=False)
class ForgedForm(Forbidden):
    """A form that no page of this log-in sent."""


@dataclass(frozen=True)
class Visit:
    """One request of a person. `caller` is None for a visitor who is not logged in."""

    request: Request
    parts: Parts
    language: str
    theme: str
    now: datetime
    form: Mapping[str, str] = field(default_factory=dict)
    caller: Caller | None = None

    def t(self, key: str, **facts: object) -> str:
        return say(key, self.language, facts)

    def refusal(self, error: Any) -> str:
        return error_text(error.code, error.facts, self.language)

    @property
    def path(self) -> str:
        return str(self.request.scope["path"])

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    def asked(self, name: str) -> str:
        return self.query.get(name, "").strip()

    @property
    def cursor(self) -> str | None:
        """Where the list begins, if a cursor is given."""
        return self.asked("cursor") or None

    @cached_property
    def operations(self) -> OperationSession:
        """Commands and queries for this person."""
        return self.parts.session(self.actor, self.language)

    def link(self, **changed: str | None) -> str:
        """This page with other parameters."""
        params = {name: value for name, value in self.query.items() if value} | changed
        kept = {name: value for name, value in params.items() if value is not None}
        return f"{quote(self.path)}?{urlencode(kept)}" if kept else quote(self.path)

    def page_after(self, page: CursorPageView[Any]) -> str | None:
        """Return the address of the page that follows one of this list; None at its end."""
        return self.link(cursor=page.next) if page.next else None

    @property
    def csv(self) -> str:
        """The table that is wanted as CSV, if one is."""
        return self.asked("csv")

    @property
    def rows(self) -> int:
        return CSV_ROWS if self.csv else ROWS

    @property
    def is_admin(self) -> bool:
        return self.caller is not None and self.caller.role is Role.ADMIN

    @property
    def actor(self) -> str:
        return "nobody" if self.caller is None else f"console:{self.caller.name}"

    @cached_property
    def form_token(self) -> str:
        session_id = None if self.caller is None else self.caller.session_id
        return "" if session_id is None else sessions.form_token(self.parts, session_id)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.parts.settings.timezone)


def language_of(request: Request) -> str:
    """As the person chose it, else as it is configured."""
    chosen = request.cookies.get(LANGUAGE, "")
    return chosen if chosen in LANGUAGES else parts_of(request).settings.language


def guest_of(request: Request) -> Visit:
    """Made without asking the database: the caller is not known yet."""
    parts, theme = parts_of(request), request.cookies.get(THEME, "")
    return Visit(request, parts, language_of(request), theme if theme in THEMES else "auto", parts.clock.now())


def _is_from_elsewhere(request: Request) -> bool:
    """Return whether another site made the browser send this, as the browser says; older ones say it by Origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")


async def _guest(request: Request) -> Visit:
    visit = guest_of(request)
    if request.method in SAFE:
        return visit
    if _is_from_elsewhere(request):
        raise ForgedForm
    pairs = parse_qsl((await request.body()).decode("ascii", "replace"), keep_blank_values=True)
    return Visit(request, visit.parts, visit.language, visit.theme, visit.now, dict(pairs))


async def _viewer(guest: Annotated[Visit, Depends(_guest)]) -> Visit:
    request, parts = guest.request, guest.parts
    try:
        login = await sessions.login_of(parts, sessions.read(parts, request).session_id)
    except Unauthenticated:
        raise LoginNeeded from None
    given = guest.form.get("form_token") or request.headers.get("x-form-token", "")
    if request.method not in SAFE and not sessions.is_form_token(parts, login.session.session_id, given):
        raise ForgedForm
    caller = sessions.caller_of(login)
    return Visit(request, parts, guest.language, guest.theme, guest.now, guest.form, caller)


async def _admin(viewer: Annotated[Visit, Depends(_viewer)]) -> Visit:
    if viewer.caller is None:
        raise LoginNeeded
    viewer.caller.must_be(Role.ADMIN)
    return viewer


#: Anybody.
Guest = Annotated[Visit, Depends(_guest)]
#: Any user who is logged in; a form must be one of ours.
Viewer = Annotated[Visit, Depends(_viewer)]
#: A user who may change things.
Admin = Annotated[Visit, Depends(_admin)]


def one_of(choices: type[E], text: str) -> E | None:
    """Return the member of that name; None for anything else that was typed."""
    return choices(text) if text in list(choices) else None


def number_of(text: str, otherwise: int = 0) -> int:
    """Return a number of a form; what is none is left to the rule it is given to."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else otherwise


def inside(path: str) -> str:
    """A path of ours to go to, whatever was given: never another host's."""
    fine = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and len(path) < 2000
    return path if fine else "/"
