"""How a page is made: templates, the answer around them, and what is said when something is refused or down.

The policy of every page is `default-src 'self'`: no inline script or style, nothing from anywhere else.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sellerwatch.access.login_sessions import LoggedIn
from sellerwatch.kernel.bulk import RefusedView
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import Forbidden, SellerwatchError, Unauthenticated
from sellerwatch.kernel.ids import PublicId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.texts import LANGUAGES
from sellerwatch.web import sessions
from sellerwatch.web.api.errors import InternalError, status_of, unreadable_request
from sellerwatch.web.api.health import PartHealth, find_all
from sellerwatch.web.console.page_request import (
    FLASH,
    SAFE,
    LoginNeeded,
    Visit,
    guest_of,
    inside,
)
from sellerwatch.web.console.static import address_of
from sellerwatch.web.console.tables import Chart, Columns, Confirm, Filter, Sentence, Table, tone_of
from sellerwatch.web.console.texts import TEXTS, ago, say

log = logging.getLogger(__name__)

T = TypeVar("T")

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = {"content-security-policy": POLICY, "referrer-policy": "same-origin"}
LONGEST_FLASH = 600
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: The letter that goes to a page, after g.
KEYS = {
    "o": "overview",
    "s": "sellers",
    "e": "executions",
    "t": "tasks",
    "p": "products",
    "d": "outbox",
    "a": "agents",
    "q": "quarantine",
    "r": "removals",
    "c": "schedules",
    "l": "audit",
}
#: What the stream tells beside what people do.
TOLD = (
    "execution.pending",
    "execution.running",
    "execution.progress",
    "execution.completed",
    "execution.failed",
    "outbox.delivered",
    "agent.recovered",
    "agent.suspended",
    "agent.blocked",
    "run.paused",
    "run.resumed",
    "quarantine.opened",
    "removal.held",
    "receiver.down",
    "receiver.up",
    "receiver.seller_down",
    "receiver.seller_up",
    "schedule.failed",
    "breaker.open",
    "breaker.half_open",
    "breaker.closed",
    "marketplace.open",
    "marketplace.closed",
    "marketplace.paused",
    "marketplace.resumed",
    "pool.restored",
)

#: The pages of the navigation, in their order: name and address.
NAVIGATION = (
    ("overview", "/"),
    ("sellers", "/sellers"),
    ("executions", "/executions"),
    ("tasks", "/tasks"),
    ("products", "/products"),
    ("changes", "/changes"),
    ("days", "/days"),
    ("outbox", "/outbox"),
    ("resends", "/resends"),
    ("resyncs", "/resyncs"),
    ("agents", "/agents"),
    ("quarantine", "/quarantine"),
    ("removals", "/removals"),
    ("schedules", "/schedules"),
    ("audit", "/audit"),
    ("log_ins", "/log-ins"),
    ("users", "/users"),
    ("api_tokens", "/api-tokens"),
    ("settings", "/settings"),
)


@lru_cache(1)
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("sellerwatch.web.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(
        static=address_of, navigation=NAVIGATION, languages=LANGUAGES, tone_of=tone_of, stamp=stamp, known=TEXTS
    )
    made.filters.update(number=_number, short=_short, moment=_moment, day=_day, plain_json=_json)
    return made


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _short(value: object) -> str:
    """Of a UUID its end: the beginning is the time, and alike in neighbours. The whole one is in the title."""
    text = str(value)
    return f"…{text[-8:]}" if _UUID.fullmatch(text) else text


def _moment(seconds: float, zone: tzinfo) -> str:
    return f"{datetime.fromtimestamp(seconds, zone):%m-%d %H:%M:%S}"


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _json(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()


def show(visit: Visit, template: str, *, status: int = 200, **context: Any) -> Response:
    """A page, or one of its tables as CSV."""
    wanted = visit.csv
    if wanted:
        for table in _tables(context.values()):
            if table.name == wanted:
                return _csv(visit, table)
    response = HTMLResponse(_render(visit, template, context), status, HEADERS)
    response.headers["vary"] = "Cookie"
    if FLASH in visit.request.cookies:
        response.delete_cookie(FLASH, path="/")
    return response


def show_list(
    visit: Visit,
    name: str,
    views: Iterable[T],
    columns: Columns[T],
    *,
    fields: Sequence[Filter] = (),
    is_filtered: bool | None = None,
    next_: str | None = None,
    live: str,
    table: str | None = None,
    template: str = "list.html",
    **context: Any,
) -> Response:
    """Show a page of a list with its filters. `nav.{name}` is its title, `{name}.lead` the sentence under it.

    `table` is the name of the table and of its CSV, where that is not the page's.
    """
    if is_filtered is None:
        is_filtered = any(each.value for each in fields)
    empty = f"{name}.none_found" if is_filtered else f"{name}.empty"
    title = f"nav.{name}"
    rows = Table.of(table or name, views, columns, empty, caption=title, next_=next_)
    return show(visit, template, title=title, lead=f"{name}.lead", table=rows, fields=fields, live=live, **context)


def ask_first(
    visit: Visit,
    title: str,
    button: str,
    sentences: Sequence[Sentence],
    back: str,
    *,
    fields: Sequence[Filter] = (),
    hidden: Mapping[str, str] | None = None,
    danger: bool = True,
    **facts: object,
) -> Response:
    """Say what will happen, and ask; the button sends the form to the address of this page. `facts` are the title's."""
    confirm = Confirm(title, quote(visit.path), button, sentences, back, fields, hidden or {}, danger, facts)
    return show(visit, "confirm.html", confirm=confirm)


