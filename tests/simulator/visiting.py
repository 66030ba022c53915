"""A client of the tests: it talks to a simulator in process, and reads the marketplace's bodies on its own.

The reading shares no code with the simulator's truth: it is the contract and event.md written down a second time.
"""

import re
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import orjson

from sellerwatch.simulator.events import signature
from sellerwatch.simulator.simulator import EVENTS_PATH, Simulator
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest

NOW = 1_795_000_000.0
AGENT = "Mozilla/5.0 (test)"
LIST = "/mustit-api/facade-api/v1/searchmini-shop-search"


def open_simulator(**knobs: Any) -> Simulator:
    """A small simulator whose limits are out of the way, unless the test says otherwise."""
    return Simulator(**({"window_limit": 10**9, "requests_per_second": None, "sellers": 2, "products": 50} | knobs))


def detail_path(item_no: int) -> str:
    return f"/mustit-api/facade-api/v1/item/{item_no}/detail/top"


def options_path(item_no: int) -> str:
    return f"/mustit-api/legacy-api/v1/auction_products/{item_no}/options"


@dataclass
class Visitor:
    """One identity with a session."""

    simulator: Simulator
    agent: str = AGENT
    headers: dict[str, str] = field(default_factory=dict)

    def enter(self, now: float = NOW) -> "Visitor":
        """Get a session, trying again while the marketplace fails."""
        for _ in range(100):
            answer = self.simulator.answer(SimulatedRequest("GET", "/", {}, {"user-agent": self.agent}), now)
            if cookies := cookies_of(answer):
                self.headers = credentials(self.agent, cookies)
                return self
        raise AssertionError("no session in 100 tries")

    def get(self, path: str, now: float = NOW, **query: object) -> SimulatedAnswer:
        texts = {name: str(value) for name, value in query.items()}
        return self.simulator.answer(SimulatedRequest("GET", path, texts, self.headers), now)

    def page(self, seller: str, page_no: int = 0, page_size: int = 500, now: float = NOW) -> SimulatedAnswer:
        return self.get(LIST, now, sellerId=seller, pageNo=page_no, pageSize=page_size, order="LATEST")

    def detail(self, item_no: int, now: float = NOW) -> SimulatedAnswer:
        return self.get(detail_path(item_no), now)

    def options(self, item_no: int, now: float = NOW) -> SimulatedAnswer:
        return self.get(options_path(item_no), now)


def cookies_of(answer: SimulatedAnswer) -> dict[str, str]:
    values = (value.partition(";")[0] for name, value in answer.headers if name == "set-cookie")
    return dict(value.split("=", 1) for value in values)


def credentials(agent: str, cookies: dict[str, str]) -> dict[str, str]:
    return {
        "user-agent": agent,
        "authorization": f"Bearer {cookies['token']}",
        "cookie": f"nid={cookies['nid']}; mustit_uid={cookies['mustit_uid']}",
    }


def header(answer: SimulatedAnswer, name: str) -> str | None:
    return dict(answer.headers).get(name)


def read_product(entry: dict[str, Any], detail: dict[str, Any], options: list[dict[str, Any]]) -> dict[str, Any]:
    """productData, put together from the three parts of a product."""
    modules = {module["type"]: module["data"] for module in detail["moduleList"]}
    info, about = modules["ProductInfoModule"], modules["ProductDetailInfoModule"]
    (shipping,) = (item["data"] for item in modules["ShippingModule"]["items"] if item["type"] == "SHIPPING")
    images: list[str] = []
    for image in entry["imageUrlList"] + modules["ProductBannersModule"]["images"]:
        if image not in images:
            images.append(image)
    levels = [level for level in ("header", "large", "medium", "small") if info.get(f"{level}CategoryCode")]
    wanted = ("optionNo", "color", "size", "stock", "sizeGuide")
    return {
        "itemNo": info["itemNo"],
        "sellerId": info["sellerId"],
        "name": info["itemName"],
        "brand": {"code": info["brandCode"], "name": info["brandName"], "nameKr": info.get("brandNameKr") or None},
        "categories": [
            {"level": level, "code": info[f"{level}CategoryCode"], "name": info[f"{level}Category"]} for level in levels
        ],
        "prices": {
            "normal": info["normalPrice"],
            "selling": info["sellingPrice"],
            "discount": info["discountPrice"],
            "rate": info["discountRate"],
        },
        "stock": info["stock"],
        "soldOut": info["isSoldOut"],
        "itemStatus": about.get("itemStatus") or None,
        "originCountry": about.get("originCountry") or None,
        "shipping": {
            "type": shipping["shippingType"],
            "fee": shipping["shippingFee"],
            "feeType": shipping["shippingFeeType"],
            "averageDays": _days(shipping.get("averageDeliveryDay")),
        },
        "images": images,
        "descriptionHtml": about["descriptionMarkUp"],
        "options": [{name: option[name] for name in wanted} for option in sorted(options, key=_option_no)],
        "tags": [tag["title"] for tag in entry["tagList"]],
    }


def _option_no(option: dict[str, Any]) -> int:
    return int(option["optionNo"])


def _days(day: dict[str, str] | None) -> int | None:
    for text in (day["focusText"], day["text"]) if day else ():
        if numbers := re.findall(r"\d+", text):
            return int(numbers[0])
    return None


def event(kind: str, data: dict[str, Any], version: int = 1, **extra: Any) -> dict[str, Any]:
    """An event as event.md has it."""
    return {
        "eventId": str(uuid4()),
        "eventType": f"PRODUCT_{kind}",
        "itemNo": data["itemNo"],
        "sellerId": data["sellerId"],
        "version": version,
        "occurredAt": "2026-11-15T06:04:05.123456Z",
        "changes": [],
        "productData": data,
    } | extra


def posted(told: dict[str, Any], secret: str | None = None, **headers: str) -> SimulatedRequest:
    """The request that delivers an event, signed when there is a secret."""
    body = orjson.dumps(told)
    sent = {"idempotency-key": told["eventId"], "webhook-id": told["eventId"], "webhook-timestamp": "1795000000"}
    if secret:
        sent["webhook-signature"] = signature(secret, told["eventId"], "1795000000", body)
    return SimulatedRequest("POST", EVENTS_PATH, {}, sent | headers, body)
