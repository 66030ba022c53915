"""While the database refuses everything, each 503 says when to come back: on every path of the API and the console."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from tests.web.api_world import ApiWorld
from tests.web.caller import Api
from tests.web.walk import fill, operations

from sellerwatch.adapters.sql.engine import DatabaseUnavailable
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.web.api.app import make_app

from .conftest import Console
from .test_pages import LISTS


class RefusingRunner(InlineRunner):
    """A database thread on which nothing works."""

    async def run(self, function: Any) -> Any:
        raise DatabaseUnavailable(where="here", problem="it is locked")


def refusing(world: ApiWorld) -> FastAPI:
    store = SqlStore(world.store._engine, world.clock, RefusingRunner(), RefusingRunner())
    return make_app(replace(world.parts, service=replace(world.service, store=store)))


async def test_every_503_of_the_api_says_when_to_come_back(console: Console) -> None:
    api, unavailable = Api(refusing(console.world), token=console.world.admin.token), set()
    for method, path, _ in operations(api.app):
        reply = await api.ask(method, fill(path), headers=console.world.internal())
        assert (reply.status == 503) == ("retry-after" in reply.headers), (method, path)
        if reply.status == 503:
            unavailable.add(f"{method} {path}")
    assert {
        "GET /actuator/health",
        "GET /metrics",
        "GET /api/v1/sellers",
        "POST /api/v1/sellers/{sellerId}/deactivate",
    } <= unavailable
    assert len(unavailable) > 60


async def test_every_503_of_the_console_says_when_to_come_back(console: Console) -> None:
    console.admin.app = refusing(console.world)
    for path in LISTS:
        seen = await console.admin.ask("GET", path)
        assert (seen.status, "retry-after" in seen.headers) == (503, True), path
    form = {"form_token": console.admin.token, "user": "admin", "password": "a horse without a battery"}
    for path in ("/login", "/logout"):
        sent = await console.admin.ask("POST", path, form)
        assert (sent.status, "retry-after" in sent.headers) == (503, True), path
