"""/api/v1/users: administrators list, add, change and remove users."""

from __future__ import annotations

import pytest
from tests.world import all_rows

from sellerwatch.adapters.sql.store import SqlStore

from .api_world import ApiWorld

PATH = "/api/v1/users"
PASSWORD = "correct horse 건전지 staple"
MINJI = {"name": "minji", "role": "viewer", "password": PASSWORD}


async def add(world: ApiWorld, **changed: object) -> dict[str, object]:
    reply = await world.admin.post(PATH, MINJI | changed)
    assert reply.status == 201
    body: dict[str, object] = reply.json
    return body


async def login(world: ApiWorld, password: str = PASSWORD) -> tuple[int, str | None]:
    reply = await world.nobody.post("/api/v1/auth/login", {"user": "minji", "password": password})
    return reply.status, reply.json.get("errorCode")


async def test_a_user_is_added_with_a_one_time_password(world: ApiWorld) -> None:
    added = await add(world)
    assert (added["name"], added["role"], added["mustChange"], added["lastLoginAt"]) == ("minji", "viewer", True, None)
    assert await login(world) == (403, "PASSWORD_MUST_CHANGE")
    assert (await world.admin.get(f"{PATH}/minji")).json == added
    assert (await world.admin.get(PATH)).json == {"content": [added]}
    assert (await world.admin.post(PATH, MINJI)).json["errorCode"] == "USER_EXISTS"


async def test_role_and_password_are_set_and_old_tokens_become_invalid(world: ApiWorld, inline_store: SqlStore) -> None:
    await add(world, mustChange=False)
    assert (await login(world))[0] == 200
    token = (await world.nobody.post("/api/v1/auth/login", {"user": "minji", "password": PASSWORD})).json["token"]
    changed = await world.admin.ask("PUT", f"{PATH}/minji/role", {"role": "admin"})
    assert (changed.status, changed.json["role"]) == (200, "admin")
    assert (await world.with_token(token).get("/api/v1/auth/me")).status == 401
    reset = await world.admin.ask("PUT", f"{PATH}/minji/password", {"password": f"{PASSWORD} again"})
    assert (reset.status, reset.json["mustChange"]) == (200, True)
    assert await login(world) == (401, "WRONG_LOGIN")
    removed = await world.admin.ask("DELETE", f"{PATH}/minji")
    assert (removed.status, removed.json["name"]) == (200, "minji")
    assert (await world.admin.get(f"{PATH}/minji")).json["errorCode"] == "USER_NOT_FOUND"
    trail = await inline_store.read(lambda tx: tx.audit.newest(limit=20, subject_type="user"))
    actions = [(entry.action, entry.actor) for entry in trail if entry.actor == "token:admin@practice"]
    assert [action for action, _ in actions] == ["user.remove", "user.password", "user.role", "user.add"]


async def test_a_dry_run_changes_nothing(world: ApiWorld, inline_store: SqlStore) -> None:
    await add(world)
    before = await inline_store.read(all_rows)
    assert (await world.admin.post(PATH, MINJI | {"name": "another"}, dryRun="true")).status == 201
    for method, path, body in (
        ("PUT", "/minji/role", {"role": "admin"}),
        ("PUT", "/minji/password", {"password": f"{PASSWORD} again"}),
        ("DELETE", "/minji", None),
    ):
        assert (await world.admin.ask(method, f"{PATH}{path}", body, query={"dryRun": "true"})).status == 200
    assert await inline_store.read(all_rows) == before


async def test_no_password_or_hash_is_answered_or_stored(world: ApiWorld, inline_store: SqlStore) -> None:
    reply = await world.admin.ask("POST", PATH, MINJI, headers={"idempotency-key": "k1"})
    assert PASSWORD not in reply.body.decode()
    assert b"hash" not in reply.body.lower()
    kept = await inline_store.read(all_rows)
    assert kept["idempotency_keys"] == []
    assert PASSWORD not in str(kept)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "a b", "role": "viewer", "password": PASSWORD},
        {"name": "minji", "role": "root", "password": PASSWORD},
        {"name": "minji", "role": "viewer", "password": "short"},
        MINJI | {"surprise": True},
        "text",
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(world: ApiWorld, body: object, inline_store: SqlStore) -> None:
    before = await inline_store.read(all_rows)
    assert (await world.admin.post(PATH, body)).status == 400
    assert await inline_store.read(all_rows) == before


async def test_only_administrators_see_and_change_users(world: ApiWorld) -> None:
    for api, status in ((world.viewer, 403), (world.nobody, 401)):
        assert (await api.get(PATH)).status == status
        assert (await api.post(PATH, MINJI)).status == status
        assert (await api.ask("DELETE", f"{PATH}/minji")).status == status


async def test_the_old_password_is_not_set_again(world: ApiWorld) -> None:
    await add(world, mustChange=False)
    same = await world.admin.ask("PUT", f"{PATH}/minji/password", {"password": PASSWORD})
    assert (same.status, same.json["errorCode"]) == (400, "SAME_PASSWORD")
    assert (await login(world))[0] == 200
    change = {"user": "minji", "password": PASSWORD, "newPassword": PASSWORD}
    assert (await world.nobody.post("/api/v1/auth/password", change)).json["errorCode"] == "SAME_PASSWORD"
