"""A simulated Mustit: it answers as marketplace-contract.md says, fails as its profile says, and counts.

It reads no clock and opens no socket: `answer` gets the time. Its own count of agents that exceeded the limits checks a
crawler's limiter.
"""

from bisect import insort
from collections import Counter, deque
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

from sellerwatch.simulator.chaos import PROFILES, Chaos, ChaosProfile, FaultKind, Outage
from sellerwatch.simulator.limits import LimitVerdict, RequestLimiter, SimulatedLimits
from sellerwatch.simulator.rendering import Renderer, without_module
from sellerwatch.simulator.sessions import SimulatedSessions
from sellerwatch.simulator.wire import ConnectionFault, SimulatedAnswer, SimulatedRequest, refusal
from sellerwatch.simulator.world import World

HOME = "/"
ROBOTS = "/robots.txt"
LIST_PATHS = (
    "/mustit-api/facade-api/v1/searchmini-shop-search",
    "/mustit-api/facade-api/v1/search/mini-shop-search",
)
DETAIL_PREFIX, DETAIL_SUFFIX = "/mustit-api/facade-api/v1/item/", "/detail/top"
OPTIONS_PREFIX, OPTIONS_SUFFIX = "/mustit-api/legacy-api/v1/auction_products/", "/options"
MAX_PAGE_SIZE = 1_000
#: A total that no seller can have; it fits 64 bits.
INFLATED_TOTAL = 2**62

_HTML = "text/html; charset=utf-8"
_HOME_PAGE = "<!doctype html><html lang=ko><title>머스트잇</title><h1>머스트잇</h1></html>".encode()
_ERROR_PAGE = "<!doctype html><html><title>오류</title><h1>잠시 후 다시 시도해 주세요</h1></html>".encode()
_DROPPED = SimulatedAnswer(0, fault=ConnectionFault.DROP)
_REFUSED = SimulatedAnswer(0, fault=ConnectionFault.REFUSE)
_NO_STATUS = {ConnectionFault.DROP: "dropped", ConnectionFault.REFUSE: "refused"}
_LOGGED_REQUESTS = 100_000


class LoggedRequest(NamedTuple):
    """One request in the marketplace's log. `status` is 0 where the connection was refused or dropped."""

    at: float
    endpoint: str
    user_agent: str
    status: int


