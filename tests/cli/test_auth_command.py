"""`sellerwatch auth`: tokens for programs, and people who log in."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from sellerwatch.access.login_sessions import LoginKind, LoginSession
from sellerwatch.adapters.passwords import Argon2Passwords
from sellerwatch.kernel.ids import LoginSessionId

from .cli_world import CliWorld, task_id
from .conftest import clean_environment

PASSWORD = "correct horse 건전지 staple"


def piped(world: CliWorld, *arguments: str, given: str = PASSWORD) -> subprocess.CompletedProcess[str]:
    """With a line on standard input, as `pass show x | sellerwatch ...` does."""
    return subprocess.run(
        [sys.executable, "-m", "sellerwatch", "auth", "user", *arguments],
        env=clean_environment(DATABASE_URL=f"sqlite:///{world.file}"),
        input=f"{given}\n",
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_person_is_added_with_a_password_from_standard_input_and_is_on_the_trail(world: CliWorld) -> None:
    done = piped(world, "add", "Minji", "--role", "admin", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (json.loads(done.stdout)["name"], json.loads(done.stdout)["role"]) == ("minji", "admin")
    (user,) = world.see(lambda tx: tx.users.everyone())
    assert Argon2Passwords().check(user.password_hash, PASSWORD)
    (entry,) = world.trail()
    assert (entry.action, entry.subject_id) == ("user.add", "minji")
    shown = f"{world.everything()}{done.stdout}"
    assert PASSWORD not in shown
    assert user.password_hash not in f"{done.stdout}{world.trail()}"
    (listed,) = world.json("auth", "user", "list")["content"]
    assert (listed["name"], listed["mustChange"]) == ("minji", False)
    assert "minji" in world.said("auth", "user", "list")


def test_a_password_and_a_role_are_changed_and_a_person_removed(world: CliWorld) -> None:
    piped(world, "add", "minji", "--role", "viewer")
    before = world.see(lambda tx: tx.users.everyone())[0]
    assert piped(world, "password", "minji", given="another password").returncode == 0
    assert world.said("auth", "user", "role", "minji", "--role", "admin") == "minji has the role admin now.\n"
    (after,) = world.see(lambda tx: tx.users.everyone())
    assert (after.role, after.version) == ("admin", before.version + 2)
    assert world.said("auth", "user", "remove", "minji") == "minji can no longer log in.\n"
    assert world.see(lambda tx: tx.users.everyone()) == []
    assert [e.action for e in world.trail()] == ["user.remove", "user.role", "user.password", "user.add"]
    assert world("auth", "user", "remove", "minji").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (("add", "a b", "--role", "admin"), PASSWORD, "not a valid user name"),
        (("add", "minji", "--role", "admin"), "short", "12 to 200"),
        (("add", "minji", "--role", "admin"), "", "No password was given"),
        (("password", "nobody"), PASSWORD, "There is no user nobody"),
        (("add", "minji", "--role", "root"), PASSWORD, "it must be admin or viewer"),
    ],
)
def test_what_is_refused_changes_nothing(world: CliWorld, arguments: tuple[str, ...], given: str, said: str) -> None:
    before = world.everything()
    done = piped(world, *arguments, given=given)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert world.everything() == before


def test_a_user_is_shown_and_a_dry_run_changes_nothing(world: CliWorld) -> None:
    piped(world, "add", "minji", "--role", "viewer", "--one-time")
    shown = world.json("auth", "user", "show", "minji")
    assert (shown["role"], shown["mustChange"], shown["lastLoginAt"]) == ("viewer", True, None)
    assert "one-time" in world.said("auth", "user", "show", "minji")
    before = world.everything()
    assert world.json("auth", "user", "role", "minji", "--role", "admin", "--dry-run")["role"] == "admin"
    assert world.said("auth", "user", "remove", "minji", "--dry-run") == "minji would be removed.\n"
    assert piped(world, "password", "minji", "--dry-run", given=f"{PASSWORD} again").returncode == 0
    assert piped(world, "add", "another", "--role", "viewer", "--dry-run").returncode == 0
    assert world.everything() == before


def test_every_command_about_users_speaks_korean(world: CliWorld) -> None:
    def said(*arguments: str) -> str:
        done = world("auth", "user", *arguments, LANGUAGE="ko")
        assert done.returncode == 0
        return done.stdout

    assert "아직 로그인할 수 있는 사용자가 없습니다." in said("list")
    piped(world, "add", "minji", "--role", "viewer")
    assert "설정됨" in said("list")
    assert "마지막 로그인" in said("show", "minji")
    assert "역할을 바꿨습니다" in said("role", "minji", "--role", "admin")
    assert "이제 로그인할 수 없습니다" in said("remove", "minji")


def test_a_token_is_made_listed_and_revoked(world: CliWorld) -> None:
    printed = world.said("auth", "token", "--role", "viewer", "--name", "grafana")
    assert printed.count(".") == 2
    (listed,) = world.json("auth", "tokens", "list")["content"]
    assert (listed["name"], listed["role"], listed["lastUsedAt"]) == ("grafana", "viewer", None)
    assert "grafana" in world.said("auth", "tokens", "list")
    before = world.everything()
    assert "would be revoked" in world.said("auth", "tokens", "revoke", listed["tokenId"], "--dry-run")
    assert world.everything() == before
    assert "is revoked" in world.said("auth", "tokens", "revoke", listed["tokenId"])
    assert world("auth", "tokens", "revoke", listed["tokenId"]).returncode == 1
    assert [(e.action, e.subject_id) for e in world.trail()] == [
        ("token.revoke", listed["tokenId"]),
        ("token.create", listed["tokenId"]),
    ]
    assert world("auth", "token", "--role", "viewer", "--name", "api:admin").returncode == 2
    assert printed.strip() not in str(world.everything())


def test_log_ins_are_listed_and_ended(world: CliWorld) -> None:
    now = datetime.now(UTC)
    until = now + timedelta(hours=1)
    session = LoginSession(
        LoginSessionId(task_id()), "minji", LoginKind.CONSOLE, "203.0.113.7", "a browser", now, now, until
    )
    world.do(lambda tx: tx.login_sessions.add(session))
    (listed,) = world.json("auth", "sessions", "list", "--user", "minji")["content"]
    assert (listed["sessionId"], listed["address"]) == (session.session_id, "203.0.113.7")
    assert "203.0.113.7" in world.said("auth", "sessions", "list")
    assert "would be ended" in world.said("auth", "sessions", "end", session.session_id, "--dry-run")
    assert "is ended" in world.said("auth", "sessions", "end", session.session_id)
    assert world.json("auth", "sessions", "list")["content"] == []


def test_a_password_is_never_an_argument(world: CliWorld) -> None:
    for command in ("add", "password"):
        shown = world("auth", "user", command, "--help").stdout
        assert "--password" not in shown
