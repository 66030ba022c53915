"""Bodies, strings and paths made to break things: refused with the right code in our shape, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from tests.world import all_rows

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.web.api.bodies import unique_names

from .api_world import ApiWorld
from .caller import Reply
from .walk import fill, operations

SHAPE = {"errorCode", "message", "timestamp", "path", "details"}
JSON = {"content-type": "application/json"}
SQL = (
    "x' OR '1'='1",
    "x'; DROP TABLE sellers; --",
    '" UNION SELECT password_hash FROM users --',
    "1); DELETE FROM sellers; --",
    "%' ESCAPE '\\",
    ":seller_id",
)


def in_shape(reply: Reply) -> bool:
    return SHAPE - {"details"} <= set(reply.json) <= SHAPE and reply.headers["content-type"] == "application/json"


BROKEN = {
    "nothing": b"",
    "cut off": b'{"sellerId": "x", "name"',
    "no JSON": b"sellerId=x&name=x",
    "two documents": b'{"sellerId": "x", "name": "x"} {}',
    "a comment": b'{"sellerId": "x", "name": "x"} // yes',
    "single quotes": b"{'sellerId': 'x', 'name': 'x'}",
    "NaN": b'{"sellerId": "x", "name": "x", "crawlingIntervalDays": NaN}',
    "NaN in a list": b"[NaN, Infinity, -Infinity]",
    "a huge number": b'{"sellerId": "x", "name": "x", "crawlingIntervalDays": ' + b"9" * 5000 + b"}",
    "a number beyond 64 bits": b'{"sellerId": "x", "name": "x", "crawlingIntervalDays": 99999999999999999999}',
    "a real number": b'{"sellerId": "x", "name": "x", "crawlingIntervalDays": 1.0}',
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "deep inside a field": b'{"sellerId": ' + b"[" * 5_000 + b"]" * 5_000 + b', "name": "x"}',
    "no UTF-8": b'{"sellerId": "x", "name": "\xff\xfe"}',
    "UTF-16": '{"sellerId": "x", "name": "x"}'.encode("utf-16"),
    "half a character": b'{"sellerId": "x", "name": "\\ud800"}',
    "half a character in a name": b'{"\\udfff": "x"}',
    "one name twice": b'{"sellerId": "x", "name": "x", "name": "y"}',
    "one name twice, deep": b'{"sellerId": "x", "name": "x", "interval": {"amount": 1, "amount": 2, "unit": "DAYS"}}',
    "an unknown name": b'{"sellerId": "x", "name": "x", "__proto__": {}}',
    "null": b"null",
    "a nul in an id": b'{"sellerId": "a\\u0000b", "name": "x"}',
    "a nul in a name": b'{"sellerId": "x", "name": "a\\u0000b"}',
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_body_that_cannot_be_read_is_400_and_changes_nothing(
    world: ApiWorld, inline_store: SqlStore, name: str
) -> None:
    before = await inline_store.read(all_rows)
    refused = await world.admin.ask("POST", "/api/v1/sellers", raw=BROKEN[name], headers=JSON)
    assert refused.status == 400, refused.body[:300]
    assert in_shape(refused)
    assert len(refused.body) < 20_000
    assert await inline_store.read(all_rows) == before


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/x"])
async def test_a_body_of_another_kind_is_400(world: ApiWorld, inline_store: SqlStore, kind: str) -> None:
    before = await inline_store.read(all_rows)
    raw = b'{"sellerId": "x", "name": "x"}'
    refused = await world.admin.ask("POST", "/api/v1/sellers", raw=raw, headers={"content-type": kind})
    assert refused.status == 400
    assert in_shape(refused)
    assert await inline_store.read(all_rows) == before


@pytest.mark.parametrize("stated", ["2000000", "-1", "²", "1e9", "0x10", "10"])
async def test_a_body_too_large_is_413_whatever_length_it_states(
    world: ApiWorld, inline_store: SqlStore, stated: str
) -> None:
    before = await inline_store.read(all_rows)
    raw = b'{"sellerId": "x", "name": "' + b"x" * 1_100_000 + b'"}'
    refused = await world.admin.ask("POST", "/api/v1/sellers", raw=raw, headers={"content-length": stated, **JSON})
    assert (refused.status, refused.json["errorCode"]) == (413, "BODY_TOO_LARGE")
    assert await inline_store.read(all_rows) == before


@pytest.mark.parametrize("length", [{}, {"content-length": "10"}, {"transfer-encoding": "chunked"}])
async def test_a_body_over_64_kb_needs_a_valid_credential(world: ApiWorld, length: dict[str, str]) -> None:
    raw = b'{"user": "x", "password": "' + b"x" * 70_000 + b'"}'
    forged = world.with_token("x.y.z")
    for caller in (world.nobody, forged):
        refused = await caller.ask("POST", "/api/v1/auth/login", raw=raw, headers={**JSON, **length})
        assert (refused.status, refused.json["errorCode"]) == (413, "BODY_TOO_LARGE")
    large = b'{"sellerIds": ["' + b"x" * 70_000 + b'"]}'
    if "content-length" not in length:
        assert (await world.viewer.ask("POST", "/api/v1/sellers", raw=large, headers={**JSON, **length})).status != 413


class CountedName(str):
    """A name that counts how often it is compared with another one."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other) is True

    __hash__ = str.__hash__


