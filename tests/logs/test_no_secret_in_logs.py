"""Errors are provoked wherever a secret passes; no line of the log, in any format, has one of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from tests.builders import NOW, StoppedClock
from tests.simulated_service import settings_of, simulated_service, simulator_of
from tests.web.api_world import KEYS, ApiWorld
from tests.web.caller import Api

from sellerwatch import logs
from sellerwatch.access.passwords import PasswordHasher
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.web.api.app import make_app

PASSWORD, NEW_PASSWORD, COOKIE = "hunter-two-hunter", "hunter-three-hunter", "hunter-four-hunter"


class BrokenPasswords:
    """Passwords that cannot be hashed or checked: a bug in the innermost call that sees one."""

    def hash(self, password: str) -> str:
        raise LookupError("cannot hash")

    def check(self, stored: str | None, password: str) -> bool:
        raise LookupError("cannot check")


class BrokenRunner(InlineRunner):
    """A database thread in which everything raises."""

    async def run(self, function: Any) -> Any:
        raise LookupError("cannot run")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Logging is the process's: put back what a test configured."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers = handlers
    root.setLevel(level)


@pytest.fixture
async def world(inline_store: SqlStore) -> AsyncIterator[ApiWorld]:
    settings, clock = settings_of(), StoppedClock(NOW)
    simulator = simulator_of(settings, seed=1, sellers=2, products=12)
    async with simulated_service(settings, simulator, clock, store=inline_store) as service:
        yield ApiWorld(inline_store, clock, service, settings, simulator)


async def ask_everything(api: Api, token: str) -> list[int]:
    """Every way in which a secret reaches us, and the statuses of the answers."""
    login = orjson.dumps({"user": "admin", "password": PASSWORD, "newPassword": NEW_PASSWORD})
    user = orjson.dumps({"user": "other", "password": NEW_PASSWORD, "role": "viewer"})
    form = f"user=admin&password={PASSWORD}&new_password={NEW_PASSWORD}&next=/".encode()
    as_json, as_form = {"content-type": "application/json"}, {"content-type": "application/x-www-form-urlencoded"}
    session = {"cookie": f"sellerwatch_session={COOKIE}; sellerwatch_flash={COOKIE}; sellerwatch_flash=bnVsbA=="}
    bearer = {"authorization": f"Bearer {token}"}
    key = {"x-api-key": KEYS[0], "idempotency-key": COOKIE}
    replies = [
        await api.ask("POST", "/api/v1/auth/login", raw=login, headers=as_json),
        await api.ask("POST", "/api/v1/auth/password", raw=login, headers=as_json),
        await api.ask("POST", "/api/v1/users", raw=user, headers=as_json | bearer),
        await api.ask("POST", "/login", raw=form, headers=as_form | session),
        await api.ask("POST", "/password", raw=form, headers=as_form | session),
        await api.ask("GET", "/login", headers=session),
        await api.ask("GET", "/", headers=session),
        await api.ask("GET", "/api/v1/sellers", headers=bearer),
        await api.ask("POST", "/api/internal/crawling/trigger", raw=b'{"sellerId": "x"}', headers=as_json | key),
    ]
    return [reply.status for reply in replies]


@pytest.mark.parametrize("form", ["console", "json"])
async def test_no_error_writes_a_secret_to_the_log(
    world: ApiWorld, capsys: pytest.CaptureFixture[str], form: Any
) -> None:
    logs.configure("debug", form)
    token = world.admin.token or ""
    no_passwords = replace(world.parts, passwords=PasswordHasher(BrokenPasswords()))
    broken_store = SqlStore(world.store._engine, world.clock, BrokenRunner(), BrokenRunner())
    no_store = replace(world.parts, service=replace(world.service, store=broken_store))
    statuses = []
    for parts in (world.parts, no_passwords, no_store):
        statuses += await ask_everything(Api(make_app(parts)), token)
    said = capsys.readouterr().err
    assert statuses.count(500) >= 8
    assert said.count("Traceback") >= 8
    for secret in (PASSWORD, NEW_PASSWORD, COOKIE, token, KEYS[0]):
        assert secret not in said