def _render(visit: Visit, template: str, context: dict[str, Any]) -> str:
    def shown(chart: Chart) -> str:
        unit = None if chart.unit is None else visit.t(chart.unit)
        return orjson.dumps(chart.data([visit.t(label) for label, _, _ in chart.series], unit)).decode()

    addresses = dict(NAVIGATION)

    def exact(time: datetime) -> str:
        return f"{time.astimezone(visit.zone):%Y-%m-%d %H:%M:%S %Z}"

    return (
        _templates()
        .get_template(template)
        .render(
            context
            | {
                "visit": visit,
                "t": visit.t,
                "ago": lambda time: ago(time, visit.now, visit.language),
                "exact": exact,
                "chart_data": shown,
                "words": _words(visit),
                "kinds": [*TOLD, *(key.removeprefix("action.") for key in TEXTS if key.startswith("action."))],
                "places": {key: addresses[name] for key, name in KEYS.items()},
                "place_names": KEYS,
                "flash": _flash_of(visit),
                "say_in": lambda key, language: say(key, language, {}),
                "link_to": lambda path, **given: f"{path}?{urlencode({k: v for k, v in given.items() if v})}",
            }
        )
    )


def _words(visit: Visit) -> dict[str, Any]:
    """Return the texts that the page's script shows."""
    spans: dict[str, Any] = {way: {unit: visit.t(f"{way}.{unit}", n="{n}") for unit in "smhd"} for way in ("ago", "in")}
    return spans | {
        "now": visit.t("now"),
        "time": visit.t("col.time"),
        "day": visit.t("col.day"),
        "live": visit.t("live.live"),
        "lost": visit.t("live.lost"),
    }


def _tables(values: Iterable[Any]) -> Iterable[Table]:
    for value in values:
        if isinstance(value, Table):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tables(value)


def _csv(visit: Visit, table: Table) -> Response:
    body = table.csv([visit.t(column) for column in table.columns])
    headers = {"content-disposition": f'attachment; filename="sellerwatch-{table.name}.csv"'}
    return Response(body.encode(), media_type="text/csv; charset=utf-8", headers=headers)


def go(visit: Visit, path: str, key: str | None = None, *, tone: str = "ok", **facts: object) -> Response:
    """Done: on to a page, where a toast says what was done."""
    response = RedirectResponse(inside(path), 303)
    if key is not None:
        toast(visit, response, visit.t(key, **facts), tone)
    return response


def refuse(visit: Visit, refused: RefusedView, back: str) -> Response:
    """Lead back to where a form came from, with the reason why what it asked for was refused."""
    response = RedirectResponse(inside(visit.form.get("back") or back), 303)
    toast(visit, response, refused.message, "bad")
    return response


