"""The API's description is whole, and its page shows it without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from sellerwatch.catalog.event_schemas import EVENT_SHAPES, event_schema
from sellerwatch.web.api.idempotency import EXEMPT

from .api_world import ApiWorld
from .walk import is_open, operations, walk


async def test_the_description_is_openapi_3_1_with_its_schemes_and_tags(world: ApiWorld) -> None:
    told = (await world.nobody.get("/openapi.json")).json
    assert told["openapi"].startswith("3.1")
    assert {scheme["type"] for scheme in told["components"]["securitySchemes"].values()} == {"http", "apiKey"}
    used = {tag for _, _, op in operations(world.admin.app) for tag in op["tags"]}
    assert used <= {tag["name"] for tag in told["tags"]}
    assert "HTTPValidationError" not in told["components"]["schemas"]


async def test_every_operation_says_every_refusal_there_is(world: ApiWorld) -> None:
    for method, path, op in operations(world.admin.app):
        needed = {"400", "413", "429", "500", "503"}
        needed |= set() if is_open(op) else {"401"}
        needed |= {"403"} if method != "GET" and not is_open(op) else set()
        assert needed <= set(op["responses"]), (method, path)
        assert "422" not in op["responses"]
        assert op.get("description"), (method, path)
        keys = [p["name"] for p in op.get("parameters", ())]
        assert ("Idempotency-Key" in keys) == (method == "POST" and not path.startswith(EXEMPT))


def _named(body: dict[str, Any]) -> str:
    """A body that may be left out is one of two shapes: the other is null."""
    return str(next(shape["$ref"] for shape in body.get("anyOf", [body]) if "$ref" in shape))


async def test_every_body_and_every_path_has_an_example(world: ApiWorld) -> None:
    told = (await world.nobody.get("/openapi.json")).json
    schemas = told["components"]["schemas"]
    for method, path, op in operations(world.admin.app):
        body = op.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if body is not None:
            schema: dict[str, Any] = schemas[_named(body).rpartition("/")[2]]
            assert any("examples" in field for field in schema["properties"].values()), (method, path)


async def test_operations_have_short_names_of_their_own(world: ApiWorld) -> None:
    names = [op["operationId"] for _, _, op in operations(world.admin.app)]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z]+([A-Z][a-z]+){0,3}", name)] == []
    assert {"runScheduleNow", "showProduct", "listMessages"} <= set(names)


async def test_the_product_server_finds_its_events_among_the_webhooks(world: ApiWorld) -> None:
    told = (await world.nobody.get("/openapi.json")).json
    assert list(told["webhooks"]) == list(EVENT_SHAPES)
    for event_type, hook in told["webhooks"].items():
        body = hook["post"]["requestBody"]["content"]["application/json"]["schema"]
        fields = told["components"]["schemas"][_named(body).rpartition("/")[2]]["properties"]
        assert fields["eventType"]["const"] == event_type
        assert {"webhook-signature", "Idempotency-Key"} <= {each["name"] for each in hook["post"]["parameters"]}


def _fields(told: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of a body and every parameter, wherever it is."""
    for schema in told["components"]["schemas"].values():
        yield from schema.get("properties", {}).items()
    for _, _, op in walk(told):
        yield from ((each["name"], each["schema"]) for each in op.get("parameters", ()))


async def test_product_data_is_typed_and_times_are_date_times_everywhere(world: ApiWorld) -> None:
    told = (await world.nobody.get("/openapi.json")).json
    plain = {"type": "object", "additionalProperties": True}
    for name, field in _fields(told):
        choices = [{k: v for k, v in each.items() if k in plain} for each in field.get("anyOf", [field])]
        if name in ("productData", "payload"):
            assert plain not in choices
            assert "/ProductData" in str(field) or "/MessagePayload" in str(field)
        if re.search(r"At$|^(at|since|until|notBefore|timestamp)$", name) and {"type": "string"} in choices:
            assert "date-time" in str(field), name
    assert "x-shape" not in str(told)


@pytest.mark.parametrize("event_type", EVENT_SHAPES)
async def test_the_schema_of_an_event_needs_no_login(world: ApiWorld, event_type: str) -> None:
    told = await world.nobody.get(f"/schemas/events/{event_type}.json")
    assert (told.status, told.json) == (200, event_schema(event_type))


async def test_an_unknown_event_type_is_not_found(world: ApiWorld) -> None:
    told = await world.nobody.get("/schemas/events/PRODUCT_SOLD.json")
    assert (told.status, told.json["errorCode"]) == (404, "EVENT_TYPE_NOT_FOUND")


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "action")]


async def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(world: ApiWorld) -> None:
    shown = await world.nobody.get("/docs")
    assert (shown.status, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = Links()
    links.feed(shown.body.decode())
    assert not {"script", "img", "iframe", "link"} & links.tags
    assert all(link.startswith(("#", "/openapi.json")) for link in links.found)
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for _, path, _ in operations(world.admin.app):
        assert path in shown.body.decode()


async def test_the_policy_names_the_pages_own_style(world: ApiWorld) -> None:
    shown = await world.nobody.get("/docs")
    style = re.search(r"<style>(.*?)</style>", shown.body.decode(), re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in shown.headers["content-security-policy"]