def test_finding_a_name_that_comes_twice_takes_as_many_comparisons_as_there_are_names() -> None:
    CountedName.compared = 0
    names = [CountedName(f"name {number}") for number in range(5000)]
    with pytest.raises(ValueError, match="name_twice"):
        unique_names([(name, None) for name in [*names, CountedName("name 4999")]])
    assert CountedName.compared < 2 * len(names)


async def test_an_answer_has_at_most_twenty_problems_of_fields(world: ApiWorld) -> None:
    raw = orjson.dumps({f"{number}{'x' * 2000}": 1 for number in range(30)})
    refused = await world.admin.ask("POST", "/api/v1/sellers", raw=raw, headers=JSON)
    assert refused.status == 400
    assert len(refused.json["details"]) == 20
    assert len(refused.body) < 10_000


def strings(schema: dict[str, Any], components: dict[str, Any]) -> Iterator[str]:
    """Names of the text fields of a body."""
    if "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    for name, field in schema.get("properties", {}).items():
        kinds = [field, *field.get("anyOf", ())]
        if any(kind.get("type") == "string" for kind in kinds):
            yield name


@pytest.mark.parametrize("text", SQL)
async def test_sql_is_text_like_any_other_in_every_parameter(
    world: ApiWorld, inline_store: SqlStore, text: str
) -> None:
    """Paths and queries of every route: found nothing or refused, but never run. The only conflict is that an embedded
    queue has no dead letters."""
    await world.admin.post("/api/v1/sellers", {"sellerId": "seller_0001", "name": "가게"})
    before = await inline_store.read(all_rows)
    for method, path, operation in operations(world.admin.app):
        if path == "/api/v1/events":
            continue
        query = {p["name"]: text for p in operation.get("parameters", ()) if p["in"] == "query"}
        for given in ({}, *({name: value} for name, value in query.items())):
            if method != "GET" and not (given or "{" in path):
                continue
            reply = await world.admin.ask(method, fill(path, text.replace("/", "")), {}, query=given)
            is_fine = reply.status in (200, 400, 401, 404) or path.startswith("/actuator")
            assert is_fine or reply.json["errorCode"] == "NO_DEAD_LETTERS", (method, path, given, reply.body)
            assert "syntax" not in reply.body.decode().lower()
    assert await inline_store.read(all_rows) == before


