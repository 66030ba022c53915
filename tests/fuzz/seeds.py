"""Good inputs of each target, from which others are made."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import orjson
from tests.marketplaces.bodies import a_detail, a_page, an_entry, an_option

from sellerwatch.settings.model import Settings
from sellerwatch.simulator.events import signature

#: When the seeds' events were signed.
SIGNED_AT = 1_800_000_000
_SECRET = "whsec_" + "c2VsbGVyd2F0Y2g" * 2 + "=="


def http_answers() -> Sequence[bytes]:
    body = b'{"count": 3}'
    packed, deflated = gzip.compress(body, mtime=0), zlib.compress(body)
    ok = b"HTTP/1.1 200 OK\r\n"
    return (
        ok + b"content-type: application/json\r\ncontent-length: 12\r\n\r\n" + body,
        ok + b'transfer-encoding: chunked\r\n\r\n5\r\n{"cou\r\n7;x=y\r\nnt": 3}\r\n0\r\na: b\r\n\r\n',
        ok + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed,
        ok
        + b"content-encoding: deflate\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n" % len(deflated)
        + deflated
        + b"\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + body,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nkeep-alive: timeout=5\r\n\r\n",
        b"HTTP/1.0 429 Too Many\r\nconnection: keep-alive\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n",
    )


def settings() -> Sequence[bytes]:
    given = [
        f"{name.upper()}={field.default}"
        for name, field in Settings.model_fields.items()
        if field.default is not None and not field.is_required()
    ]
    keys = "1:" + "A" * 43 + "="
    server = (
        f"DATABASE_URL=mysql://user:pass-word-pass@db.example:3306/s?ssl_ca=/ca\nREDIS_URL=rediss://:secret-secret@r:6379/0"
        f"\nTOKEN_KEYS={keys}\nJWT_SECRET_FILE={'j' * 40}\nINTERNAL_API_KEYS={'k' * 40}\nHOST=0.0.0.0"
        "\nTRUSTED_PROXIES=10.0.0.0/8, ::1\nALERT_WEBHOOK_URL=https://hooks.example/secret-secret?x=y"
    )
    toml = 'port = 9\nfield_policies = "price=5%"\nquarantine_exempt = "price, stock"\nzone = "Asia/Seoul"\n'
    return (
        "\n".join(given).encode(),
        server.encode(),
        f"PORT=8080\n---\n{toml}".encode(),
        b'\n---\nhost = "127.0.0.1"\n',
    )


def json_bodies() -> Sequence[bytes]:
    return (
        orjson.dumps({"sellerId": "seller_1", "name": "가게", "interval": {"amount": 1, "unit": "DAYS"}}),
        orjson.dumps({"list": [1, -2.5, True, None, "x", {}], "deep": {"name": {"name": [[]]}}}),
        urlencode({"user": "admin", "password": "가 나&=", "empty": ""}).encode(),
    )


def api_requests() -> Sequence[bytes]:
    """A line with method and path, then the body."""
    id_, filters = "0198c0de-0000-7000-8000-000000000001", {"sellerId": "seller_0001", "since": "2h", "until": "1h"}
    dry: Sequence[tuple[str, Any]] = (
        (
            "POST /api/v1/users",
            {"name": "minji", "role": "viewer", "password": "correct horse battery", "mustChange": True},
        ),
        ("PUT /api/v1/users/minji/role", {"role": "viewer"}),
        (
            "POST /api/v1/sellers",
            {"sellerId": "s_1", "name": "가게", "interval": {"amount": 6, "unit": "HOURS"}, "crawlNow": True},
        ),
        ("PATCH /api/v1/sellers/seller_0001/interval", {"crawlingIntervalDays": 1}),
        ("POST /api/v1/sellers/import", {"sellers": [{"sellerId": "s_2", "name": "가게", "interval": "6h"}]}),
        ("POST /api/v1/tasks/retry", {"taskIds": [id_]}),
        ("POST /api/v1/products/resync", {"sellerId": "seller_0001", "since": "2h"}),
        ("POST /api/v1/products/refresh", {"itemNos": [900000001]}),
        (
            "POST /api/v1/outbox/replay",
            {"allFailed": True, "kind": "product", "eventType": "PRODUCT_UPDATED", **filters},
        ),
        ("POST /api/v1/outbox/resend", {"allDelivered": True, "itemNo": 1, **filters}),
        ("POST /api/v1/outbox/pause", {"kind": "product", "reason": "x"}),
        (
            "POST /api/v1/agents",
            {"userAgent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
        ),
        ("POST /api/v1/agents/suspend", {"agents": ["17"], "seconds": 60, "reason": "x"}),
        ("PUT /api/v1/limits/WINDOW_LIMIT", {"value": 80}),
        ("POST /api/v1/marketplace/pause", {"sellerId": "seller_0001"}),
        ("POST /api/v1/quarantine/" + id_ + "/release", {"steps": 10}),
    )
    more: Sequence[tuple[str, Any]] = (
        ("POST /api/v1/auth/login", {"user": "admin", "password": "correct horse battery staple"}),
        ("POST /api/internal/crawling/trigger", {"sellerId": "seller_0001"}),
        ("GET /api/v1/products?sellerId=seller_0001&size=20&cursor=x&changed=2h", None),
        ("GET /api/v1/tasks?status=COMPLETED&sort=createdAt&order=desc&size=20", None),
        ("GET /api/v1/audit?since=2h&actor=x&size=1", None),
    )
    given = [*((f"{line}?dryRun=true", body) for line, body in dry), *more]
    return tuple(line.encode() + (b"" if body is None else b"\n" + orjson.dumps(body)) for line, body in given)


def webhook_signatures() -> Sequence[bytes]:
    body = orjson.dumps({"eventId": "e-1", "eventType": "PRODUCT_UPDATED", "version": 2})
    made = []
    for secret in (_SECRET, "a-plain-secret"):
        signed = signature(secret, "e-1", str(SIGNED_AT), body)
        head = f"webhook-id: e-1\nwebhook-timestamp: {SIGNED_AT}\nwebhook-signature: v1,xyz= {signed}\n"
        made.append(f"{head}secret: {secret}\n\n".encode() + body)
    return made


def marketplace_bodies() -> Sequence[bytes]:
    values: Sequence[Any] = (
        a_page(an_entry(), an_entry(900000002)),
        a_detail(),
        [an_option()],
        an_entry(),
        [],
        a_page(),
    )
    return tuple(orjson.dumps(value) for value in values)


def marketplace_headers() -> Sequence[bytes]:
    robots = b"User-agent: *\nDisallow: /cart\nCrawl-delay: 5\nRequest-rate: 1/10\nAllow: /item\n\nSitemap: https://x.example\n"
    return (
        b'set-cookie: token=abc; Path=/; Max-Age=7200; HttpOnly\nset-cookie: nid="x y"\nretry-after: 120\n\n' + robots,
        b"set-cookie: a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT\nretry-after: Wed, 21 Oct 2026 07:28:00 GMT\n\n"
        + robots,
    )
