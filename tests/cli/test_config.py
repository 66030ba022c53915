"""`sellerwatch config check`: everything that is wrong at once, and never a secret."""

from __future__ import annotations

import base64
import json
from pathlib import Path

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
