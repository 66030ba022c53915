"""The client of Mustit: one request, one answer.

Nothing is retried and redirects of the API are not followed: every request takes a slot of its agent's budget, and only
the crawl knows the budget. Nor is it decided here what an answer means for agent, task and product: the answer is
translated into the terms of the port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from urllib.parse import quote, urljoin, urlsplit

from sellerwatch.agents.answers import UNAVAILABLE, Answer, AnswerKind, Identity, Session
from sellerwatch.agents.token import InvalidToken
from sellerwatch.catalog.facts import DetailFacts, ListFacts, OptionFacts
from sellerwatch.catalog.product import PartType
from sellerwatch.kernel.ids import ItemNo, SellerId, UserAgentId
from sellerwatch.kernel.retry_after import retry_after
from sellerwatch.marketplaces.mustit import parse
from sellerwatch.marketplaces.mustit.cookies import Cookie, read_cookies
from sellerwatch.marketplaces.mustit.fields import unknown_fields
from sellerwatch.marketplaces.mustit.headers import RequestHeaders
from sellerwatch.marketplaces.mustit.json_values import decode
from sellerwatch.marketplaces.mustit.urls import Urls
from sellerwatch.marketplaces.ports import ListPage, Reply, Transport, TransportFailed, TransportProblem

TOKEN, NID, UID = "token", "nid", "mustit_uid"
SHORTEST_TOKEN = 5
#: In bytes: encrypted, it fits into a column of 255 characters.
LONGEST_COOKIE = 160
MOST_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})

_AGENTS_REMEMBERED = 1_000
_ENDPOINTS = {PartType.MINISHOP: parse.LIST, PartType.DETAIL: parse.DETAIL, PartType.OPTION: parse.OPTIONS}
_PROBLEMS = {
    TransportProblem.UNREACHABLE: AnswerKind.UNREACHABLE,
    TransportProblem.TIMEOUT: AnswerKind.TIMED_OUT,
    TransportProblem.DROPPED: AnswerKind.DROPPED,
    TransportProblem.TOO_LARGE: AnswerKind.TOO_LARGE,
}
_KINDS = {
    400: AnswerKind.BAD_REQUEST,
    401: AnswerKind.UNAUTHORISED,
    403: AnswerKind.UNAUTHORISED,
    404: AnswerKind.GONE,
    429: AnswerKind.TOO_MANY,
}


class MustitMarketplace:
    """`Marketplace` for Mustit.

    `base_url` has no slash at its end. `longest_wait` bounds Retry-After. `user_agent_suffix` is appended to every
    User-Agent, for owners who want to be reachable. A list with more products than `max_list_total` is unreadable.

    The headers of an agent are made once and kept until its token changes: decrypting a token costs more than the rest
    of a request here. So the decrypted tokens of working agents are in memory, in this object only.
    """

    def __init__(
        self,
        transport: Transport,
        base_url: str,
        open_token: Callable[[Identity], Session],
        urls: Urls | None = None,
        headers: RequestHeaders | None = None,
        longest_wait: timedelta = timedelta(days=1),
        user_agent_suffix: str = "",
        max_list_total: int = parse.MAX_LIST_TOTAL,
    ) -> None:
        self._transport = transport
        self._base_url = base_url
        self._open_token = open_token
        self._urls = urls or Urls()
        self._sent = headers or RequestHeaders()
        self._longest_wait = longest_wait
        self._suffix = user_agent_suffix.strip()
        self._max_list_total = max_list_total
        self._headers: dict[UserAgentId, tuple[tuple[str, ...], Mapping[str, str]]] = {}

    def list_url(self, seller_id: SellerId, page: int, size: int) -> str:
        return self._urls.list_page(seller_id, page, size)

    def detail_url(self, item_no: ItemNo) -> str:
        return self._urls.detail(item_no)

    def option_url(self, item_no: ItemNo) -> str:
        return self._urls.options(item_no)

    def read_list(self, body: bytes, url: str) -> ListPage:
        return parse.read_list(body, self._urls.size_of(url), self._max_list_total)

    def read_entry(self, raw: bytes) -> ListFacts:
        return parse.read_entry(raw)

    def read_detail(self, body: bytes, item_no: ItemNo) -> DetailFacts:
        return parse.read_detail(body, item_no)

    def read_options(self, body: bytes, item_no: ItemNo) -> OptionFacts:
        return parse.read_options(body, item_no)

    def unknown_fields(self, part: PartType, body: bytes) -> tuple[str, ...]:
        return unknown_fields(_ENDPOINTS[part], decode(body))

    async def fetch(self, url: str, identity: Identity, now: datetime) -> Answer:
        """Make one GET of a path as this identity.

        A token that cannot be decrypted (its key is gone) gets the answer the marketplace gives to a wrong one, without
        a request: the remedy, a new token, is the same.
        """
        if not url.startswith("/") or url.startswith("//"):
            raise ValueError("only paths are fetched: another host must never see a token")
        try:
            headers = self._headers_of(identity)
        except InvalidToken as error:
            return Answer(AnswerKind.UNAUTHORISED, None, detail=str(error))
        try:
            reply = await self._transport.get(self._base_url + url, headers)
        except TransportFailed as failed:
            return _no_answer(failed)
        kind = _kind(reply.status)
        if kind is AnswerKind.OK:
            return Answer(kind, reply.status, reply.body)
        wait = None
        if kind is AnswerKind.TOO_MANY or reply.status == UNAVAILABLE:
            wait = retry_after(reply.header("retry-after"), now, self._longest_wait)
        return Answer(kind, reply.status, wait=wait)

    async def open_session(self, user_agent: str, now: datetime) -> Session | Answer:
        """Open a new guest session as a browser does: GET the token page, following redirects on the same host."""
        url, cookies = f"{self._base_url}{self._urls.token_path}", dict[str, Cookie]()
        for _ in range(MOST_REDIRECTS + 1):
            headers = {"User-Agent": self._named(user_agent), **self._sent.page}
            if cookies:
                headers["Cookie"] = "; ".join(f"{name}={cookie.value}" for name, cookie in cookies.items())
            try:
                reply = await self._transport.get(url, headers)
            except TransportFailed as failed:
                return _no_answer(failed)
            cookies |= read_cookies((value for name, value in reply.headers if name == "set-cookie"), now)
            cookies = {name: cookie for name, cookie in cookies.items() if cookie.lifetime}
            if reply.status not in REDIRECTS:
                return _session(reply, cookies)
            target = _redirected(url, reply)
            if target is None:
                return Answer(AnswerKind.REDIRECTED, reply.status, detail="only its own host is followed")
            url = target
        return Answer(AnswerKind.REDIRECTED, reply.status, detail=f"redirected more than {MOST_REDIRECTS} times")

    def _headers_of(self, identity: Identity) -> Mapping[str, str]:
        token = identity.token
        made_for = (identity.user_agent, token.sealed)
        kept = self._headers.get(identity.user_agent_id)
        if kept is not None and kept[0] == made_for:
            return kept[1]
        session = self._open_token(identity)
        headers = {
            "User-Agent": self._named(identity.user_agent),
            **self._sent.api,
            self._sent.token_name: self._sent.token_form.replace("{token}", session.token),
        }
        given = ((NID, session.nid), (UID, session.mustit_uid))
        cookie = "; ".join(f"{name}={value}" for name, value in given if value)
        if cookie:
            headers["Cookie"] = cookie
        if kept is None and len(self._headers) >= _AGENTS_REMEMBERED:
            del self._headers[next(iter(self._headers))]
        self._headers[identity.user_agent_id] = (made_for, headers)
        return headers

    def _named(self, user_agent: str) -> str:
        return f"{user_agent} {self._suffix}" if self._suffix else user_agent


def _kind(status: int) -> AnswerKind:
    if 200 <= status < 300:
        return AnswerKind.OK
    if 300 <= status < 400:
        return AnswerKind.REDIRECTED
    return _KINDS.get(status, AnswerKind.REFUSED) if status < 500 else AnswerKind.SERVER_ERROR


def _no_answer(failed: TransportFailed) -> Answer:
    return Answer(_PROBLEMS[failed.problem], None, detail=failed.detail or failed.problem.value)


def _session(reply: Reply, cookies: Mapping[str, Cookie]) -> Session | Answer:
    kind = _kind(reply.status)
    if kind is not AnswerKind.OK:
        return Answer(kind, reply.status)
    token = cookies.get(TOKEN)
    if token is None or len(token.value) < SHORTEST_TOKEN:
        return Answer(AnswerKind.NO_TOKEN, reply.status)
    return Session(token.value, _short(cookies, NID), _short(cookies, UID), token.lifetime)


def _short(cookies: Mapping[str, Cookie], name: str) -> str:
    """Return the value, or nothing when it is longer than what is stored of it: half a cookie would be worse."""
    cookie = cookies.get(name)
    return cookie.value if cookie is not None and len(cookie.value.encode()) <= LONGEST_COOKIE else ""


def _redirected(url: str, reply: Reply) -> str | None:
    """Return the next address; None for another host, an unsafe address, or none."""
    location = reply.header("location")
    if not location:
        return None
    try:
        here, there = urlsplit(url), urlsplit(urljoin(url, location))
        same_host = there.hostname == here.hostname and there.port == here.port and "@" not in there.netloc
    except ValueError:
        return None
    if not same_host or there.scheme not in {here.scheme, "https"}:
        return None
    # Headers are read as latin-1, so this quotes the very bytes that came; what is quoted already stays as it is.
    return quote(there._replace(fragment="").geturl(), safe="%/:?&=+,;!$'()*~[]@", encoding="latin-1")
