"""What must be shown, computed again from the logs of the marketplace and the receiver alone.

Nothing here reads the database: a product is known from the lists that were answered, a part was read when its answer
came, an event exists because the receiver has it. Runs are given, because neither log knows what a run is.
"""

from __future__ import annotations

import math
from bisect import bisect, bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import orjson

from sellerwatch.crawling.execution import Execution
from sellerwatch.kernel.clock import Clock
from sellerwatch.marketplaces.ports import Reply, Transport, TransportFailed
from sellerwatch.simulator.chaos import Outage
from sellerwatch.simulator.product_server import AppliedEvent

MINUTE = 60.0
LATENCIES = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
DELIVERIES = (1, 2, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400)
#: How long after an outage a circuit is open at the most, until a probe finds out.
LONGEST_PROBE = 21 * MINUTE


class Asked(NamedTuple):
    """A request and its answer. `status` is 0 without an answer, `listed` what a whole list page had on it."""

    at: float
    endpoint: str
    seller_id: str
    item_no: int | None
    status: int
    milliseconds: float
    listed: tuple[int, ...] = ()


class Recorder:
    """A transport that writes down every request to the marketplace's API."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport, self._clock = transport, clock
        self.log: list[Asked] = []
        self._seller_of: dict[int, str] = {}

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        began, reply = self._clock.monotonic(), None
        at = self._clock.now().timestamp()
        try:
            reply = await self._transport.get(url, headers)
            return reply
        except TransportFailed:
            reply = None
            raise
        finally:
            self._record(url, at, 1000 * (self._clock.monotonic() - began), reply)

    def _record(self, url: str, at: float, milliseconds: float, reply: Reply | None) -> None:
        path, query = urlsplit(url).path, parse_qs(urlsplit(url).query)
        status = 0 if reply is None else reply.status
        if "mini-shop-search" in path:
            (seller_id,) = query["sellerId"]
            items: tuple[int, ...] = ()
            if query["pageSize"] == ["1"]:
                self.log.append(Asked(at, "total", seller_id, None, status, milliseconds))
                return
            if reply is not None and status == 200:
                items = tuple(int(each["itemNo"]) for each in orjson.loads(reply.body)["items"])
                self._seller_of.update(dict.fromkeys(items, seller_id))
            self.log.append(Asked(at, "list", seller_id, None, status, milliseconds, items))
        elif path.endswith(("/detail/top", "/options")):
            endpoint = "options" if path.endswith("/options") else "detail"
            item_no = int(path.removesuffix("/detail/top").removesuffix("/options").rpartition("/")[2])
            self.log.append(Asked(at, endpoint, self._seller_of[item_no], item_no, status, milliseconds))


@dataclass
class Logs:
    """All that happened, as the marketplace and the receiver have it."""

    asked: Sequence[Asked]
    events: Sequence[AppliedEvent]
    _good: dict[tuple[str, int], list[float]] = field(init=False)
    _gone: dict[int, list[float]] = field(init=False)
    _first_listed: dict[str, dict[int, float]] = field(init=False)

    def __post_init__(self) -> None:
        self._good, self._gone, self._first_listed = defaultdict(list), defaultdict(list), defaultdict(dict)
        for one in self.asked:
            if one.status == 200 and one.item_no is not None:
                self._good[one.endpoint, one.item_no].append(one.at)
            for item_no in one.listed:
                self._good["list", item_no].append(one.at)
                self._first_listed[one.seller_id].setdefault(item_no, one.at)
        for event in self.events:
            if event.event_type == "PRODUCT_DELETED":
                self._gone[event.item_no].append(occurred(event))

    def _read(self, endpoint: str, item_no: int, at: float) -> float | None:
        times = self._good.get((endpoint, item_no), [])
        return times[found - 1] if (found := bisect_left(times, at)) else None

    def live_items(self, seller_id: str, at: float) -> set[int]:
        """The items that were on a list, and are not known to be gone since."""
        items = [item_no for item_no, first in self._first_listed[seller_id].items() if first < at]
        return {i for i in items if not any(self._read("list", i, at) <= gone < at for gone in self._gone[i])}  # type: ignore[operator]

    def share_in_time(self, seller_id: str, at: float, since: float, run: Execution | None) -> float:
        """The share of live products with every part read since then; what an open run has just found is left out
        until it is read."""
        began = math.inf if run is None else (run.started_at or run.created_at).timestamp()
        products = in_time = 0
        for item_no in self.live_items(seller_id, at):
            parts = [self._read(endpoint, item_no, at) for endpoint in ("list", "detail", "options")]
            if None in parts and self._good["list", item_no][0] >= began:
                continue
            products += 1
            in_time += all(part is not None and part >= since for part in parts)
        return math.floor(10_000 * in_time / products) / 10_000 if products else 1.0

    def undelivered(self, seller_id: str, at: float) -> int:
        """How many events wait for more than a minute."""
        mine = (event for event in self.events if event.seller_id == seller_id)
        return sum(occurred(event) < at - MINUTE and event.received_at > at for event in mine)

    def failed_requests(self, outage: Outage, at: float) -> int:
        """How many requests an outage has met until then."""
        of_endpoint = [one for one in self.asked if outage.endpoint in (None, one.endpoint)]
        return sum(outage.start <= one.at < min(at, outage.end) and one.status != 200 for one in of_endpoint)

    def day(self, seller_id: str, since: float, until: float, run_starts: Sequence[float]) -> dict[str, Any]:
        """Everything that a seller's day has, by the names of `DayMetrics`; for days that no run lasted beyond."""
        asked = [one for one in self.asked if one.seller_id == seller_id and since <= one.at < until]
        mine = [event for event in self.events if event.seller_id == seller_id]
        found = [event for event in mine if since <= occurred(event) < until]
        types, arrived = Counter(event.event_type for event in found), [*_between(mine, since, until)]
        tasks = [one for one in asked if one.endpoint != "total"]
        lists = [one for one in self.asked if one.seller_id == seller_id and one.at < until and one.listed]
        # A probe may have asked for the same as a task of that run.
        good = {(bisect(run_starts, one.at), one.endpoint, one.item_no) for one in tasks if one.status in (200, 404)}
        before = Counter(event.event_type for event in mine if occurred(event) < until)
        return {
            "waiting_tasks": 0,
            "in_progress_tasks": 0,
            "completed_tasks": len(good),
            "failed_tasks": 0,
            "seen_products": len({one.item_no for one in tasks if one.item_no is not None and one.status == 200}),
            "new_products": types["PRODUCT_CREATED"],
            "changed_products": len({event.item_no for event in found if event.event_type == "PRODUCT_UPDATED"}),
            "removed_products": types["PRODUCT_DELETED"],
            "complete_products": before["PRODUCT_CREATED"] - before["PRODUCT_DELETED"],
            "total_products": len(lists[-1].listed) if lists else 0,
            "delivered_events": len(arrived),
            "requests": len(asked),
            "changes": dict(change_kinds(found)),
            "latency": _buckets((one.milliseconds for one in asked), LATENCIES),
            "delivery": _buckets((event.received_at - occurred(event) for event in arrived), DELIVERIES),
        }


