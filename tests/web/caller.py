"""Speaks ASGI to the API: one request, one answer, no sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
from fastapi import FastAPI


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(frozen=True)
class Api:
    """The app as one who holds this token sees it."""

    app: FastAPI
    token: str | None = None
    client: str = "127.0.0.1"
    scheme: str = "http"

    async def get(self, path: str, **query: object) -> Reply:
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: Any = None, **query: object) -> Reply:
        return await self.ask("POST", path, body, query=query)

    async def patch(self, path: str, body: Any = None) -> Reply:
        return await self.ask("PATCH", path, body)

    async def all_pages(self, path: str, size: int, **query: object) -> list[Any]:
        """A whole list, page by page."""
        found: list[Any] = []
        cursor = None
        for _ in range(1000):
            reply = await self.get(path, cursor=cursor, size=size, **query)
            assert reply.status == 200, reply.body
            assert len(reply.json["content"]) <= size
            found += reply.json["content"]
            cursor = reply.json["next"]
            if cursor is None:
                return found
        raise AssertionError("a list without an end")

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Reply:
        sent = raw if raw is not None else b"" if body is None else orjson.dumps(body)
        given = {"content-length": str(len(sent)), "host": "practice", **(headers or {})}
        if sent and raw is None:
            given["content-type"] = "application/json"
        if self.token is not None:
            given.setdefault("authorization", f"Bearer {self.token}")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": self.scheme,
            "path": path,
            "raw_path": path.encode(),
            "query_string": urlencode({k: v for k, v in (query or {}).items() if v is not None}).encode(),
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given.items()],
            "client": (self.client, 1),
            "server": ("practice", 80),
            "root_path": "",
        }
        answers: list[dict[str, Any]] = []
        pieces = iter([{"type": "http.request", "body": sent, "more_body": False}])

        async def receive() -> dict[str, Any]:
            return next(pieces, {"type": "http.disconnect"})

        async def send(message: Any) -> None:
            answers.append(message)

        await self.app(scope, receive, send)
        start = next(each for each in answers if each["type"] == "http.response.start")
        body_sent = b"".join(each.get("body", b"") for each in answers if each["type"] == "http.response.body")
        return Reply(start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, body_sent)
