"""What every command has: a version, help with an example, exit code 2 for bad usage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sellerwatch import __version__
from sellerwatch.cli.main import exit_code
from sellerwatch.kernel.errors import Conflict, Failed, Invalid, NotFound, SellerwatchError, Unavailable

from .conftest import Run, clean_environment

EXAMPLES = {
    ("db", "upgrade"): "sellerwatch db upgrade",
    ("db", "downgrade"): "sellerwatch db downgrade --to 0003 --yes",
    ("db", "status"): "sellerwatch db status --json",
    ("config", "check"): "sellerwatch config check",
    ("simulator",): "sellerwatch simulator --port 9000 --sellers 3 --products 1000",
}


def test_the_version_is_one_line(run_cold: Run) -> None:
    assert run_cold("--version").stdout == f"sellerwatch {__version__}\n"


def test_the_help_lists_the_commands(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in ("simulator", "db", "config"):
        assert f" {command} " in done.stdout


@pytest.mark.parametrize("command", EXAMPLES, ids=" ".join)
def test_the_help_of_each_command_has_an_example(run: Run, command: tuple[str, ...]) -> None:
    done = run(*command, "--help")
    assert done.returncode == 0
    assert EXAMPLES[command] in [line.strip() for line in done.stdout.splitlines()]
    assert "--json" in done.stdout


@pytest.mark.parametrize("arguments", [("nonsense",), ("db", "status", "--nonsense")], ids=" ".join)
def test_bad_usage_is_exit_code_2(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "nonsense" in done.stderr


@pytest.mark.parametrize(
    ("kind", "code"), [(Invalid, 2), (NotFound, 1), (Conflict, 1), (Unavailable, 1), (Failed, 1), (SellerwatchError, 1)]
)
def test_the_kind_of_an_error_decides_the_exit_code(kind: type[SellerwatchError], code: int) -> None:
    assert exit_code(kind()) == code


def test_a_reader_that_goes_away_ends_it_without_a_word(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sellerwatch", "config", "check"],
            cwd=tmp_path,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_refusal_is_said_in_the_language_of_the_setting(run: Run, database_file: Path) -> None:
    done = run("sellers", "show", "없는판매자", LANGUAGE="ko", DATABASE_URL=f"sqlite:///{database_file}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("오류: 판매자 없는판매자: 등록되어 있지 않습니다.")


def test_wrong_settings_are_said_in_the_language_that_was_asked_for(run: Run) -> None:
    done = run("sellers", "list", LANGUAGE="ko", PORT="x")
    assert done.returncode == 2
    assert done.stderr.startswith("오류: 설정에 잘못된 항목이 1개 있습니다.")
