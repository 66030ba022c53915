"""`sellerwatch config check`: everything that is wrong at once, and never a secret."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from sellerwatch.compose.check_context import check_context_of
from sellerwatch.reports.checks import find_unsafe
from sellerwatch.reports.severity import Severity
from sellerwatch.settings.load import load
from sellerwatch.settings.model import Settings

from .conftest import Run

SECRET = "correct-horse-battery-staple-0123456789"
KEY = base64.b64encode(bytes(range(32))).decode()


def test_good_settings_are_listed_with_where_each_came_from(run: Run) -> None:
    done = run("config", "check", PORT="9999")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.startswith("SELLERWATCH_")}
    assert set(rows) == {f"SELLERWATCH_{name.upper()}" for name in Settings.model_fields}
    assert rows["SELLERWATCH_PORT"][1:3] == ["9999", "environment"]
    assert rows["SELLERWATCH_PAGE_SIZE"][1:3] == ["500", "default"]
    assert "warning: SELLERWATCH_PRODUCT_SERVER_URL: not set" in done.stdout
    assert "The settings are fine." in done.stdout


def test_with_json_the_same_is_one_object(run: Run, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("page_size = 50\n")
    done = run("config", "check", "--json", PORT="9999", CONFIG="settings.toml")
    said = json.loads(done.stdout)
    assert (done.returncode, said["ok"]) == (0, True)
    assert said["settings"]["SELLERWATCH_PORT"] == {"value": 9999, "from": "environment"}
    assert said["settings"]["SELLERWATCH_PAGE_SIZE"] == {"value": 50, "from": "file"}
    assert said["settings"]["SELLERWATCH_REDIS_URL"] == {"value": None, "from": "default"}
    assert [warning["name"] for warning in said["warnings"]] == ["SELLERWATCH_PRODUCT_SERVER_URL"]


def test_all_faults_are_said_at_once_with_exit_code_2(run: Run) -> None:
    done = run("config", "check", PORT="abc", DATABASEURL="x", WINDOW_LIMIT="0")
    assert (done.returncode, done.stdout) == (2, "")
    first, *listed = done.stderr.splitlines()
    assert first == "error: The settings have 3 faults:"
    assert [line.split(":")[0] for line in listed] == [
        "  - SELLERWATCH_DATABASEURL",
        "  - SELLERWATCH_PORT",
        "  - SELLERWATCH_WINDOW_LIMIT",
    ]


def test_faults_with_json_are_one_object_and_exit_code_2(run: Run) -> None:
    done = run("config", "check", "--json", PORT="abc", DATABASEURL="x")
    assert (done.returncode, done.stderr) == (2, "")
    said = json.loads(done.stdout)
    assert said["ok"] is False
    assert [fault["name"] for fault in said["faults"]] == ["SELLERWATCH_DATABASEURL", "SELLERWATCH_PORT"]


def test_secrets_are_never_printed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"k1:{KEY}\n")
    given = dict.fromkeys(("JWT_SECRET", "PRODUCT_SERVER_SECRET", "INTERNAL_API_KEYS"), SECRET)
    given["TOKEN_KEYS_FILE"] = "keys"
    for arguments in ((), ("--json",)):
        done = run("config", "check", *arguments, **given)
        assert done.returncode == 0
        assert done.stdout.count("hidden") == 4
        assert SECRET not in done.stdout + done.stderr
        assert KEY not in done.stdout + done.stderr
    bad = run("config", "check", **{**given, "JWT_SECRET": "hunter2", "TOKEN_KEYS_FILE": "", "TOKEN_KEYS": KEY})
    assert bad.returncode == 2
    for secret in (SECRET, KEY, "hunter2"):
        assert secret not in bad.stdout + bad.stderr


STRONG = "q8Zr0wT5vLx2NnB7cJk4HsY9uGf3MdEa1PiO6tXy"


def test_what_is_unsafe_to_expose_is_said_with_its_fix_and_exit_code_1(run: Run) -> None:
    unsafe = {
        "DATABASE_URL": "mysql://me:hunter2@db.example/x",
        "REDIS_URL": "redis://:hunter2@cache.example",
        "MARKETPLACE_URL": "http://market.example",
        "PRODUCT_SERVER_URL": "http://shop.example/events",
        "PRODUCT_SERVER_SECRET": "short",
        "TOKEN_KEYS": f"k1:{KEY}",
        "JWT_SECRET": "ab" * 20,
        "INTERNAL_API_KEYS": f"{STRONG},0123",
        "HOST": "0.0.0.0",  # noqa: S104 - this is what is found
    }
    done = run("config", "check", "--deploy", "--json", **unsafe)
    said = json.loads(done.stdout)
    assert (done.returncode, said["ok"]) == (1, False)
    assert [(each["severity"], each["name"].removeprefix("SELLERWATCH_")) for each in said["findings"]] == [
        ("error", name)
        for name in (
            "DATABASE_URL",
            "REDIS_URL",
            "MARKETPLACE_URL",
            "PRODUCT_SERVER_URL",
            "JWT_SECRET",
            "PRODUCT_SERVER_SECRET",
            "INTERNAL_API_KEYS",
            "TRUSTED_PROXIES",
        )
    ]
    shown = run("config", "check", "--deploy", **unsafe)
    assert (shown.returncode, "add ?ssl_ca=/path" in shown.stdout) == (1, True)
    assert not any(secret in done.stdout + shown.stdout for secret in ("hunter2", 'short"', STRONG, "abab"))


def test_on_a_public_address_attention_counts_what_is_unsafe_and_elsewhere_it_does_not() -> None:
    given = {"JWT_SECRET": "ab" * 40, "REDIS_URL": "redis://cache.example"}
    for host, count in (("0.0.0.0", 3), ("127.0.0.1", None)):  # noqa: S104 - this is what is found
        settings = load({f"SELLERWATCH_{name}": value for name, value in {**given, "HOST": host}.items()}).settings
        context = check_context_of(settings)
        assert (context.deployment is None) == (count is None)
        if context.deployment is not None:
            errors = [each for each in find_unsafe(context.deployment) if each.severity is Severity.ERROR]
            assert len(errors) == count


def test_a_deployment_with_tls_strong_secrets_and_a_proxy_is_safe(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(STRONG)
    secret.chmod(0o600)
    safe = {
        "DATABASE_URL": "mysql://me:hunter2@db.example/x?ssl_ca=/ca.pem",
        "REDIS_URL": "rediss://:hunter2@cache.example",
        "PRODUCT_SERVER_URL": "https://shop.example/events",
        "PRODUCT_SERVER_SECRET_FILE": str(secret),
        "TOKEN_KEYS": f"k1:{KEY}",
        "JWT_SECRET": STRONG,
        "INTERNAL_API_KEYS": STRONG,
        "HOST": "0.0.0.0",  # noqa: S104 - this is what is found
        "TRUSTED_PROXIES": "10.0.0.0/8",
    }
    done = run("config", "check", "--deploy", "--json", **safe)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"ok": True, "findings": []})
    secret.chmod(0o644)
    done = run("config", "check", "--deploy", "--json", **safe)
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["severity"], str(secret) in finding["problem"]) == (0, "warning", True)


def test_an_embedded_database_that_others_can_read_is_unsafe(run: Run, tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    database.write_bytes(b"")
    database.chmod(0o644)
    done = run("config", "check", "--deploy", DATABASE_URL=f"sqlite:///{database}")
    assert (done.returncode, "chmod 600" in done.stdout) == (1, True)
    database.chmod(0o600)
    assert run("config", "check", "--deploy", DATABASE_URL=f"sqlite:///{database}").returncode == 0
