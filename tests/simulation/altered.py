"""A door in which a test may change what the marketplace answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
from msgspec import structs

from sellerwatch.marketplaces.ports import Reply, Transport

Change = Callable[[Any], Any]


class Altered:
    """Passes everything on; `lists`, `details` and `options` may change the JSON of good answers on its way back. A
    list's change is given the page's number too. A status instead of JSON is answered without a body."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.lists: Callable[[int, Any], Any] = lambda _, page: page
        self.details: Change = lambda detail: detail
        self.options: Change = lambda options: options
        self.asked: list[str] = []

    def stop(self) -> None:
        self.lists, self.details, self.options = (lambda _, page: page), (lambda x: x), (lambda x: x)

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        reply = await self._transport.get(url, headers)
        path, query = urlsplit(url).path, parse_qs(urlsplit(url).query)
        self.asked.append(path)
        if reply.status != 200 or not path.startswith("/mustit-api"):
            return reply
        found = orjson.loads(reply.body)
        if "mini-shop-search" in path:
            found = self.lists(int(query["pageNo"][0]), found) if query["pageSize"] != ["1"] else found
        else:
            found = self.details(found) if path.endswith("/detail/top") else self.options(found)
        return Reply(found, (), b"") if isinstance(found, int) else structs.replace(reply, body=orjson.dumps(found))


def info_of(detail: Any) -> dict[str, Any]:
    """The module of a detail that most facts are in."""
    info: dict[str, Any] = next(m["data"] for m in detail["moduleList"] if m["type"] == "ProductInfoModule")
    return info


def described_by(text: str) -> Change:
    """Every product's description becomes this."""

    def change(detail: Any) -> Any:
        for module in detail["moduleList"]:
            if module["type"] == "ProductDetailInfoModule":
                module["data"]["descriptionMarkUp"] = text
        return detail

    return change
