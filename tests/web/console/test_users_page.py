"""The users pages: list, add, set role, reset password, remove."""

from __future__ import annotations

from .conftest import Console
from .person import Person

ONE_TIME, OWN = "one time password", "a password of my own"


async def test_an_administrator_adds_a_user_who_then_chooses_a_password(console: Console) -> None:
    assert "Add user" in (await console.admin.see("/users")).words
    assert (await console.admin.see("/add-user")).status == 200
    added = await console.admin.send("/add-user", name="Minji", role="viewer", password=ONE_TIME)
    assert "The user was added." in added.words
    assert "one-time" in added.words
    minji = Person(console.world.admin.app)
    assert 'name="new_password"' in (await minji.log_in("minji", ONE_TIME)).text
    seen = await minji.send("/password", user="minji", password=ONE_TIME, new_password=OWN)
    assert (seen.status, seen.path) == (200, "/")
    assert (await minji.see("/users")).status == 403
    assert 'href="/users"' not in (await minji.see("/")).text


async def test_an_administrator_sets_a_role_resets_a_password_and_removes_a_user(console: Console) -> None:
    for verb in ("role", "password", "remove"):
        assert (await console.admin.see(f"/users/viewer/{verb}")).status == 200
    assert "administrator" in (await console.admin.send("/users/viewer/role", role="admin")).words
    assert 'name="password"' in (await console.viewer.see("/")).text, "the log-in from before is invalid"
    assert "one-time" in (await console.admin.send("/users/viewer/password", password=ONE_TIME)).words
    removed = await console.admin.send("/users/viewer/remove")
    assert "The user was removed." in removed.words
    assert "viewer" not in removed.text.split("<table")[1].split("</table>")[0]


async def test_a_refused_form_says_why(console: Console) -> None:
    await console.admin.see("/add-user")
    refused = await console.admin.send("/add-user", name="a b", role="viewer", password=ONE_TIME, back="/users")
    assert "not a valid user name" in refused.words
    assert (await console.admin.see("/users/nobody")).status == 404


async def test_a_viewer_neither_sees_nor_changes_users(console: Console) -> None:
    for path in ("/users", "/add-user", "/users/admin", "/users/admin/role"):
        assert (await console.viewer.see(path)).status == 403
    await console.viewer.see("/")
    assert (await console.viewer.send("/users/admin/remove")).status == 403
