"""Whoever has no right credential is refused with the right code, and nothing is changed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from tests.builders import NOW
from tests.world import all_rows

from sellerwatch.adapters.sql.store import SqlStore

from .api_world import KEYS, SECRET, ApiWorld
from .walk import fill, is_open, operations

SECOND = int(NOW.timestamp())
GOOD: dict[str, Any] = {
    "sub": "admin@practice",
    "role": "admin",
    "iss": "sellerwatch",
    "aud": "sellerwatch",
    "iat": SECOND,
    "exp": SECOND + 600,
}
RSA_PUBLIC = b"-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAL\n-----END PUBLIC KEY-----\n"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], claims: Any, key: bytes = SECRET.encode(), hash_: Any = hashlib.sha256) -> str:
    """A token as no library would make it."""
    said = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{said}.{b64(hmac.new(key, said.encode(), hash_).digest())}"


def signed(**changed: Any) -> str:
    return by_hand({"alg": "HS256", "typ": "JWT"}, {k: v for k, v in {**GOOD, **changed}.items() if v is not ...})


def unsigned(alg: str) -> str:
    return f"{b64(json.dumps({'alg': alg, 'typ': 'JWT'}).encode())}.{b64(json.dumps(GOOD).encode())}."


FORGED = {
    "alg none": unsigned("none"),
    "alg None": unsigned("None"),
    "alg nOnE": unsigned("nOnE"),
    "alg none with a signature": by_hand({"alg": "none"}, GOOD),
    "alg HS512, right key": by_hand({"alg": "HS512"}, GOOD, hash_=hashlib.sha512),
    "alg HS384, right key": by_hand({"alg": "HS384"}, GOOD, hash_=hashlib.sha384),
    "alg RS256 with our secret as its key": by_hand({"alg": "RS256"}, GOOD),
    "signed with a public key": by_hand({"alg": "HS256"}, GOOD, key=RSA_PUBLIC),
    "alg missing": by_hand({"typ": "JWT"}, GOOD),
    "alg a list": by_hand({"alg": ["HS256"]}, GOOD),
    "a key of its own in the header": by_hand(
        {"alg": "HS256", "jwk": {"kty": "oct", "k": b64(b"mine")}, "kid": "../../dev/null"}, GOOD, key=b"mine"
    ),
    "wrong key": jwt.encode(GOOD, "another secret of thirty-two characters", algorithm="HS256"),
    "empty key": by_hand({"alg": "HS256"}, GOOD, key=b""),
    "begins later": signed(nbf=SECOND + 600),
    "issued later": signed(iat=SECOND + 600),
    "for somebody else": signed(aud="another"),
    "for several": signed(aud=["another", "others"]),
    "by somebody else": signed(iss="another"),
    "an unknown role": signed(role="root"),
    "a role that is a list": signed(role=["admin"]),
    "an empty name": signed(sub=""),
    "a name without end": signed(sub="x" * 91),
    "a name that is a number": signed(sub=7),
    "exp is no number": signed(exp="soon"),
    "exp is true": signed(exp=True),
    "exp is NaN": signed(exp=float("nan")),
    "exp is endless": signed(exp=float("inf")),
    "exp beyond numbers": signed(exp=10**400),
    "claims are a list": by_hand({"alg": "HS256"}, [GOOD]),
    "not base64": "a.b.c",
    "four parts": f"{signed()}.x",
    "no text": "é",
    "very long": "x" * 5000,
    **{f"without {name}": signed(**{name: ...}) for name in GOOD},
}
EXPIRED = {"expired": signed(iat=SECOND - 700, exp=SECOND - 1), "expires now": signed(exp=SECOND)}


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_token_is_none(world: ApiWorld, inline_store: SqlStore, name: str) -> None:
    before = await inline_store.read(all_rows)
    forger = world.with_token(FORGED[name])
    read = await forger.get("/api/v1/sellers")
    written = await forger.post("/api/v1/sellers", {"sellerId": "x", "name": "x"})
    assert [(r.status, r.json["errorCode"]) for r in (read, written)] == [(401, "NOT_LOGGED_IN")] * 2
    assert read.headers["www-authenticate"] == "Bearer"
    assert FORGED[name] not in written.body.decode()
    assert await inline_store.read(all_rows) == before


@pytest.mark.parametrize("name", EXPIRED)
async def test_a_token_that_was_valid_once_is_told_so(world: ApiWorld, name: str) -> None:
    refused = await world.with_token(EXPIRED[name]).get("/api/v1/sellers")
    assert (refused.status, refused.json["errorCode"]) == (401, "TOKEN_EXPIRED")


async def test_a_token_that_is_right_is_taken(world: ApiWorld) -> None:
    for token in (signed(), signed(nbf=SECOND), signed(aud=["others", "sellerwatch"]), signed(iat=SECOND + 5)):
        assert (await world.with_token(token).get("/api/v1/sellers")).status == 200


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Basic YTpi", "bearer{}", "Token {}", "{}"])
async def test_a_header_that_is_no_bearer_is_none(world: ApiWorld, given: str) -> None:
    headers = {"authorization": given.replace("{}", signed())}
    refused = await world.nobody.ask("GET", "/api/v1/sellers", headers=headers)
    assert (refused.status, refused.json["errorCode"]) == (401, "NOT_LOGGED_IN")


async def test_nobody_reads_or_changes_anything(world: ApiWorld, inline_store: SqlStore) -> None:
    """Every route there is but those that are open by intent, found by walking what the app documents."""
    before = await inline_store.read(all_rows)
    for method, path, operation in operations(world.admin.app):
        if is_open(operation):
            continue
        refused = await world.nobody.ask(method, fill(path), {})
        assert refused.status == 401, (method, path, refused.body)
        assert set(refused.json) <= {"errorCode", "message", "timestamp", "path", "details"}
    assert await inline_store.read(all_rows) == before


OPEN = {
    ("POST", "/api/v1/auth/login"),
    ("POST", "/api/v1/auth/password"),
    ("GET", "/actuator/health"),
    ("GET", "/actuator/health/liveness"),
    ("GET", "/actuator/health/readiness"),
    ("GET", "/schemas/events/{eventType}.json"),
}


#: Where a viewer may end what is their own; `test_log_ins.py` has what is not.
OWN = {"/api/v1/auth/sessions/{sessionId}"}


async def test_only_what_is_meant_to_be_open_is(world: ApiWorld) -> None:
    found = {(method, path) for method, path, op in operations(world.admin.app) if is_open(op)}
    assert found <= OPEN


async def test_a_viewer_changes_nothing_on_any_route(world: ApiWorld, inline_store: SqlStore) -> None:
    before = await inline_store.read(all_rows)
    tried = 0
    for method, path, operation in operations(world.admin.app):
        if method == "GET" or is_open(operation) or path in OWN:
            continue
        headers = {} if path.startswith("/api/internal") else {"x-api-key": "wrong"}
        refused = await world.viewer.ask(method, fill(path), {}, headers=headers)
        expected = 401 if path.startswith("/api/internal") else 403
        assert refused.status == expected, (method, path, refused.body)
        tried += 1
    assert tried >= 6
    assert await inline_store.read(all_rows) == before


@pytest.mark.parametrize("key", ["", " ", KEYS[0][:-1], f"{KEYS[0]} ", KEYS[0].upper(), f"{KEYS[0]},{KEYS[1]}", "é"])
async def test_a_wrong_key_starts_nothing(world: ApiWorld, inline_store: SqlStore, key: str) -> None:
    before = await inline_store.read(all_rows)
    asked = await world.admin.ask(
        "POST", "/api/internal/crawling/trigger", {"sellerId": "x"}, headers={"x-api-key": key}
    )
    assert (asked.status, asked.json["errorCode"]) == (401, "WRONG_API_KEY")
    assert await inline_store.read(all_rows) == before


async def test_no_secret_shows_where_the_credentials_are_shown(world: ApiWorld) -> None:
    shown = f"{world.credentials!r} {world.credentials}"
    assert SECRET not in shown
    assert KEYS[0] not in shown
