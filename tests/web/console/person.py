"""A person at the pages, without a browser: keeps cookies, follows where it is sent, sends forms as a page has them."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import FastAPI
from tests.web.caller import Api, Reply

TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')


@dataclass(frozen=True)
class Seen:
    """What the person looks at now."""

    status: int
    headers: Mapping[str, str]
    text: str
    path: str

    @property
    def words(self) -> str:
        """What can be read on it: no tags, no attributes."""
        body = re.sub(r"(?s)<(script|style|head)\b.*?</\1>", " ", self.text)
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


@dataclass
class Person:
    app: FastAPI
    cookies: dict[str, str] = field(default_factory=dict)
    token: str = ""
    site: str = "same-origin"
    scheme: str = "http"

    async def see(self, path: str, **headers: str) -> Seen:
        """A page, wherever it leads."""
        seen = await self.ask("GET", path, headers=headers)
        for _ in range(5):
            if seen.status != 303:
                break
            seen = await self.ask("GET", seen.headers["location"])
        found = TOKEN.search(seen.text)
        self.token = found[1] if found else self.token
        return seen

    async def send(self, path: str, **fields: str) -> Seen:
        """A form of a page that was seen, and the page it leads to."""
        seen = await self.ask("POST", path, {"form_token": self.token} | fields)
        return await self.see(seen.headers["location"]) if seen.status == 303 else seen

    async def ask(
        self, method: str, path: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Seen:
        given = {**({"sec-fetch-site": self.site} if self.site else {}), **(headers or {})}
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        raw = None
        if form is not None:
            given["content-type"], raw = "application/x-www-form-urlencoded", urlencode(form).encode()
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        reply, set_cookies = await _asked(self.app, self.scheme, method, parts.path, query, given, raw)
        for cookie in set_cookies:
            name, _, rest = cookie.partition("=")
            value = rest.partition(";")[0].strip('"')
            if value and "Max-Age=0" not in cookie:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
        return Seen(reply.status, reply.headers, reply.body.decode("utf-8", "replace"), path)

    async def log_in(self, user: str, password: str) -> Seen:
        return await self.send("/login", user=user, password=password, next="/")


async def _asked(
    app: FastAPI,
    scheme: str,
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    raw: bytes | None,
) -> tuple[Reply, list[str]]:
    """An answer may set several cookies; the plain caller's headers keep one of each name."""
    cookies: list[str] = []

    async def listening(scope: object, receive: object, send: object) -> None:
        async def note(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                listed = message["headers"]
                assert isinstance(listed, list)
                cookies.extend(value.decode() for name, value in listed if name.lower() == b"set-cookie")
            await send(message)  # type: ignore[operator]

        await app(scope, receive, note)  # type: ignore[arg-type]

    reply = await Api(listening, scheme=scheme).ask(method, path, query=query, headers=headers, raw=raw)  # type: ignore[arg-type]
    return reply, cookies
