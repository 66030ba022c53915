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


def piped(office: CliWorld, *arguments: str, given: str = PASSWORD) -> subprocess.CompletedProcess[str]:
    """With a line on standard input, as `pass show x | sellerwatch ...` does."""
    return subprocess.run(
        [sys.executable, "-m", "sellerwatch", "auth", "user", *arguments],
        env=clean_environment(DATABASE_URL=f"sqlite:///{office.file}"),
        input=f"{given}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_person_is_added_with_a_password_from_standard_input_and_is_on_the_trail(office: CliWorld) -> None:
    done = piped(office, "add", "Minji", "--role", "admin", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (json.loads(done.stdout)["name"], json.loads(done.stdout)["role"]) == ("minji", "admin")
    (user,) = office.see(lambda tx: tx.users.everyone())
    assert Argon2Passwords().check(user.password_hash, PASSWORD)
    (entry,) = office.trail()
    assert (entry.action, entry.subject_id) == ("user.add", "minji")
    shown = f"{office.everything()}{done.stdout}"
    assert PASSWORD not in shown
    assert user.password_hash not in f"{done.stdout}{office.trail()}"
    (listed,) = office.json("auth", "user", "list")["content"]
    assert (listed["name"], listed["mustChange"]) == ("minji", False)
    assert "minji" in office.said("auth", "user", "list")


def test_a_password_and_a_role_are_changed_and_a_person_removed(office: CliWorld) -> None:
    piped(office, "add", "minji", "--role", "viewer")
    before = office.see(lambda tx: tx.users.everyone())[0]
    assert piped(office, "password", "minji", given="another password").returncode == 0
    assert office.said("auth", "user", "role", "minji", "--role", "admin") == "minji has the role admin now.\n"
    (after,) = office.see(lambda tx: tx.users.everyone())
    assert (after.role, after.version) == ("admin", before.version + 2)
    assert office.said("auth", "user", "remove", "minji") == "minji can no longer log in.\n"
    assert office.see(lambda tx: tx.users.everyone()) == []
    assert [e.action for e in office.trail()] == ["user.remove", "user.role", "user.password", "user.add"]
    assert office("auth", "user", "remove", "minji").returncode == 1


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
def test_what_is_refused_changes_nothing(office: CliWorld, arguments: tuple[str, ...], given: str, said: str) -> None:
    before = office.everything()
    done = piped(office, *arguments, given=given)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert office.everything() == before


def test_a_user_is_shown_and_a_dry_run_changes_nothing(office: CliWorld) -> None:
    piped(office, "add", "minji", "--role", "viewer", "--one-time")
    shown = office.json("auth", "user", "show", "minji")
    assert (shown["role"], shown["mustChange"], shown["lastLoginAt"]) == ("viewer", True, None)
    assert "one-time" in office.said("auth", "user", "show", "minji")
    before = office.everything()
    assert office.json("auth", "user", "role", "minji", "--role", "admin", "--dry-run")["role"] == "admin"
    assert office.said("auth", "user", "remove", "minji", "--dry-run") == "minji would be removed.\n"
    assert piped(office, "password", "minji", "--dry-run").returncode == 0
    assert piped(office, "add", "another", "--role", "viewer", "--dry-run").returncode == 0
    assert office.everything() == before


def test_every_command_about_users_speaks_korean(office: CliWorld) -> None:
    def said(*arguments: str) -> str:
        done = office("auth", "user", *arguments, LANGUAGE="ko")
        assert done.returncode == 0
        return done.stdout

    assert "아직 로그인할 수 있는 사용자가 없습니다." in said("list")
    piped(office, "add", "minji", "--role", "viewer")
    assert "설정됨" in said("list")
    assert "마지막 로그인" in said("show", "minji")
    assert "역할을 바꿨습니다" in said("role", "minji", "--role", "admin")
    assert "이제 로그인할 수 없습니다" in said("remove", "minji")


def test_a_token_is_made_listed_and_revoked(office: CliWorld) -> None:
    printed = office.said("auth", "token", "--role", "viewer", "--name", "grafana")
    assert printed.count(".") == 2
    (listed,) = office.json("auth", "tokens", "list")["content"]
    assert (listed["name"], listed["role"], listed["lastUsedAt"]) == ("grafana", "viewer", None)
    assert "grafana" in office.said("auth", "tokens", "list")
    before = office.everything()
    assert "would be revoked" in office.said("auth", "tokens", "revoke", listed["tokenId"], "--dry-run")
    assert office.everything() == before
    assert "is revoked" in office.said("auth", "tokens", "revoke", listed["tokenId"])
    assert office("auth", "tokens", "revoke", listed["tokenId"]).returncode == 1
    assert [(e.action, e.subject_id) for e in office.trail()] == [
        ("token.revoke", listed["tokenId"]),
        ("token.create", listed["tokenId"]),
    ]
    assert office("auth", "token", "--role", "viewer", "--name", "api:admin").returncode == 2
    assert printed.strip() not in str(office.everything())


def test_log_ins_are_listed_and_ended(office: CliWorld) -> None:
    now = datetime.now(UTC)
    until = now + timedelta(hours=1)
    session = LoginSession(
        LoginSessionId(task_id()), "minji", LoginKind.CONSOLE, "203.0.113.7", "a browser", now, now, until
    )
    office.do(lambda tx: tx.login_sessions.add(session))
    (listed,) = office.json("auth", "sessions", "list", "--user", "minji")["content"]
    assert (listed["sessionId"], listed["address"]) == (session.session_id, "203.0.113.7")
    assert "203.0.113.7" in office.said("auth", "sessions", "list")
    assert "would be ended" in office.said("auth", "sessions", "end", session.session_id, "--dry-run")
    assert "is ended" in office.said("auth", "sessions", "end", session.session_id)
    assert office.json("auth", "sessions", "list")["content"] == []


def test_a_password_is_never_an_argument(office: CliWorld) -> None:
    for command in ("add", "password"):
        shown = office("auth", "user", command, "--help").stdout
        assert "--password" not in shown
