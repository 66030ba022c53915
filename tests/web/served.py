"""The API on a loopback port, over a real store with its threads: what a client outside meets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aiohttp
from tests.simulated_service import settings_of, simulated_service, simulator_of
from tests.web.api_world import KEYS, SECRET

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.service.service import Service
from sellerwatch.web.api.credentials import Credentials, Role
from sellerwatch.web.serve import api_of, credentials_of

KEY = KEYS[0]


@dataclass(frozen=True)
class Served:
    address: str
    service: Service
    credentials: Credentials

    def headers(self, role: Role = Role.ADMIN, **more: str) -> dict[str, str]:
        now = self.service.crawl.clock.now()
        token = self.credentials.issue(f"{role}@practice", role, timedelta(hours=1), now)
        return {"authorization": f"Bearer {token}", **more}


@asynccontextmanager
async def served(store: SqlStore, **settings: object) -> AsyncIterator[Served]:
    usual = {
        "JWT_SECRET": SECRET,
        "INTERNAL_API_KEYS": KEY,
        "ADMIN_PASSWORD": "correct horse battery",
        "PORT": 0,
        "API_REQUESTS_PER_MINUTE": 1_000_000,
    }
    chosen = settings_of(**(usual | settings))
    simulator, clock = simulator_of(chosen, seed=1, sellers=2, products=12), SystemClock()
    opened = simulated_service(chosen, simulator, clock, store=store)
    async with opened as service, api_of(service, chosen) as serving:
        yield Served(serving.address, service, credentials_of(chosen))


class Watching:
    """An open stream, frame by frame."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def frame(self) -> dict[str, str]:
        """The next that is one; {} at the end. Comments and the hello are passed over."""
        while True:
            lines: dict[str, str] = {}
            async with asyncio.timeout(600):
                while line := (await self.response.content.readline()).decode():
                    if line == "\n":
                        break
                    name, _, value = line.rstrip("\n").partition(": ")
                    lines[name] = value
                else:
                    return {}
            if "event" in lines:
                return lines


@asynccontextmanager
async def watching(api: Served, path: str = "/api/v1/events", **headers: str) -> AsyncIterator[Watching]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{api.address}{path}", headers=api.headers(Role.VIEWER, **headers)) as response,
    ):
        assert response.status == 200, await response.text()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Watching(response)


async def post(api: Served, path: str, body: Any = None) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{api.address}{path}", json=body, headers=api.headers()) as response,
    ):
        return response.status