def occurred(event: AppliedEvent) -> float:
    return datetime.fromisoformat(event.occurred_at).timestamp()


def change_kinds(events: Iterable[AppliedEvent]) -> Counter[str]:
    """The kinds of changes in what the receiver was told, by the rules of docs/catalogue.md written once more."""
    found: Counter[str] = Counter()
    for event in events:
        if event.event_type == "PRODUCT_CREATED":
            found["new"] += 1
        elif event.event_type == "PRODUCT_DELETED":
            found["gone"] += 1
        for change in event.changes if event.event_type == "PRODUCT_UPDATED" else ():
            name = change["field"]
            inside = name.partition("]")[2] if name.startswith("options[") else None
            if inside == "":
                found["option_added" if change["before"] is None else "option_removed"] += 1
            elif inside is not None:
                found["stock" if inside == ".stock" else "option_changed"] += 1
            elif name == "soldOut":
                found["sold_out" if change["after"] else "back_in_stock"] += 1
            else:
                names = {"prices": "price", "stock": "stock", "images": "image", "tags": "tag", "brand": "brand"}
                names |= {"name": "text", "descriptionHtml": "text", "categories": "category", "shipping": "shipping"}
                found[names.get(name.partition(".")[0], "attribute")] += 1
    return found


def _between(events: Iterable[AppliedEvent], since: float, until: float) -> Iterator[AppliedEvent]:
    return (event for event in events if since <= event.received_at < until)


def _buckets(values: Iterable[float], bounds: Sequence[int]) -> dict[str, int]:
    return dict(Counter(next((str(bound) for bound in bounds if value <= bound), "inf") for value in values))