@pytest.mark.parametrize("text", SQL)
async def test_sql_in_a_body_is_kept_as_the_text_it_is_or_refused(world: ApiWorld, text: str) -> None:
    assert (await world.admin.post("/api/v1/sellers", {"sellerId": text, "name": text})).status == 400
    made = await world.admin.post("/api/v1/sellers", {"sellerId": "x", "name": text})
    assert (made.status, made.json["name"]) == (201, text)
    again = await world.admin.post("/api/v1/sellers", {"sellerId": "x", "name": text})
    assert again.status == 409
    unit = {"sellerId": "y", "name": "y", "interval": {"amount": 1, "unit": text}}
    assert (await world.admin.post("/api/v1/sellers", unit)).status == 400
    assert (await world.viewer.get("/api/v1/sellers")).json["totalElements"] == 1


PATHS = [
    "/api/v1/sellers/../sellers",
    "/api/v1/sellers/..",
    "/api/v1/../../etc/passwd",
    "/api/v1/sellers/../../internal/crawling/trigger",
    "//api/v1/sellers",
    "/api//v1/sellers",
    "/api/v1/sellers/",
    "/api/v1/sellers//",
    "/api/v1/sellers//activate",
    "/API/V1/SELLERS",
    "/api/v1/sellers;x=1",
    "/api/v1/sellers\x00",
    "/api/v1/sellers/a\x00b",
    "/api/v1/sellers/\x7f",
    "/api/v1/sellers/\ufffd/../x",
    f"/api/v1/sellers/{'x' * 10_000}",
    f"/{'x/' * 5_000}",
    "/openapi.json/",
    "/docs/..",
    "/static/../../pyproject.toml",
    "/.env",
    "*",
    "",
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: repr(path[:40]))
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_a_path_that_plays_tricks_leads_nowhere(
    world: ApiWorld, inline_store: SqlStore, method: str, path: str
) -> None:
    before = await inline_store.read(all_rows)
    body = None if method == "GET" else {"sellerId": "x", "name": "x"}
    refused = await world.admin.ask(method, path, body)
    assert refused.status in (400, 404, 405), refused.body
    assert in_shape(refused)
    assert "location" not in refused.headers
    assert await inline_store.read(all_rows) == before


@pytest.mark.parametrize("host", ["[", "evil.example", "a b", "", "localhost:99999999", "é"])
async def test_a_host_that_plays_tricks_changes_no_answer(world: ApiWorld, host: str) -> None:
    reply = await world.viewer.ask("GET", "/api/v1/sellers", headers={"host": host})
    assert reply.status == 200
    refused = await world.viewer.ask("GET", "/api/v1/nothing", headers={"host": host})
    assert (refused.status, refused.json["path"]) == (404, "/api/v1/nothing")
    if host:
        assert host not in refused.body.decode()


async def test_every_answer_carries_the_safe_headers(world: ApiWorld) -> None:
    for reply in (
        await world.viewer.get("/api/v1/sellers"),
        await world.nobody.get("/api/v1/sellers"),
        await world.nobody.get("/nowhere"),
        await world.nobody.ask("DELETE", "/api/v1/sellers"),
    ):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "server" not in reply.headers


async def test_what_a_path_takes_is_said_whole(world: ApiWorld) -> None:
    refused = await world.admin.ask("DELETE", "/api/v1/sellers")
    assert (refused.status, refused.json["errorCode"]) == (405, "METHOD_NOT_ALLOWED")
    assert refused.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    asked = await world.nobody.ask("OPTIONS", "/api/v1/sellers/x/interval")
    assert (asked.status, asked.headers["allow"], asked.body) == (204, "OPTIONS, PATCH", b"")
    assert (await world.nobody.ask("OPTIONS", "/nowhere")).status == 404


async def test_head_is_get_without_the_body(world: ApiWorld) -> None:
    got, headed = await world.viewer.get("/api/v1/sellers"), await world.viewer.ask("HEAD", "/api/v1/sellers")
    assert (headed.status, headed.body) == (200, b"")
    assert headed.headers == got.headers
    assert (await world.nobody.ask("HEAD", "/api/v1/sellers")).status == 401