def toast(visit: Visit, response: Response, text: str, tone: str = "ok") -> None:
    said = base64.urlsafe_b64encode(orjson.dumps([tone, text[:LONGEST_FLASH]])).decode()
    response.set_cookie(
        FLASH, said, max_age=60, httponly=True, samesite="lax", secure=sessions.is_secure(visit.request), path="/"
    )


def _flash_of(visit: Visit) -> tuple[str, str] | None:
    """Return the toast of the cookie; None for anything that is none: a browser may send any text."""
    try:
        said = orjson.loads(base64.urlsafe_b64decode(visit.request.cookies.get(FLASH, "")))
    except ValueError:
        return None
    match said:
        case ["ok" | "bad" as tone, str(text)]:
            return tone, text
    return None


def put_session(visit: Visit, response: Response, login: LoggedIn) -> None:
    """Set the cookie of a log-in, and the one by which this browser is a known device of the user."""
    session, name = login.session, login.user.name
    longest = session.expires_at - session.created_at
    _put_cookie(visit, response, sessions.COOKIE, sessions.seal(visit.parts, session), longest)
    device = sessions.seal_device(visit.parts, name)
    _put_cookie(visit, response, sessions.DEVICE, device, sessions.DEVICE_KNOWN)


def _put_cookie(visit: Visit, response: Response, name: str, value: str, lasts: timedelta) -> None:
    response.set_cookie(
        sessions.cookie_name(visit.request, name),
        value,
        max_age=int(lasts.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=sessions.is_secure(visit.request),
        path="/",
    )


def drop_cookie(visit: Visit, response: Response, name: str) -> None:
    secure = sessions.is_secure(visit.request)
    response.delete_cookie(
        sessions.cookie_name(visit.request, name), path="/", secure=secure, httponly=True, samesite="lax"
    )


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route for people: whatever is refused there is answered with a page, never with JSON."""

    def get_route_handler(self) -> Handler:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except LoginNeeded:
                return _to_login(request)
            except StoreFailed:
                return await _down(request)
            except RequestValidationError as error:
                return await _refused(request, unreadable_request(error))
            except SellerwatchError as error:
                return await _refused(request, error)
            except Exception as error:
                return await _broken(request, error)

        return handle


async def _broken(request: Request, error: Exception) -> Response:
    """A bug of ours: all of it to the log, an id of it to the person."""
    visit = guest_of(request)
    log_id = PublicId.generate(visit.parts.ids)
    log.error("a page broke", exc_info=error, extra={"log_id": log_id, "path": visit.path})
    return show(visit, "refused.html", status=500, message=visit.refusal(InternalError(log_id)))


def _to_login(request: Request) -> Response:
    target = request.scope["path"] if request.method in SAFE else "/"
    query = request.scope["query_string"].decode("latin-1")
    wanted = f"{target}?{query}" if query and request.method in SAFE else target
    address = f"/login?{urlencode({'next': inside(wanted)})}" if wanted != "/" else "/login"
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"HX-Redirect": "/login"})
    return RedirectResponse(address, 303)


async def _down(request: Request) -> Response:
    """Answer that the database is away and what is down; the page asks again on its own."""
    visit = guest_of(request)
    try:
        sessions.read(visit.parts, request)
        findings: list[PartHealth] = await find_all(visit.parts)
    except Unauthenticated:
        findings = []
    return show(visit, "down.html", status=503, findings=findings)


async def _refused(request: Request, error: SellerwatchError) -> Response:
    """A form that was refused leads back to where it came from, with the reason; anything else is a page of its own."""
    visit = guest_of(request)
    if request.method not in SAFE and not isinstance(error, Forbidden):
        form = dict(parse_qsl((await request.body()).decode("ascii", "replace")))
        if "back" in form:
            response = RedirectResponse(inside(form["back"]), 303)
            toast(visit, response, visit.refusal(error), "bad")
            return response
    return show(visit, "refused.html", status=status_of(type(error)), message=visit.refusal(error))
