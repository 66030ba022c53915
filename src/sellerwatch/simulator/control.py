"""The simulator's control API, for when it runs in another process: inspect it, change products, cause faults."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from enum import Enum
from math import inf, isfinite
from typing import TypeVar

from sellerwatch.simulator.changes import CHANGES
from sellerwatch.simulator.chaos import PROFILES, FaultKind, Outage
from sellerwatch.simulator.marketplace import SimulatedMarketplace
from sellerwatch.simulator.product_server import ProductServer, ServerBehaviour, ServerMode
from sellerwatch.simulator.rendering import Redesign
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest, json_answer, refusal
from sellerwatch.simulator.world import LIFELIKE, MutationKind

CONTROL_PREFIX = "/__simulator__/"
_EVENTS_AT_ONCE = 1_000
_MISMATCHES_SHOWN = 100

E = TypeVar("E", bound=Enum)
Action = Callable[["Control", SimulatedRequest, str], SimulatedAnswer]


class BadRequest(Exception):
    """A control request that cannot be understood; the message says why."""


class Control:
    """Answers requests under `/__simulator__/`, without authentication: keep it on loopback.

    | request | result |
    | --- | --- |
    | `GET stats` | counts of the marketplace and of the product server |
    | `GET sellers` | the sellers and how many products each has |
    | `GET truth/{itemNo}` | the productData a server must hold; 404 when it must hold nothing |
    | `GET compare` | where the product server's catalogue is not the truth; `seller` for one seller |
    | `GET events?after=N` | events received after that sequence number, at most 1,000 |
    | `GET violations` | rules of event.md that were broken |
    | `POST mutate?count=N&seed=S` | realistic changes to N products; `only=changed` for one kind, `how=reprice` |
    | `POST profile?name=...` | another chaos profile |
    | `POST receiver?mode=...` | another mode of the product server; `probability`, `requests`, `retryAfter` |
    | `POST lose` | the product server loses its database |
    | `POST warm` | render every product once and keep it, so that no benchmark times that |
    | `POST outage?ailment=...` | let requests fail, `in` seconds from now, for `seconds`; see below |
    | `POST restart` | void every token; `in` seconds from now |
    | `GET requests` | the log, counted by endpoint, agent and status; bounded by `since` and `until` |
    | `POST redesign?on=true` | redesign the details; `seller` for one seller, `on=false` to take it back |

    The ailments of an outage are refused, error, unauthorised, storm (429) and without module. `endpoint`, `userAgent`
    and `itemNo` narrow it down, and `ailment=none` ends every outage. The control API keeps answering while connections
    are refused. `requests` also returns the present time, on the clock of `since` and `until`.
    """

    def __init__(
        self, marketplace: SimulatedMarketplace, product_server: ProductServer, latency_ms: float | None = None
    ) -> None:
        """`latency_ms`, where given, stays in force whatever profile is chosen."""
        self._latency_ms = latency_ms
        self._now = 0.0
        self._marketplace = marketplace
        self._world = marketplace.world
        self._product_server = product_server

    def answer(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        command, _, rest = request.path.removeprefix(CONTROL_PREFIX).partition("/")
        known = _COMMANDS.get(command)
        if known is None:
            return refusal(404, f"no such command; there are {', '.join(_COMMANDS)}")
        method, action = known
        if request.method != method:
            return refusal(405, f"{command} needs {method}", (("allow", method),))
        try:
            self._now = now
            return action(self, request, rest)
        except BadRequest as error:
            return refusal(400, str(error))

    def stats(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        numbers = {"marketplace": self._marketplace.stats(), "productServer": self._product_server.stats()}
        return json_answer(200, numbers)

    def sellers(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        return json_answer(200, {seller_id: self._world.count(seller_id) for seller_id in self._world.sellers})

    def truth(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        truth = self._world.truth(_whole("itemNo", rest))
        return json_answer(200, truth) if truth is not None else refusal(404, f"no item {rest}")

    def compare(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        seller_id = request.query.get("seller")
        if seller_id is not None and seller_id not in self._world.sellers:
            raise BadRequest(f"no seller {seller_id}")
        found = self._product_server.compare(self._world, (seller_id,) if seller_id else None)
        shown = [asdict(mismatch) for mismatch in found[:_MISMATCHES_SHOWN]]
        return json_answer(200, {"mismatches": len(found), "first": shown})

    def events(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        after = _whole("after", request.query.get("after", "0"))
        return json_answer(200, [asdict(event) for event in self._product_server.events(after, _EVENTS_AT_ONCE)])

    def violations(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        return json_answer(200, [asdict(violation) for violation in self._product_server.violations])

    def mutate(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        count = _whole("count", request.query.get("count", ""))
        only = request.query.get("only")
        mix = {_member(MutationKind, "only", only): 1} if only else LIFELIKE
        how = request.query.get("how")
        if how is not None and how not in CHANGES:
            raise BadRequest(f"no change {how!r}; there are {', '.join(CHANGES)}")
        done = self._world.mutate(count, seeded_rng(request.query.get("seed", "0")), mix, how)
        mutations = [{"deed": m.kind.value, "itemNo": m.item_no, "sellerId": m.seller_id, "how": m.how} for m in done]
        return json_answer(200, {"done": mutations})

    def profile(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        name = request.query.get("name", "")
        if name not in PROFILES:
            raise BadRequest(f"no profile {name!r}; there are {', '.join(PROFILES)}")
        day = PROFILES[name]
        self._marketplace.chaos.become(day if self._latency_ms is None else day.with_latency(self._latency_ms))
        return json_answer(200, {"profile": name})

    def receiver(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        query = request.query
        behaviour = ServerBehaviour(
            mode=_member(ServerMode, "mode", query.get("mode", "")),
            probability=_share("probability", query.get("probability", "1")),
            requests=_whole("requests", query["requests"]) if "requests" in query else None,
            retry_after=_whole("retryAfter", query.get("retryAfter", "1")),
        )
        self._product_server.behave(behaviour)
        return json_answer(200, {"mode": behaviour.mode.value})

    def lose(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        self._product_server.lose_database()
        return json_answer(200, {"products": len(self._product_server)})

    def outage(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        query = request.query
        ailment = _member(FaultKind, "ailment", query.get("ailment", ""))
        if ailment is FaultKind.NONE:
            self._marketplace.chaos.end_outages()
            return json_answer(200, {"ailment": ailment.value})
        start = self._now + _seconds("in", query.get("in", "0"))
        end = start + _seconds("seconds", query["seconds"]) if "seconds" in query else inf
        item_no = _whole("itemNo", query["itemNo"]) if "itemNo" in query else None
        try:
            self._marketplace.plan(Outage(ailment, start, end, query.get("endpoint"), query.get("userAgent"), item_no))
        except ValueError as problem:
            raise BadRequest(str(problem)) from None
        return json_answer(200, {"ailment": ailment.value, "start": start, "end": end if isfinite(end) else None})

    def restart(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        at = self._now + _seconds("in", request.query.get("in", "0"))
        self._marketplace.restart(at)
        return json_answer(200, {"at": at})

    def requests(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        since = _seconds("since", request.query.get("since", "0"))
        until = _seconds("until", request.query["until"]) if "until" in request.query else inf
        found = self._marketplace.requests(since, until)
        counts = {
            "total": len(found),
            "byEndpoint": Counter(one.endpoint for one in found),
            "byIdentity": Counter(one.user_agent for one in found),
            "byStatus": Counter(str(one.status) for one in found),
        }
        return json_answer(200, {"now": self._now} | counts)

    def redesign(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        on = request.query.get("on", "true").lower() != "false"
        seller_id = request.query.get("seller")
        self._marketplace.renderer.redesign(Redesign() if on else None, (seller_id,) if seller_id else None)
        return json_answer(200, {"redesigned": on})

    def warm(self, request: SimulatedRequest, rest: str) -> SimulatedAnswer:
        self._marketplace.warm()
        return json_answer(200, {"warm": True})


_COMMANDS: dict[str, tuple[str, Action]] = {
    "stats": ("GET", Control.stats),
    "sellers": ("GET", Control.sellers),
    "truth": ("GET", Control.truth),
    "compare": ("GET", Control.compare),
    "events": ("GET", Control.events),
    "violations": ("GET", Control.violations),
    "mutate": ("POST", Control.mutate),
    "profile": ("POST", Control.profile),
    "receiver": ("POST", Control.receiver),
    "lose": ("POST", Control.lose),
    "outage": ("POST", Control.outage),
    "restart": ("POST", Control.restart),
    "requests": ("GET", Control.requests),
    "redesign": ("POST", Control.redesign),
    "warm": ("POST", Control.warm),
}


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequest(f"{name} must be a whole number, not {text!r}")
    return int(text)


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (isfinite(seconds) and seconds >= 0):
        raise BadRequest(f"{name} must be seconds from 0, not {text!r}")
    return seconds


def _share(name: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise BadRequest(f"{name} must be between 0 and 1, not {text!r}")
    return share


def _member(kind: type[E], name: str, text: str) -> E:
    for member in kind:
        if member.value == text:
            return member
    raise BadRequest(f"{name} must be one of {', '.join(str(member.value) for member in kind)}, not {text!r}")
