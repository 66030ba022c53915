"""Log-ins and tokens of programs are rows: each can be seen and ended, and what is ended is refused at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from tests.builders import ids

from sellerwatch.access.commands import add_user, create_token, revoke_token, set_password
from sellerwatch.access.queries import ApiTokenView
from sellerwatch.access.users import Role
from sellerwatch.settings.load import load
from sellerwatch.web.api.app import make_app
from sellerwatch.web.api.credentials import Credentials
from sellerwatch.web.serve import credentials_of
from sellerwatch.web.sessions import COOKIE, DEVICE, is_form_token

from .api_world import KEYS, SECRET, ApiWorld
from .caller import Api
from .console.person import Person

PASSWORD, OTHER = "correct horse battery", "another horse, another staple"
HOUR = timedelta(hours=1)


async def add(world: ApiWorld, *names: str, role: Role = Role.VIEWER) -> None:
    hashed = await world.parts.passwords.hash(PASSWORD)
    for name in names:
        await world.command(add_user, name, role, hashed)


async def person(world: ApiWorld, name: str) -> Person:
    made = Person(world.admin.app)
    assert (await made.log_in(name, PASSWORD)).status == 200
    return made


async def token_of(world: ApiWorld, name: str = "nightly", role: Role = Role.ADMIN) -> tuple[ApiTokenView, Api]:
    made = await world.command(create_token, name, role, 9 * HOUR)
    token = world.credentials.issue(name, role, 9 * HOUR, world.now, token_id=made.token_id)
    return made, world.with_token(token)


def is_out(text: str) -> bool:
    return 'name="password"' in text


async def test_a_copy_of_the_cookie_is_worth_nothing_after_log_out(world: ApiWorld) -> None:
    await add(world, "minji")
    minji, thief = await person(world, "minji"), Person(world.admin.app)
    thief.cookies = dict(minji.cookies)
    assert not is_out((await thief.see("/")).text)
    await minji.see("/")
    await minji.send("/logout")
    seen = await thief.ask("GET", "/")
    assert seen.status == 303
    assert "set-cookie" not in seen.headers
    assert is_out((await thief.see("/")).text)
    newest = (await world.read(lambda tx: tx.audit.newest(limit=1)))[0]
    assert (newest.action, newest.actor, newest.subject_id) == ("user.log_out", "console:minji", "minji")


async def test_the_cookie_is_set_at_the_log_in_and_never_again(world: ApiWorld) -> None:
    await add(world, "minji")
    minji = await person(world, "minji")
    kept = minji.cookies[COOKIE]
    for _ in range(5):
        world.clock.time += HOUR * 0.9
        assert not is_out((await minji.see("/")).text)
        assert minji.cookies[COOKIE] == kept


@pytest.mark.parametrize("way", ["logs in", "is reset"])
async def test_another_password_ends_all_log_ins_of_a_user_and_no_others(world: ApiWorld, way: str) -> None:
    await add(world, "minji", "hana")
    minji, hana = await person(world, "minji"), await person(world, "hana")
    body: dict[str, Any] = {"user": "minji", "password": PASSWORD}
    api = world.with_token((await world.nobody.post("/api/v1/auth/login", body)).json["token"])
    if way == "logs in":
        assert (await world.nobody.post("/api/v1/auth/password", {**body, "newPassword": OTHER})).status == 200
    else:
        await world.command(set_password, "minji", await world.parts.passwords.hash(OTHER))
    assert is_out((await minji.see("/")).text)
    assert (await api.get("/api/v1/sellers")).status == 401
    assert not is_out((await hana.see("/")).text)


async def test_log_ins_are_listed_and_ended_by_their_owner_and_by_administrators(world: ApiWorld) -> None:
    await add(world, "minji", "hana")
    await add(world, "boss", role=Role.ADMIN)
    minji, hana, boss = [await person(world, name) for name in ("minji", "hana", "boss")]
    login = (await world.nobody.post("/api/v1/auth/login", {"user": "minji", "password": PASSWORD})).json
    api = world.with_token(login["token"])

    async def users(caller: Api, **query: str) -> list[str]:
        return [each["user"] for each in (await caller.get("/api/v1/auth/sessions", **query)).json["content"]]

    assert sorted(await users(world.admin)) == ["boss", "hana", "minji", "minji"]
    assert await users(world.admin, user="hana") == ["hana"]
    assert await users(api, user="hana") == ["minji", "minji"]
    assert await users(world.viewer) == []
    found = (await world.admin.get("/api/v1/auth/sessions", user="hana")).json["content"][0]
    refused = await api.ask("DELETE", f"/api/v1/auth/sessions/{found['sessionId']}")
    assert (refused.status, refused.json["errorCode"]) == (404, "LOGIN_SESSION_NOT_FOUND")
    assert "hana" not in (await minji.see("/log-ins")).words
    assert (await minji.send(f"/log-ins/{found['sessionId']}/end")).status == 404
    assert not is_out((await hana.see("/")).text)

    assert "hana" in (await boss.see("/log-ins")).words
    assert "hana" in (await boss.see(f"/log-ins/{found['sessionId']}/end")).words
    assert "The log-in was ended." in (await boss.send(f"/log-ins/{found['sessionId']}/end")).words
    assert is_out((await hana.see("/")).text)
    own = f"/api/v1/auth/sessions/{login['sessionId']}"
    assert (await api.ask("DELETE", own, query={"dryRun": "true"})).status == 200
    assert (await api.ask("DELETE", own)).status == 200
    assert (await api.get("/api/v1/auth/me")).status == 401
    assert not is_out((await minji.see("/")).text)


async def test_a_log_in_with_a_cookie_of_an_old_secret_lasts_while_the_secret_is_kept(world: ApiWorld) -> None:
    """JWT_SECRET is replaced with an overlap: the new one first, the old one behind it until its tokens are gone."""
    await add(world, "minji")
    minji, (_, program) = await person(world, "minji"), await token_of(world)
    await minji.see("/")
    for secrets, is_kept in ((f"{'new' * 11},{SECRET}", True), ("new" * 11, False)):
        credentials = Credentials(secrets, world.credentials.issuer, world.credentials.audience, KEYS)
        app = make_app(replace(world.parts, credentials=credentials))
        browser = Person(app, dict(minji.cookies), minji.token)
        assert is_out((await browser.see("/")).text) is not is_kept
        sent = await browser.ask("POST", "/preferences", {"form_token": minji.token, "theme": "dark"})
        assert sent.status == 303
        assert (await Api(app, program.token).get("/api/v1/sellers")).status == (200 if is_kept else 401)
        signed = credentials.issue("x", Role.VIEWER, HOUR, world.now)
        assert (await Api(app, signed).get("/api/v1/sellers")).status == 200
        assert (await world.with_token(signed).get("/api/v1/sellers")).status == 401


@pytest.mark.parametrize(
    ("setting", "still"),
    [
        ("JWT_SECRET", {"cookie", "form"}),
        ("COOKIE_SECRET", {"token", "form"}),
        ("FORM_SECRET", {"token", "cookie"}),
    ],
)
async def test_each_secret_is_replaced_by_itself_with_an_overlap(
    world: ApiWorld, setting: str, still: set[str]
) -> None:
    """With the old one behind the new everything goes on; without it, what it signed ends, and nothing else."""
    old = {"JWT_SECRET": SECRET, "COOKIE_SECRET": "cookie " * 6, "FORM_SECRET": "form " * 8}
    await add(world, "minji")
    _, program = await token_of(world)

    def with_secrets(**secrets: str) -> FastAPI:
        settings = load({f"SELLERWATCH_{name}": value for name, value in secrets.items()}).settings
        return make_app(replace(world.parts, credentials=credentials_of(settings)))

    minji = Person(with_secrets(**old))
    assert (await minji.log_in("minji", PASSWORD)).status == 200
    assert not is_out((await minji.see("/")).text)
    (login,) = await world.read(lambda tx: tx.login_sessions.of("minji"))
    for value, valid in ((f"{'new' * 11},{old[setting]}", {"token", "cookie", "form"}), ("new" * 11, still)):
        app, found = with_secrets(**old | {setting: value}), set[str]()
        if (await Api(app, program.token).get("/api/v1/sellers")).status == 200:
            found.add("token")
        if not is_out((await Person(app, dict(minji.cookies)).see("/")).text):
            found.add("cookie")
        if is_form_token(app.state.parts, login.session_id, minji.token):
            found.add("form")
        assert found == valid


def test_keys_of_one_purpose_are_good_for_no_other() -> None:
    credentials = Credentials(SECRET, "x", "x")
    purposes = ("console cookie", "form token", "known device")
    keys = {key for purpose in purposes for key in credentials.keys_for(purpose)} | {SECRET.encode()}
    assert len(keys) == len(purposes) + 1
    assert not any(key.hex() in repr(credentials) for key in keys)


async def test_a_revoked_token_is_refused_and_its_use_is_seen(world: ApiWorld) -> None:
    made, program = await token_of(world)
    other, another = await token_of(world, "other", Role.VIEWER)
    assert (await program.post("/api/v1/sellers", {"sellerId": "x", "name": "x"})).status == 201
    newest = (await world.read(lambda tx: tx.audit.newest(limit=1)))[0]
    assert newest.actor == "token:nightly"
    world.clock.time += timedelta(minutes=2)
    await program.get("/api/v1/sellers")
    listed = {each["name"]: each for each in (await world.admin.get("/api/v1/tokens")).json["content"]}
    assert listed["nightly"]["lastUsedAt"] > listed["nightly"]["createdAt"]
    assert listed["other"]["lastUsedAt"] is None
    path = f"/api/v1/tokens/{made.token_id}"
    assert (await another.get("/api/v1/tokens")).status == 403
    assert (await another.ask("DELETE", path)).status == 403
    revoked = await world.admin.ask("DELETE", path)
    assert (revoked.status, revoked.json["revokedBy"]) == (200, "token:admin@practice")
    assert (await world.admin.ask("DELETE", path)).json["errorCode"] == "API_TOKEN_REVOKED"
    assert (await program.get("/api/v1/sellers")).status == 401
    assert (await another.get("/api/v1/sellers")).status == 200
    actions = [each.action for each in await world.read(lambda tx: tx.audit.newest(limit=9, subject_type="token"))]
    assert actions == ["token.revoke", "token.create", "token.create"]
    assert (program.token or "x") not in str(await world.all_rows())
    assert other.role is Role.VIEWER


async def test_a_token_with_an_id_that_nobody_made_is_refused(world: ApiWorld) -> None:
    for given in ({"token_id": ids(7).new()}, {"session_id": ids(7).new()}, {"token_id": "x"}):
        token = world.credentials.issue("admin", Role.ADMIN, HOUR, world.now, **given)
        assert (await world.with_token(token).get("/api/v1/sellers")).status == 401


async def test_a_token_named_like_a_user_is_not_that_user(world: ApiWorld) -> None:
    await add(world, "minji")
    await person(world, "minji")
    _, program = await token_of(world, "minji", Role.VIEWER)
    assert (await program.get("/api/v1/auth/sessions")).json["content"] == []
    with pytest.raises(Exception, match="x:y"):
        await world.command(create_token, "x:y", Role.ADMIN, HOUR)


async def test_tokens_are_revoked_on_their_page(world: ApiWorld) -> None:
    await add(world, "boss", role=Role.ADMIN)
    await add(world, "minji")
    made, program = await token_of(world)
    boss, minji = await person(world, "boss"), await person(world, "minji")
    assert (await minji.see("/api-tokens")).status == 403
    assert "nightly" in (await boss.see("/api-tokens")).words
    assert "nightly" in (await boss.see(f"/api-tokens/{made.token_id}/revoke")).words
    assert "The token was revoked." in (await boss.send(f"/api-tokens/{made.token_id}/revoke")).words
    assert (await program.get("/api/v1/sellers")).status == 401


async def test_a_stored_answer_is_not_given_to_who_is_out(world: ApiWorld) -> None:
    made, program = await token_of(world)
    body = {"sellerId": "x", "name": "x"}
    first = await program.ask("POST", "/api/v1/sellers", body, headers={"idempotency-key": "k"})
    assert first.status == 201
    await world.command(revoke_token, made.token_id)
    again = await program.ask("POST", "/api/v1/sellers", body, headers={"idempotency-key": "k"})
    assert again.status == 401


async def guess(stranger: Person, times: int, name: str = "minji") -> set[int]:
    return {
        (await stranger.ask("POST", "/login", {"user": name, "password": "no such horse"})).status for _ in range(times)
    }


async def test_strangers_who_guess_do_not_lock_out_a_known_device(world: ApiWorld) -> None:
    await add(world, "minji", "hana")
    minji = await person(world, "minji")
    assert await guess(Person(world.admin.app), 9) == {401, 429}
    await minji.see("/")
    await minji.send("/logout")
    assert DEVICE in minji.cookies
    assert (await minji.log_in("minji", PASSWORD)).status == 200
    # A device that is new, the device of another user, and one whose cookie is forged share the strangers' count.
    forged = Person(world.admin.app, {DEVICE: f"{minji.cookies[DEVICE][:-2]}xx"})
    for browser in (Person(world.admin.app), await person(world, "hana"), forged):
        asked = await browser.ask("POST", "/login", {"user": "minji", "password": PASSWORD})
        assert asked.status == 429


async def test_a_known_device_that_guesses_waits_like_any_other(world: ApiWorld) -> None:
    await add(world, "minji")
    minji = await person(world, "minji")
    assert await guess(minji, 5) == {401}
    assert await guess(minji, 1) == {429}
    assert (await Person(world.admin.app).log_in("minji", PASSWORD)).status == 200


async def test_many_addresses_together_get_no_more_attempts_at_one_user(world: ApiWorld) -> None:
    await add(world, "minji")
    attempts = [
        await Api(world.nobody.app, client=f"203.0.113.{n}").ask(
            "POST", "/api/v1/auth/login", {"user": "minji", "password": "no such horse"}
        )
        for n in range(12)
    ]
    assert [each.status for each in attempts] == [401] * 5 + [429] * 7


async def test_cookies_of_a_page_that_came_by_https_have_the_host_prefix(world: ApiWorld) -> None:
    await add(world, "minji")
    browser = Person(world.admin.app, scheme="https")
    assert (await browser.log_in("minji", PASSWORD)).status == 200
    assert {f"__Host-{COOKIE}", f"__Host-{DEVICE}"} <= set(browser.cookies)
    plain = {name.removeprefix("__Host-"): value for name, value in browser.cookies.items()}
    assert is_out((await Person(world.admin.app, plain, scheme="https").see("/")).text)


@pytest.mark.parametrize(
    ("origin", "status"), [("https://evil.example", 403), ("null", 403), ("http://test", 401), (None, 401)]
)
async def test_a_log_in_that_another_site_sends_is_refused_by_its_origin(
    world: ApiWorld, origin: str | None, status: int
) -> None:
    await add(world, "minji")
    headers = {"host": "test"} | ({} if origin is None else {"origin": origin})
    browser = Person(world.admin.app, site="")
    sent = await browser.ask("POST", "/login", {"user": "minji", "password": "no such horse"}, headers)
    assert sent.status == status
