"""People log in with a name and a password; whoever guesses is slowed down, and learns nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import a_context
from tests.world import all_rows

from sellerwatch.access.commands import add_user, remove_user, set_password, set_role
from sellerwatch.access.users import Role
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.settings.load import load
from sellerwatch.web.api.context import Parts
from sellerwatch.web.serve import first_user

from .api_world import ApiWorld
from .caller import Reply

PASSWORD, ANOTHER = "correct horse battery", "another staple 말과 건전지"


async def add(world: ApiWorld, name: str = "minji", role: Role = Role.ADMIN, **more: Any) -> None:
    hashed = await world.parts.passwords.hash(PASSWORD)
    await world.transact(lambda tx: add_user(tx, a_context(world.clock.now()), name, role, hashed, **more))


async def login(world: ApiWorld, user: str = "minji", password: str = PASSWORD, **headers: str) -> Reply:
    body = {"user": user, "password": password}
    return await world.nobody.ask("POST", "/api/v1/auth/login", body, headers=headers)


async def test_a_name_and_a_password_get_a_token_that_works(world: ApiWorld) -> None:
    await add(world)
    done = await login(world, "MinJi ")
    assert (done.status, done.json["role"], done.json["user"]) == (200, "admin", "minji")
    mine = world.with_token(done.json["token"])
    me = (await mine.get("/api/v1/auth/me")).json
    session_id = done.json["sessionId"]
    assert me["expiresAt"][:19] == done.json["expiresAt"][:19]
    assert (me["user"], me["role"], me["sessionId"]) == ("minji", "admin", session_id)
    made = await mine.post("/api/v1/sellers", {"sellerId": "x", "name": "x"})
    assert made.status == 201
    trail = await world.read(lambda tx: tx.audit.newest(limit=10))
    assert [(e.action, e.actor) for e in trail][:2] == [("seller.register", "api:minji"), ("user.login", "api:minji")]


async def test_a_viewer_who_logged_in_changes_nothing(world: ApiWorld) -> None:
    await add(world, role=Role.VIEWER)
    mine = world.with_token((await login(world)).json["token"])
    assert (await mine.get("/api/v1/sellers")).status == 200
    assert (await mine.post("/api/v1/sellers", {"sellerId": "x", "name": "x"})).status == 403


async def test_a_log_in_ends_with_its_time(world: ApiWorld) -> None:
    await add(world)
    mine = world.with_token((await login(world)).json["token"])
    world.clock.time += timedelta(hours=1)
    refused = await mine.get("/api/v1/sellers")
    assert (refused.status, refused.json["errorCode"]) == (401, "TOKEN_EXPIRED")


@pytest.mark.parametrize("change", ["removed", "another password", "another role", "made anew"])
async def test_a_token_is_void_as_soon_as_its_user_is_changed(world: ApiWorld, change: str) -> None:
    await add(world)
    token, store, now = (await login(world)).json["token"], world.service.crawl.store, world.clock.now()
    mine = world.with_token(token)
    assert (await mine.get("/api/v1/sellers")).status == 200
    if change == "another role":
        await store.transact(lambda tx: set_role(tx, a_context(now), "minji", Role.VIEWER))
    elif change == "another password":
        await store.transact(lambda tx: set_password(tx, a_context(now), "minji", "hash"))
    else:
        await store.transact(lambda tx: remove_user(tx, a_context(now), "minji"))
        if change == "made anew":
            world.clock.time += timedelta(seconds=1)
            await add(world)
    assert (await mine.get("/api/v1/sellers")).status == 401


async def test_an_unknown_user_and_a_wrong_password_get_the_same_answer(world: ApiWorld) -> None:
    await add(world)
    answers = [await login(world, "minji", "wrong" * 4), await login(world, "nobody", PASSWORD)]
    answers.append(await login(world, "' OR 1=1 --", "x"))
    assert {(a.status, a.json["errorCode"], a.json["message"]) for a in answers} == {
        (401, "WRONG_LOGIN", "User or password is wrong.")
    }
    assert len({a.body for a in answers}) == 1


class Counting:
    """Passwords that count the work they do."""

    def __init__(self) -> None:
        self.checked: list[bool] = []

    def hash(self, password: str) -> str:
        return f"hash of {password}"

    def check(self, stored: str | None, password: str) -> bool:
        self.checked.append(stored is not None)
        return stored == f"hash of {password}"


async def test_an_unknown_user_costs_the_same_work(world: ApiWorld, inline_store: SqlStore) -> None:
    """Time cannot be asserted; what takes it can: one check of a password, and as many rows written."""
    counting = Counting()
    object.__setattr__(world.parts.passwords, "_passwords", counting)
    hashed = counting.hash(PASSWORD)
    await inline_store.transact(lambda tx: add_user(tx, a_context(world.clock.now()), "minji", Role.ADMIN, hashed))
    sizes = []
    for user in ("minji", "nobody"):
        before = await inline_store.read(all_rows)
        await login(world, user, "wrong password")
        after = await inline_store.read(all_rows)
        sizes.append({name: len(after[name]) - len(before[name]) for name in ("audit", "users")})
    assert sizes[0] == sizes[1]
    assert counting.checked == [True, False]


async def test_who_guesses_waits_longer_each_time_and_even_the_right_password_waits(world: ApiWorld) -> None:
    await add(world)
    waits = []
    for _ in range(12):
        refused = await login(world, password="wrong password")
        if refused.status == 429:
            assert refused.json["errorCode"] == "TOO_MANY_LOGINS"
            waits.append(int(refused.headers["retry-after"]))
            assert (await login(world)).status == 429
            world.clock.time += timedelta(seconds=waits[-1])
            refused = await login(world, password="wrong password")
        assert refused.status == 401
    assert waits == [1, 2, 4, 8, 16, 32, 60]
    world.clock.time += timedelta(seconds=60)
    assert (await login(world)).status == 200
    assert (await login(world, password="wrong password")).status == 401, "the count began anew"


async def test_an_address_that_tries_many_people_waits_too_and_a_success_does_not_free_it(world: ApiWorld) -> None:
    await add(world)
    for number in range(20):
        assert (await login(world, f"user{number}", "wrong password")).status == 401
        if number < 10:
            assert (await login(world)).status == 200
    refused = await login(world, "user99", "wrong password")
    assert (refused.status, refused.json["errorCode"]) == (429, "TOO_MANY_LOGINS")


async def test_tries_at_once_get_no_further_than_one_after_another(world: ApiWorld) -> None:
    await add(world)
    tried = await asyncio.gather(*(login(world, password=f"wrong password {n}") for n in range(15)))
    assert sorted(reply.status for reply in tried) == [401] * 5 + [429] * 10


async def test_a_restart_forgives_nothing_and_a_day_forgives_all(world: ApiWorld, inline_store: SqlStore) -> None:
    await add(world)
    for _ in range(5):
        await login(world, password="wrong password")
    kept = await inline_store.read(all_rows)
    assert len(kept["login_attempts"]) == 2
    assert (await login(world)).status == 429
    world.clock.time += timedelta(days=1)
    assert (await login(world)).status == 200


async def test_what_is_typed_in_the_wrong_place_is_kept_nowhere(world: ApiWorld, inline_store: SqlStore) -> None:
    await login(world, "my secret password", "minji")
    assert "my secret password" not in str(await inline_store.read(all_rows))


async def test_a_one_time_password_is_good_for_choosing_another_only(world: ApiWorld) -> None:
    password = await first_user(world.parts)
    assert password is not None
    refused = await login(world, "admin", password)
    assert (refused.status, refused.json["errorCode"]) == (403, "PASSWORD_MUST_CHANGE")
    body = {"user": "admin", "password": password, "newPassword": ANOTHER}
    weak = await world.nobody.post("/api/v1/auth/password", {**body, "newPassword": "short"})
    assert (weak.status, weak.json["errorCode"]) == (400, "INVALID_PASSWORD")
    done = await world.nobody.post("/api/v1/auth/password", body)
    assert done.status == 200
    assert (await world.with_token(done.json["token"]).get("/api/v1/auth/me")).json["role"] == "admin"
    again = await world.nobody.post("/api/v1/auth/password", body)
    assert (again.status, again.json["errorCode"]) == (401, "WRONG_LOGIN")
    assert (await login(world, "admin", password)).status == 401
    assert (await login(world, "admin", ANOTHER)).status == 200


async def test_the_first_password_is_made_once_and_kept_only_as_a_hash(world: ApiWorld, inline_store: SqlStore) -> None:
    password = await first_user(world.parts)
    assert password is not None
    assert await first_user(world.parts) is None
    kept = await inline_store.read(all_rows)
    assert password not in str(kept)
    assert [row[1] for row in kept["users"]] == ["admin"]


async def test_a_configured_password_is_the_first_users_and_is_not_told(world: ApiWorld) -> None:
    settings = load({"SELLERWATCH_ADMIN_PASSWORD": PASSWORD}).settings
    assert PASSWORD not in f"{settings!r}{settings}"
    parts = Parts(world.service, settings, world.credentials, world.parts.passwords)
    assert await first_user(parts) is None
    assert (await login(world, "admin")).status == 200


async def test_more_log_ins_than_can_be_checked_are_asked_to_wait(world: ApiWorld) -> None:
    many = await asyncio.gather(*(world.parts.passwords.check(None, "x") for _ in range(40)), return_exceptions=True)
    busy = [each for each in many if isinstance(each, Exception)]
    assert {type(each).__name__ for each in busy} == {"LoginsBusy"}
    assert len(busy) == 20


@pytest.mark.parametrize(
    "body", [{}, {"user": "x"}, {"user": 1, "password": "x"}, {"user": "x", "password": "x" * 201}]
)
async def test_a_log_in_that_cannot_be_read_is_400_and_shows_no_password(world: ApiWorld, body: Any) -> None:
    refused = await world.nobody.post("/api/v1/auth/login", body)
    assert refused.status == 400
    assert "x" * 201 not in refused.body.decode()