class SimulatedMarketplace:
    """The marketplace over a world.

    `seed` decides faults, tokens and volatile fields. Requests must come in the order of their `now`; the same requests
    at the same times get the same answers.
    """

    def __init__(
        self,
        world: World,
        profile: ChaosProfile = PROFILES["calm"],
        limits: SimulatedLimits | None = None,
        seed: int | str = 0,
        volatile: bool = True,
    ) -> None:
        self.world = world
        self.chaos = Chaos(profile, seed)
        self.renderer = Renderer(seed, volatile)
        self.limits = limits or SimulatedLimits()
        self._sessions = SimulatedSessions(seed)
        self._judges: dict[str, RequestLimiter] = {}
        self._requests: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self._verdicts: Counter[LimitVerdict] = Counter()
        self._log: deque[LoggedRequest] = deque(maxlen=_LOGGED_REQUESTS)
        self._restarts: list[float] = []

    def answer(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        """Answer a request that arrived at `now`."""
        endpoint, key = _route(request.path)
        self._requests[endpoint] += 1
        while self._restarts and self._restarts[0] <= now:
            self._restarts.pop(0)
            self._sessions.revoke_all()
        user_agent = request.headers.get("user-agent", "")
        trouble = self.chaos.outage(now, endpoint, user_agent, key)
        answer = (
            self._refused() if trouble is FaultKind.REFUSED else self._answer_at(endpoint, key, request, now, trouble)
        )
        self._statuses[str(answer.status) if answer.status else _NO_STATUS[answer.fault]] += 1
        self._log.append(LoggedRequest(now, endpoint, user_agent, answer.status))
        delay = self.chaos.delay()
        return replace(answer, delay=delay) if delay else answer

    def plan(self, outage: Outage) -> None:
        """Plan faults from `outage.start` to `outage.end`."""
        self.chaos.plan(outage)

    def restart(self, at: float) -> None:
        """Void every token issued before `at`, as a restart of the marketplace does."""
        insort(self._restarts, at)

    def requests(self, since: float = 0.0, until: float = inf) -> list[LoggedRequest]:
        """Return the log from `since` on and before `until`, oldest first; it holds the last 100,000 requests.

        A refused connection is included: the marketplace never saw it, but it was attempted.
        """
        return [request for request in self._log if since <= request.at < until]

    def warm(self) -> None:
        """Render every product once and keep all of them: a benchmark should not time that."""
        self.world.keep_all()
        self.renderer.keep_all()
        for seller_id in self.world.sellers:
            for item_no in self.world.listing(seller_id):
                product = self.world.product(item_no)
                if product is not None:
                    self.renderer.prepare(product)

    def stats(self) -> dict[str, Any]:
        """Return counts of requests, answers and faults."""
        most = {agent: judge.most for agent, judge in self._judges.items()}
        return {
            "requests": dict(self._requests),
            "statuses": dict(self._statuses),
            "faults": dict(self.chaos.inflicted),
            "tokens_issued": self._sessions.issued,
            "over_budget": self._verdicts[LimitVerdict.OVER_BUDGET],
            "over_rate": self._verdicts[LimitVerdict.OVER_RATE],
            "ignored_retry_after": sum(judge.ignored for judge in self._judges.values()),
            "most_in_a_window": max(most.values(), default=0),
            "most_in_a_window_by_agent": most,
            "products": len(self.world),
        }

    def _refused(self) -> SimulatedAnswer:
        self.chaos.count(FaultKind.REFUSED)
        return _REFUSED

    def _answer_at(
        self, endpoint: str, key: str, request: SimulatedRequest, now: float, trouble: FaultKind
    ) -> SimulatedAnswer:
        if endpoint == "other":
            return refusal(404, f"nothing at {request.path}")
        if request.method != "GET":
            return refusal(405, f"{request.method} is not answered here", (("allow", "GET"),))
        if endpoint == "robots":
            return SimulatedAnswer(200, b"User-agent: *\nAllow: /\n", content_type="text/plain; charset=utf-8")
        if endpoint == "session":
            return self._session(request, now, trouble)
        return self._api(endpoint, key, request, now, trouble)

    def _session(self, request: SimulatedRequest, now: float, trouble: FaultKind) -> SimulatedAnswer:
        """Answer `GET /` with a new session. It counts in no window, but may fail like any request."""
        ailment = self.chaos.strike(now) if trouble is FaultKind.NONE else trouble
        if ailment in (FaultKind.ERROR, FaultKind.DROP, FaultKind.HTML):
            return self._instead(ailment)
        session = self._sessions.issue(request.headers.get("user-agent", ""), now, self.chaos.profile.token_seconds)
        return SimulatedAnswer(200, _HOME_PAGE, session.cookies, _HTML)

    def _api(
        self, endpoint: str, key: str, request: SimulatedRequest, now: float, trouble: FaultKind
    ) -> SimulatedAnswer:
        """Answer an API request: check the limits, then draw faults, then check the credentials, then answer."""
        judge = self._judge(request.headers.get("user-agent", ""))
        verdict = judge.judge(now)
        if verdict is not LimitVerdict.WITHIN:
            self._verdicts[verdict] += 1
            seconds = judge.retry_after(now) if verdict is LimitVerdict.OVER_BUDGET else 1
            judge.asked_for_quiet(now, now + seconds)
            return refusal(429, verdict.value, (("retry-after", str(seconds)),))
        ailment = self.chaos.strike(now) if trouble is FaultKind.NONE else trouble
        if ailment is FaultKind.STORM:
            return self._stormy(judge, now)
        if ailment in (FaultKind.ERROR, FaultKind.DROP, FaultKind.HTML):
            return self._instead(ailment)
        if ailment is FaultKind.REVOKED and self._sessions.revoke(request.headers):
            self.chaos.count(ailment)
        if ailment is FaultKind.UNAUTHORISED:
            self.chaos.count(ailment)
            return refusal(401, "the token is unknown or has expired")
        status, why = self._sessions.check(request.headers, now)
        if status != 200:
            return refusal(status, why)
        answer = self._list(request) if endpoint == "list" else self._item(endpoint, key, ailment)
        if answer.status != 200 or ailment not in (FaultKind.CUT, FaultKind.TRUNCATED):
            return answer
        self.chaos.count(ailment)
        return _with_fault(answer, ailment)

    def _judge(self, user_agent: str) -> RequestLimiter:
        judge = self._judges.get(user_agent)
        if judge is None:
            judge = self._judges[user_agent] = RequestLimiter(self.limits)
        return judge

    def _stormy(self, judge: RequestLimiter, now: float) -> SimulatedAnswer:
        self.chaos.count(FaultKind.STORM)
        retry_after, until = self.chaos.retry_after(now)
        if retry_after is None:
            return refusal(429, "too many requests")
        judge.asked_for_quiet(now, until)
        return refusal(429, "too many requests", (("retry-after", retry_after),))

    def _instead(self, ailment: FaultKind) -> SimulatedAnswer:
        """Return the answer that replaces the real one."""
        self.chaos.count(ailment)
        if ailment is FaultKind.DROP:
            return _DROPPED
        if ailment is FaultKind.HTML:
            return SimulatedAnswer(200, _ERROR_PAGE, content_type=_HTML)
        return refusal(self.chaos.rng.choice((500, 502, 503)), "something went wrong")

    def _list(self, request: SimulatedRequest) -> SimulatedAnswer:
        query = request.query
        seller_id = query.get("sellerId", "")
        page_no, page_size = _whole(query.get("pageNo", "")), _whole(query.get("pageSize", ""))
        if not seller_id or page_no is None or page_size is None or not 1 <= page_size <= MAX_PAGE_SIZE:
            return refusal(400, f"sellerId, pageNo from 0 and pageSize 1 to {MAX_PAGE_SIZE} are needed")
        if query.get("order") != "LATEST":
            return refusal(400, "only order=LATEST is known")
        count = self.world.count(seller_id)
        whole_page = page_size > 1
        if whole_page and count and self.chaos.shifts_list(seller_id):
            self.world.bump(self.chaos.rng.choice(self.world.listing(seller_id)))
        items = list(self.world.listing(seller_id, page_no * page_size, (page_no + 1) * page_size))
        if whole_page and 0 < len(items) < page_size and self.chaos.mixes_in_foreign_item():
            items.insert(len(items) // 2, self.world.stranger_to(seller_id, self.chaos.rng))
        products = [product for product in map(self.world.product, items) if product is not None]
        stated = INFLATED_TOTAL if self.chaos.inflates_total() else count
        return SimulatedAnswer(200, self.renderer.list_page(stated, products))

    def _item(self, endpoint: str, key: str, ailment: FaultKind) -> SimulatedAnswer:
        item_no = _whole(key)
        product = self.world.product(item_no) if item_no is not None else None
        if product is None:
            return refusal(404, f"no item {key}")
        if ailment is FaultKind.WITHOUT_MODULE:
            self.chaos.count(ailment)
            return SimulatedAnswer(200, self.renderer.detail(product, without_info=True))
        if endpoint == "options":
            return SimulatedAnswer(200, self.renderer.options(product))
        body = self.renderer.detail(product)
        return SimulatedAnswer(200, without_module(body) if self.chaos.drops_module() else body)


def _route(path: str) -> tuple[str, str]:
    """Return the endpoint's name and the item number in the path, if there is one."""
    if path.startswith(DETAIL_PREFIX) and path.endswith(DETAIL_SUFFIX):
        return "detail", path[len(DETAIL_PREFIX) : -len(DETAIL_SUFFIX)]
    if path.startswith(OPTIONS_PREFIX) and path.endswith(OPTIONS_SUFFIX):
        return "options", path[len(OPTIONS_PREFIX) : -len(OPTIONS_SUFFIX)]
    if path in LIST_PATHS:
        return "list", ""
    return {HOME: "session", ROBOTS: "robots"}.get(path, "other"), ""


def _whole(text: str) -> int | None:
    """Return a whole number from 0, of at most 18 digits; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _with_fault(answer: SimulatedAnswer, ailment: FaultKind) -> SimulatedAnswer:
    """Return a good answer with a fault in its body."""
    if ailment is FaultKind.CUT:
        return replace(answer, fault=ConnectionFault.CUT)
    return replace(answer, body=answer.body[: len(answer.body) * 3 // 5])
